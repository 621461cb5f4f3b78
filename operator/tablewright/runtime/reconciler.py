"""Passes in a cluster: a key becomes values, a pass over them, and calls to the API server.

Runs in worker threads. It is the `World` of table passes; runs and their Jobs have a pass of their own.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from kubernetes.client.exceptions import ApiException
from pyiceberg.catalog import Catalog

from tableformat.declaration import Applied, TableLocation
from tableformat.errors import TransientError
from tablewright.act.jobs import JobSettings, RunNotPossibleError, build_job, label_value
from tablewright.act.passes import CatalogNotUsableError, RunRefusedError, observe_for_deletion, reconcile_table
from tablewright.act.runs import build_run
from tablewright.act.tables import drop_table, finish_purge, purge_table
from tablewright.api.catalog import TableCatalog
from tablewright.api.conditions import READY, VALID, Condition
from tablewright.api.objects import InvalidObjectError, KubernetesObject, Metadata, parse
from tablewright.api.outline import policy_outline, run_outline, table_outline
from tablewright.api.policy import TablePolicy
from tablewright.api.run import MaintenanceRun
from tablewright.api.table import ManagedTable, ManagedTableStatus
from tablewright.decide.causes import RUN_ANNOTATION
from tablewright.decide.claims import claimant, older_claim
from tablewright.decide.deletion import (
    FINALIZER,
    DeletionDecision,
    DropTable,
    decide_deletion,
    deletion_waits,
    wants_finalizer,
)
from tablewright.decide.limits import Place
from tablewright.decide.policy import EffectivePolicy, effective_policy
from tablewright.decide.requests import not_allowed
from tablewright.decide.runs import Waiting, decide_run, runs_out_of_memory, waits_for, why_it_waits
from tablewright.decide.schedules import earliest
from tablewright.decide.state import CatalogUnusable, JobObservation, StartRun, TableObservation
from tablewright.decide.validity import Problem, failed_pass, unreadable_table_conditions, usability_status
from tablewright.observe.jobs import is_finished, is_settled, observe_job
from tablewright.observe.pods import has_ended
from tablewright.observe.tables import HealthMemory
from tablewright.runtime.catalogs import OpenCatalogs, parse_catalog
from tablewright.runtime.claims import Claims
from tablewright.runtime.cluster import AccessDeniedError, Cluster, NameTakenError, ObjectRefusedError, owners
from tablewright.runtime.leadership import NotLeadingError
from tablewright.runtime.line import RunLine
from tablewright.runtime.locations import KnownLocations
from tablewright.runtime.logs import brief
from tablewright.runtime.recorder import Recorder
from tablewright.runtime.store import ObjectStore

logger = logging.getLogger(__name__)

POLL_INTERVAL = timedelta(seconds=60)  # of catalogs that tell nobody of commits
JOB_INTERVAL = timedelta(seconds=30)  # of trying to create a Job that is not allowed
UNUSABLE_SECONDS = 30.0  # nobody tells us when a Secret is there, or a server is back
CATALOG_SECONDS = 60.0  # nor when one is gone


# Reasons of a table's Ready that are about its catalog rather than about the table.
_CATALOG_TROUBLE = frozenset(
    {"CatalogNotOpened", "CatalogUnreachable", "CatalogInvalid", "SecretForbidden", "SecretNotFound"}
)


class TableInUseError(TransientError):
    """Somebody may be writing to the table."""


@dataclass(frozen=True)
class Key:
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


class Reconciler:
    """`wake` is given what is to be looked at though no event says so."""

    def __init__(
        self,
        store: ObjectStore,
        claims: Claims,
        line: RunLine,
        cluster: Cluster,
        jobs: JobSettings,
        clock: Callable[[], datetime],
        *,
        wake: Callable[[Sequence[Key]], None],
        recorder: Recorder,
        locations: KnownLocations,
        memory: HealthMemory,
        kubeconfig: str | None = None,
        poll_interval: timedelta = POLL_INTERVAL,
    ) -> None:
        self._store = store
        self._claims = claims
        self._line = line
        self._cluster = cluster
        self._jobs = jobs
        self._clock = clock
        self._wake = wake
        self._recorder = recorder
        self._memory = memory
        self._locations = locations
        self._poll_interval = poll_interval
        self._catalogs = OpenCatalogs(store, cluster.read_secret, kubeconfig)
        self._deletions_wait: dict[str, datetime] = {}  # by uid of the table's object: since when

    def reconcile(self, key: Key) -> float | None:
        """One pass; returns in how many seconds the key wants the next one, if time alone can change the outcome."""
        obj = self._store.get(key.kind, key.namespace, key.name)
        if obj is None:
            return None
        being_deleted = bool(obj["metadata"].get("deletionTimestamp"))
        if key.kind == MaintenanceRun.kind_name:
            return None if being_deleted else self._reconcile_run(obj)
        if key.kind == TablePolicy.kind_name:
            return self._report_usability(TablePolicy, VALID, obj, lambda: parse(TablePolicy, obj))
        if key.kind == TableCatalog.kind_name:
            return self._report_usability(TableCatalog, READY, obj, lambda: self._catalogs.probe(*key_of(obj)))
        return self._delete_table(obj) if being_deleted else self._reconcile_table(obj)

    # -- policies and catalogs, which speak for themselves

    def _report_usability(
        self, model: type[TablePolicy | TableCatalog], kind: str, obj: KubernetesObject, use: Callable[[], object]
    ) -> float | None:
        problem = None
        try:
            use()
        except InvalidObjectError as error:
            problem = Problem("Invalid", str(error))
        except CatalogNotUsableError as error:
            problem = Problem(error.reason, str(error))
        except Exception as error:  # whatever a catalog's client raises; its words may hold more than people should see
            problem = Problem("NotOpened", f"it cannot be opened: {type(error).__name__}")
        metadata, known = obj["metadata"], obj.get("status") or {}
        previous = [Condition.model_validate(each) for each in known.get("conditions") or ()]
        generation = metadata.get("generation", 1)
        status = usability_status(kind, problem, previous, generation=generation, now=self._clock())
        if status != known:
            self._cluster.apply_status(model.plural, model.kind_name, *key_of(obj), status)
        if problem is None:
            return CATALOG_SECONDS if model is TableCatalog else None
        return None if problem.reason in ("Invalid", "CatalogInvalid") else UNUSABLE_SECONDS

    # -- tables, and the world of their passes

    def _reconcile_table(self, obj: KubernetesObject) -> float | None:
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
        return _seconds_until(earliest(outcome.look_again_at, self._next_poll(table, now)), now)

    def _look_at_catalog(self, table: ManagedTable) -> None:
        """A table's pass found it in trouble: it must not go on saying that it is ready."""
        key = Key(TableCatalog.kind_name, table.metadata.namespace, table.spec.catalog_ref.name)
        obj = self._store.get(key.kind, key.namespace, key.name) or {}
        said = {each["type"]: each["status"] for each in (obj.get("status") or {}).get("conditions") or ()}
        if said.get(READY) == "True":
            self._wake([key])

    def _delete_table(self, obj: KubernetesObject) -> float | None:
        now = self._clock()
        metadata = Metadata.model_validate(obj["metadata"])
        if FINALIZER not in metadata.finalizers:
            return None
        table = table_outline(obj)
        if table is None:
            logger.warning("table %s/%s: deleted, though nobody can tell which table it is", *key_of(obj))
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
        return _seconds_until(decision.look_again_at, now)

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
            self._cluster.apply_status(ManagedTable.plural, ManagedTable.kind_name, *key_of(obj), status)

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
        return self._runs(*table.key)

    def _runs(self, namespace: str, table: str) -> list[MaintenanceRun]:
        outlines = [run_outline(obj) for obj in self._store.runs_of(namespace, table)]
        return [run for run in outlines if run is not None]

    def older_claim(self, table: ManagedTable) -> ManagedTable | None:
        others = []
        for place in self._claims.rivals(*table.key):
            obj = self._store.get(ManagedTable.kind_name, *place)
            other = None if obj is None else table_outline(obj)
            if other is not None:
                others.append(other)
        return older_claim(table, others)

    def policy_of(self, table: ManagedTable) -> EffectivePolicy:
        return effective_policy(table, self._policies(table)[0], self._catalog_of(table))

    def _catalog_of(self, table: ManagedTable) -> TableCatalog | None:
        """None where it is not there or cannot be read; nothing is maintained then."""
        obj = self._store.get(TableCatalog.kind_name, table.metadata.namespace, table.spec.catalog_ref.name)
        try:
            return None if obj is None else self._store.derived(parse_catalog, obj)
        except InvalidObjectError:
            return None

    def broken_policies(self, table: ManagedTable) -> Sequence[str]:
        return self._policies(table)[1]

    def _policies(self, table: ManagedTable) -> tuple[list[TablePolicy], list[str]]:
        """The policies that can be read; and of those that select the table and cannot, what is wrong with them."""
        readable, broken = [], []
        for obj in self._store.list(TablePolicy.kind_name, table.metadata.namespace):
            try:
                readable.append(self._store.derived(parse_policy, obj))
            except InvalidObjectError as error:
                outline = policy_outline(obj)
                if outline is None or outline.spec.selector.selects(table.metadata.labels):
                    broken.append(str(error))
        return readable, sorted(broken)

    def start_run(self, table: ManagedTable, start: StartRun) -> None:
        self._recorder.run_created(table, start)
        try:
            self._cluster.create_run(build_run(table, start))
        except (AccessDeniedError, ObjectRefusedError) as error:
            raise RunRefusedError(f"{start.operation} is due, but no run can be created: {error}") from None

    def overlapping(self, table: ManagedTable, catalog: Catalog, places: Sequence[str]) -> TableLocation | None:
        return self._locations.take(table, catalog, places)

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
        self._cluster.apply_status(ManagedTable.plural, ManagedTable.kind_name, *key_of(obj), known | said)

    # -- runs

    def _reconcile_run(self, obj: KubernetesObject) -> float | None:
        run, now = run_outline(obj), self._clock()
        if run is None:
            logger.warning("run %s/%s: left alone, its table and operation cannot be read", *key_of(obj))
            return None
        if not run.status.is_finished and run.status.job_name is None and self._is_ahead_of_watches(run):
            return None  # the event that is to come brings the next pass
        table, catalog, refusal = self._targets(run)
        try:
            parse(MaintenanceRun, obj)
        except InvalidObjectError as error:  # one that has its Job is followed to its end all the same
            refusal = str(error)
        job = self._job_of(run)
        is_new = job is None and refusal is None and not run.status.is_finished and run.status.job_name is None
        waiting = self._wait(run, table, now) if is_new and table is not None else None
        decision = decide_run(run, refusal, job, now, waiting=waiting)
        if decision.create_job is not None and table is not None and catalog is not None:
            try:
                self._create_job(run, table, catalog)
            except (RunNotPossibleError, ObjectRefusedError) as error:
                decision = decide_run(run, str(error), None, now)
            except (AccessDeniedError, NameTakenError, ApiException) as error:  # nobody tells us when that is mended
                self._make_way(run)
                waiting = Waiting(brief(error), now + JOB_INTERVAL, "JobNotCreated")
                decision = decide_run(run, None, None, now, waiting=waiting)
            except Exception:  # whatever it is: others must not wait for it
                self._make_way(run)
                raise
        if decision.status != run.status:
            self._recorder.run_changed(run, table, decision.status)
            owned = decision.status.model_copy(update={"progress": None})  # the driver's to write
            self._cluster.apply_status(run.plural, run.kind_name, *run.key, owned.to_json())
        return _seconds_until(decision.look_again_at, now)

    def _wait(self, run: MaintenanceRun, table: ManagedTable, now: datetime) -> Waiting | None:
        """What the run waits for: something of its table's, or its turn among all runs, which is taken if it came."""
        policy = self.policy_of(table)
        ahead = waits_for(run, self.runs_of(table), policy, now)
        own = why_it_waits(run, ahead, policy, self.broken_policies(table), now)
        if own is not None:
            self._make_way(run)
            return own
        turn = self._line.ask(Place(*run.key))
        return None if turn is None else Waiting(turn)

    def _make_way(self, run: MaintenanceRun) -> None:
        """For runs that may wait for nothing else: no event tells them of it."""
        self._wake([Key(MaintenanceRun.kind_name, *place) for place in self._line.step_aside(Place(*run.key))])

    def _create_job(self, run: MaintenanceRun, table: ManagedTable, catalog: TableCatalog) -> None:
        try:
            failed = runs_out_of_memory(run, self.runs_of(table))
            job = build_job(run, table, self.policy_of(table), catalog, self._jobs, out_of_memory=failed)
            self._cluster.create_job(job)
        except Exception:
            self._line.give_back(Place(*run.key), run.metadata.creation_timestamp or self._clock())
            raise

    def _is_ahead_of_watches(self, run: MaintenanceRun) -> bool:
        """Whether the run's table or its catalog is there, and only no watch has told of it: each kind has its own."""
        namespace, name = run.metadata.namespace, run.spec.table_ref.name
        table = self._store.get(ManagedTable.kind_name, namespace, name)
        if table is None:
            return self._cluster.read(ManagedTable.plural, namespace, name) is not None
        catalog = table["spec"]["catalogRef"]["name"]
        known = self._store.get(TableCatalog.kind_name, namespace, catalog)
        return known is None and self._cluster.read(TableCatalog.plural, namespace, catalog) is not None

    def _targets(self, run: MaintenanceRun) -> tuple[ManagedTable | None, TableCatalog | None, str | None]:
        namespace, name = run.metadata.namespace, run.spec.table_ref.name
        table_obj = self._store.get(ManagedTable.kind_name, namespace, name)
        if table_obj is None:
            return None, None, f"spec.tableRef: there is no ManagedTable {name} in namespace {namespace}"
        try:
            table = parse(ManagedTable, table_obj)
        except InvalidObjectError as error:
            return None, None, str(error)
        rival = self.older_claim(table)
        if rival is not None:
            return (
                table,
                None,
                f"the table is the older ManagedTable {claimant(rival, seen_from=table)}'s: make a run of that one",
            )
        refusal = not_allowed(table, run.spec.operation, dry_run=run.spec.dry_run)
        if refusal is not None:
            return table, None, refusal
        catalog_name = table.spec.catalog_ref.name
        catalog_obj = self._store.get(TableCatalog.kind_name, namespace, catalog_name)
        if catalog_obj is None:
            return table, None, f"ManagedTable {name}: there is no TableCatalog {catalog_name} in {namespace}"
        try:
            return table, self._store.derived(parse_catalog, catalog_obj), None
        except InvalidObjectError as error:
            return table, None, str(error)

    def _job_of(self, run: MaintenanceRun) -> JobObservation | None:
        namespace, name = run.key
        if run.status.is_finished:
            return None
        job = self._store.get("Job", namespace, name)
        if run.metadata.uid not in owners(job):  # deleted, or not seen yet: the store cannot tell, the server can
            job = self._cluster.read_job(namespace, name)
        if job is None or run.metadata.uid not in owners(job):  # a run of the same name may have had it before
            return None
        if is_settled(job) and not is_finished(job):
            return observe_job(job, ())
        pods = self._cluster.pods_of_job(namespace, name)
        return observe_job(job, pods, () if pods else self._cluster.events_about_job(namespace, name))


def parse_policy(obj: KubernetesObject) -> TablePolicy:
    return parse(TablePolicy, obj)


def key_of(obj: KubernetesObject) -> tuple[str, str]:
    return obj["metadata"]["namespace"], obj["metadata"]["name"]


def _seconds_until(time: datetime | None, now: datetime) -> float | None:
    return None if time is None else max(0.0, (time - now).total_seconds())
