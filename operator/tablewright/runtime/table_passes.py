"""Passes over tables in a cluster: one that is declared, and one whose object is being deleted.

Runs in worker threads. It is the `World` of table passes: what they decide becomes calls to the API server here.
"""

import logging
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from pyiceberg.catalog import Catalog

from tableformat.declaration import Applied, TableLocation
from tableformat.errors import TransientError
from tablewright.act.jobs import label_value
from tablewright.act.passes import RunRefusedError, observe_for_deletion, reconcile_table
from tablewright.act.runs import build_run
from tablewright.act.tables import drop_table, finish_purge, purge_table
from tablewright.api.catalog import TableCatalog
from tablewright.api.conditions import READY, Condition
from tablewright.api.objects import InvalidObjectError, KubernetesObject, Metadata, parse
from tablewright.api.outline import table_outline
from tablewright.api.run import MaintenanceRun
from tablewright.api.table import ManagedTable, ManagedTableStatus
from tablewright.decide.causes import RUN_ANNOTATION
from tablewright.decide.deletion import (
    FINALIZER,
    DeletionDecision,
    DropTable,
    decide_deletion,
    deletion_waits,
    wants_finalizer,
)
from tablewright.decide.policy import EffectivePolicy
from tablewright.decide.schedules import earliest
from tablewright.decide.state import CatalogUnusable, StartRun, TableObservation
from tablewright.decide.validity import failed_pass, unreadable_table_conditions
from tablewright.observe.pods import has_ended
from tablewright.observe.tables import HealthMemory
from tablewright.runtime.catalogs import OpenCatalogs
from tablewright.runtime.cluster import AccessDeniedError, Cluster, ObjectRefusedError
from tablewright.runtime.declared import Declared
from tablewright.runtime.grants import RIGHTS_MISSING
from tablewright.runtime.keys import Key, place_of, seconds_until
from tablewright.runtime.leadership import NotLeadingError
from tablewright.runtime.locations import KnownLocations
from tablewright.runtime.logs import brief
from tablewright.runtime.recorder import Recorder
from tablewright.runtime.store import ObjectStore

logger = logging.getLogger(__name__)

# Reasons of a table's Ready that are about its catalog rather than about the table.
_CATALOG_TROUBLE = frozenset(
    {"CatalogNotOpened", "CatalogUnreachable", "CatalogInvalid", "SecretForbidden", "SecretNotFound", RIGHTS_MISSING}
)


class TableInUseError(TransientError):
    """Somebody may be writing to the table."""


