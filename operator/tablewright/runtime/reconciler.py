"""Passes in a cluster: a key becomes values, a pass over them, and calls to the API server.

Runs in worker threads. It is the `World` of table passes; runs and their Jobs have a pass of their own.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from pyiceberg.catalog import Catalog

from tableformat.declaration import Applied, TableLocation
from tablewright.act.jobs import JobSettings, RunNotPossibleError, build_job
from tablewright.act.passes import observe_for_deletion, reconcile_table
from tablewright.act.runs import build_run
from tablewright.act.tables import drop_table
from tablewright.api.catalog import TableCatalog
from tablewright.api.conditions import IN_SYNC, condition, merged
from tablewright.api.objects import InvalidObjectError, KubernetesObject, Metadata, parse
from tablewright.api.outline import policy_outline, run_outline, table_outline
from tablewright.api.policy import TablePolicy
from tablewright.api.run import MaintenanceRun
from tablewright.api.table import ManagedTable, ManagedTableStatus
from tablewright.decide.claims import older_claim
from tablewright.decide.deletion import FINALIZER, decide_deletion, wants_finalizer
from tablewright.decide.policy import EffectivePolicy, effective_policy
from tablewright.decide.runs import decide_run, waits_for
from tablewright.decide.state import JobObservation, StartRun
from tablewright.observe.jobs import is_finished, observe_job
from tablewright.observe.tables import HealthMemory
from tablewright.runtime.catalogs import OpenCatalogs, parse_catalog
from tablewright.runtime.claims import Claims, pointer_name
from tablewright.runtime.cluster import Cluster, ObjectRefusedError
from tablewright.runtime.locations import KnownLocations
from tablewright.runtime.recorder import Recorder
from tablewright.runtime.store import ObjectStore

logger = logging.getLogger(__name__)

POLL_INTERVAL = timedelta(seconds=60)


@dataclass(frozen=True)
class Key:
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


class Reconciler:
    def __init__(
        self,
        store: ObjectStore,
        claims: Claims,
        cluster: Cluster,
        jobs: JobSettings,
        clock: Callable[[], datetime],
        *,
        recorder: Recorder,
        kubeconfig: str | None = None,
    ) -> None:
        self._store = store
        self._claims = claims
        self._cluster = cluster
        self._jobs = jobs
        self._clock = clock
        self._recorder = recorder
        self._memory = HealthMemory()
        self._locations = KnownLocations(store)
        self._catalogs = OpenCatalogs(store, cluster.read_secret, kubeconfig)

    def reconcile(self, key: Key) -> float | None:
        """One pass; returns in how many seconds the key wants the next one, if time alone can change the outcome."""
        obj = self._store.get(key.kind, key.namespace, key.name)
        if obj is None:
            return None
        being_deleted = bool(obj["metadata"].get("deletionTimestamp"))
        if key.kind == MaintenanceRun.kind_name:
            if not being_deleted:
                self._reconcile_run(obj)
            return None
        return self._delete_table(obj) if being_deleted else self._reconcile_table(obj)

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
        outcome = reconcile_table(table, self, self._memory, now)
        return _seconds_until(_earliest(outcome.look_again_at, self._next_poll(table, now)), now)

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
        observed = observe_for_deletion(table, self, self._memory)
        decision = decide_deletion(table, observed, self.runs_of(table), now)
        for name in decision.stop_runs:
            self._cluster.delete_run(table.metadata.namespace, name)
        if decision.drop is not None:
            drop_table(self.open_catalog(table), table.identifier, purge=decision.drop.purge)
        self._recorder.table_deleted(table, decision)
        if decision.release:
            self._set_finalizer(metadata, wanted=False)
        return _seconds_until(decision.look_again_at, now)

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
        return None if watched else now + POLL_INTERVAL

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
        for name in self._claims.claimants(table.metadata.namespace, pointer_name(table)):
            obj = self._store.get(ManagedTable.kind_name, table.metadata.namespace, name)
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
        self._cluster.create_run(build_run(table, start))

    def other_locations(self, table: ManagedTable, catalog: Catalog) -> Iterable[TableLocation]:
        return self._locations.of(table.metadata.namespace, table.spec.catalog_ref.name, catalog)

    def declaration_applied(self, table: ManagedTable, applied: Applied) -> None:
        if applied.table is not None:
            self._locations.learn(
                table.metadata.namespace, pointer_name(table), applied.table.metadata_location, applied.table.metadata
            )
        self._recorder.declaration_applied(table, applied)

    def write_status(self, table: ManagedTable, status: ManagedTableStatus) -> None:
        self._recorder.table_changed(table, status)
        self._cluster.apply_status(table.plural, table.kind_name, *table.key, status.to_json())

    def _report_invalid(self, obj: KubernetesObject, message: str, now: datetime) -> None:
        metadata = obj["metadata"]
        generation = metadata.get("generation", 1)
        conditions = merged([condition(IN_SYNC, False, "Invalid", message)], (), generation=generation, now=now)
        # What is known of the table stays: without its identity, another table could later be taken for it.
        known = dict(obj.get("status") or {})
        known |= {"observedGeneration": generation, "conditions": [found.to_json() for found in conditions]}
        self._cluster.apply_status(
            ManagedTable.plural, ManagedTable.kind_name, metadata["namespace"], metadata["name"], known
        )

    # -- runs

    def _reconcile_run(self, obj: KubernetesObject) -> None:
        run = run_outline(obj)
        if run is None:
            logger.warning("run %s/%s: left alone, its table and operation cannot be read", *key_of(obj))
            return
        table, catalog, refusal = self._targets(run)
        try:
            parse(MaintenanceRun, obj)
        except InvalidObjectError as error:  # one that has its Job is followed to its end all the same
            refusal = str(error)
        ahead = waits_for(run, self._runs(run.metadata.namespace, run.spec.table_ref.name))
        broken = self.broken_policies(table) if table is not None else ()
        decision = decide_run(run, refusal, self._job_of(run), self._clock(), ahead=ahead, broken_policies=broken)
        if decision.create_job is not None and table is not None and catalog is not None:
            try:
                self._cluster.create_job(build_job(run, table, self.policy_of(table), catalog, self._jobs))
            except (RunNotPossibleError, ObjectRefusedError) as error:
                decision = decide_run(run, str(error), None, self._clock())
        if decision.status != run.status:
            self._recorder.run_changed(run, table, decision.status)
            owned = decision.status.model_copy(update={"progress": None})  # the driver's to write
            self._cluster.apply_status(run.plural, run.kind_name, *run.key, owned.to_json())

    def _targets(self, run: MaintenanceRun) -> tuple[ManagedTable | None, TableCatalog | None, str | None]:
        namespace, name = run.metadata.namespace, run.spec.table_ref.name
        table_obj = self._store.get(ManagedTable.kind_name, namespace, name)
        if table_obj is None:
            return None, None, f"spec.tableRef: there is no ManagedTable {name} in namespace {namespace}"
        try:
            table = parse(ManagedTable, table_obj)
        except InvalidObjectError as error:
            return None, None, str(error)
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
        if job is None:  # deleted, or not seen yet: the store cannot tell, the server can
            job = self._cluster.read_job(namespace, name)
        if job is None:
            return None
        return observe_job(job, self._cluster.pods_of_job(namespace, name) if is_finished(job) else ())


def parse_policy(obj: KubernetesObject) -> TablePolicy:
    return parse(TablePolicy, obj)


def key_of(obj: KubernetesObject) -> tuple[str, str]:
    return obj["metadata"]["namespace"], obj["metadata"]["name"]


def _earliest(*times: datetime | None) -> datetime | None:
    return min((time for time in times if time is not None), default=None)


def _seconds_until(time: datetime | None, now: datetime) -> float | None:
    return None if time is None else max(0.0, (time - now).total_seconds())