class TablePasses:
    """`wake` is given what is to be looked at though no event says so."""

    def __init__(
        self,
        store: ObjectStore,
        declared: Declared,
        catalogs: OpenCatalogs,
        cluster: Cluster,
        clock: Callable[[], datetime],
        *,
        wake: Callable[[Sequence[Key]], None],
        recorder: Recorder,
        locations: KnownLocations,
        memory: HealthMemory,
        poll_interval: timedelta,
    ) -> None:
        self._store = store
        self._declared = declared
        self._catalogs = catalogs
        self._cluster = cluster
        self._clock = clock
        self._wake = wake
        self._recorder = recorder
        self._locations = locations
        self._memory = memory
        self._poll_interval = poll_interval
        self._deletions_wait: dict[str, datetime] = {}  # by uid of the table's object: since when

    def reconcile(self, obj: KubernetesObject) -> float | None:
        now = self._clock()
        try:
            table = parse(ManagedTable, obj)
        except InvalidObjectError as error:
            self._report_invalid(obj, str(error), now)
            return None
        if wants_finalizer(table) != (FINALIZER in table.metadata.finalizers):
            self._set_finalizer(table.metadata, wanted=wants_finalizer(table))
            return None  # the change is an event, and brings the next pass
        try:
            outcome = reconcile_table(table, self, self._memory, now)
        finally:
            self._locations.release(table)
        if any(each.type == READY and each.reason in _CATALOG_TROUBLE for each in outcome.status.conditions):
            self._look_at_catalog(table)
        return seconds_until(earliest(outcome.look_again_at, self._next_poll(table, now)), now)

    def _look_at_catalog(self, table: ManagedTable) -> None:
        """A table's pass found it in trouble: it must not go on saying that it is ready."""
        key = Key(TableCatalog.kind_name, table.metadata.namespace, table.spec.catalog_ref.name)
        obj = self._store.get(key.kind, key.namespace, key.name) or {}
        said = {each["type"]: each["status"] for each in (obj.get("status") or {}).get("conditions") or ()}
        if said.get(READY) == "True":
            self._wake([key])

    def delete(self, obj: KubernetesObject) -> float | None:
        now = self._clock()
        metadata = Metadata.model_validate(obj["metadata"])
        if FINALIZER not in metadata.finalizers:
            return None
        table = table_outline(obj)
        if table is None:
            logger.warning("table %s/%s: deleted, though nobody can tell which table it is", *place_of(obj))
            self._set_finalizer(metadata, wanted=False)
            return None
        observed = self._observe_for_deletion(table)
        since, rival = self._deletions_wait.get(metadata.uid), self.older_claim(table)
        decision = decide_deletion(table, observed, self.runs_of(table), now, waits_since=since, claimed_by=rival)
        for name in decision.stop_runs:
            self._cluster.delete_run(table.metadata.namespace, name)
        try:
            if decision.drop is not None:
                self._remove_table(obj, table, decision.drop)
        except NotLeadingError:
            raise
        except Exception as error:  # whatever the catalog or the storage says: the object must not wait for ever
            decision = deletion_waits(f"the table cannot be dropped: {brief(error)}", since, now)
        self._release(metadata, table, decision)
        return seconds_until(decision.look_again_at, now)

    def _release(self, metadata: Metadata, table: ManagedTable, decision: DeletionDecision) -> None:
        """Tells what became of the table, and lets the object go, or remembers since when it has to wait."""
        if not decision.release:
            self._deletions_wait.setdefault(metadata.uid, self._clock())  # the try may have taken long
        self._recorder.table_deleted(table, decision)
        if decision.drop is not None:
            # Not on the version that was seen: another pass would tell that the table is not there any more.
            self._cluster.remove_finalizer(ManagedTable.plural, *table.key, metadata.finalizers, FINALIZER)
        elif decision.release:
            self._set_finalizer(metadata, wanted=False)
        if decision.release:
            self._deletions_wait.pop(metadata.uid, None)

    def _remove_table(self, obj: KubernetesObject, table: ManagedTable, drop: DropTable) -> None:
        catalog = self.open_catalog(table)
        if not drop.purge:
            drop_table(catalog, table.identifier)
            return
        self._require_no_pods(table)
        if drop.left_at is None:
            purge_table(catalog, table.identifier, drop.uuid, lambda location: self._note_purge(obj, location))
            return
        try:
            finish_purge(
                catalog, table.identifier, drop.left_at, lambda places: self.overlapping(table, catalog, places)
            )
        finally:
            self._locations.release(table)

    def _require_no_pods(self, table: ManagedTable) -> None:
        """A run that was stopped is gone before its pods are, and they may write until then."""
        pods = self._cluster.pods_of_table(table.metadata.namespace, label_value(table.metadata.name))
        running = [pod["metadata"]["name"] for pod in pods if not has_ended(pod)]
        if running:
            raise TableInUseError(f"pods of its runs have not ended yet: {', '.join(running)}")

    def _note_purge(self, obj: KubernetesObject, metadata_location: str) -> None:
        """Before the pointer goes: after that nothing else would tell what is left to delete."""
        known = obj.get("status") or {}
        if known.get("purging") != metadata_location:
            status = {**known, "purging": metadata_location}
            self._cluster.apply_status(ManagedTable.plural, ManagedTable.kind_name, *place_of(obj), status)

    def _observe_for_deletion(self, table: ManagedTable) -> TableObservation:
        try:
            return observe_for_deletion(table, self, self._memory)
        except NotLeadingError:
            raise
        except Exception as error:  # whatever it is that nobody foresaw: the object must not wait for ever
            return CatalogUnusable("TryingAgain", f"the table cannot be looked at: {brief(error)}")

    def _set_finalizer(self, metadata: Metadata, *, wanted: bool) -> None:
        others = [finalizer for finalizer in metadata.finalizers if finalizer != FINALIZER]
        self._cluster.set_finalizers(
            ManagedTable.plural,
            metadata.namespace,
            metadata.name,
            [*others, FINALIZER] if wanted else others,
            resource_version=metadata.resource_version,
        )

    def _next_poll(self, table: ManagedTable, now: datetime) -> datetime | None:
        """A commit to a ConfigMap is an event; of other catalogs nobody tells us."""
        obj = self._store.get(TableCatalog.kind_name, table.metadata.namespace, table.spec.catalog_ref.name)
        watched = obj is None or (obj.get("spec") or {}).get("configMap") is not None
        return None if watched else now + self._poll_interval

    def open_catalog(self, table: ManagedTable) -> Catalog:
        self._cluster.require_leadership()  # what follows may change a table
        return self._catalogs.open(table.metadata.namespace, table.spec.catalog_ref.name)

    def runs_of(self, table: ManagedTable) -> Sequence[MaintenanceRun]:
        return self._declared.runs_of(table)

    def older_claim(self, table: ManagedTable) -> ManagedTable | None:
        return self._declared.older_claim(table)

    def policy_of(self, table: ManagedTable) -> EffectivePolicy:
        return self._declared.policy_of(table)

    def broken_policies(self, table: ManagedTable) -> Sequence[str]:
        return self._declared.broken_policies(table)

    def start_run(self, table: ManagedTable, start: StartRun) -> None:
        self._recorder.run_created(table, start)
        try:
            self._cluster.create_run(build_run(table, start))
        except (AccessDeniedError, ObjectRefusedError) as error:
            raise RunRefusedError(f"{start.operation} is due, but no run can be created: {error}") from None

    def overlapping(self, table: ManagedTable, catalog: Catalog, places: Sequence[str]) -> TableLocation | None:
        return self._locations.take(table, catalog, places, self._catalogs.open)

    def declaration_applied(self, table: ManagedTable, applied: Applied) -> None:
        if applied.table is not None:
            self._locations.learn(table, applied.table.metadata_location, applied.table.metadata)
        self._recorder.declaration_applied(table, applied)

    def clear_request(self, table: ManagedTable) -> None:
        version = table.metadata.resource_version
        self._cluster.remove_annotation(table.plural, *table.key, RUN_ANNOTATION, resource_version=version)

    def delete_run(self, table: ManagedTable, name: str) -> None:
        logger.info("table %s/%s: deleting the finished run %s", *table.key, name)
        self._cluster.delete_run(table.metadata.namespace, name)

    def pass_failed(self, table: ManagedTable, error: Exception, now: datetime) -> None:
        if isinstance(error, NotLeadingError):
            return
        message = f"the last pass over the table failed, and is tried again ({type(error).__name__}): {brief(error)}"
        status = failed_pass(table, message, now)
        if status != table.status:
            self.write_status(table, status)

    def write_status(self, table: ManagedTable, status: ManagedTableStatus) -> None:
        self._recorder.table_changed(table, status)
        self._cluster.apply_status(table.plural, table.kind_name, *table.key, status.to_json())

    def _report_invalid(self, obj: KubernetesObject, message: str, now: datetime) -> None:
        """What is known of the table stays: without its identity, another table could later be taken for it."""
        known = dict(obj.get("status") or {})
        previous = [Condition.model_validate(each) for each in known.get("conditions") or ()]
        generation = obj["metadata"].get("generation", 1)
        conditions = unreadable_table_conditions(message, previous, generation=generation, now=now)
        said = {"observedGeneration": generation, "conditions": [found.to_json() for found in conditions]}
        if known | said == known:
            return
        table = table_outline(obj)
        if table is not None:
            update = {"observed_generation": generation, "conditions": conditions}
            self._recorder.table_changed(table, table.status.model_copy(update=update))
        self._cluster.apply_status(ManagedTable.plural, ManagedTable.kind_name, *place_of(obj), known | said)
