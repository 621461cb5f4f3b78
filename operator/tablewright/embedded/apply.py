"""Reconciles a folder of declarations: the operator's own passes, with runs carried out here and now.

A run is written down before it starts and keeps its id, so one that was interrupted is taken up again, and recognises
what it had committed.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pyiceberg.catalog import Catalog

from tableformat.catalogs import open_catalog
from tableformat.declaration import Applied
from tablewright.act.jobs import maintenance_job
from tablewright.act.passes import CatalogNotUsableError, reconcile_table
from tablewright.api.catalog import SqlStore, TableCatalog, TableCatalogSpec
from tablewright.api.objects import Metadata
from tablewright.api.run import MaintenanceRun, Phase
from tablewright.api.table import ManagedTable, ManagedTableStatus
from tablewright.decide.policy import EffectivePolicy, effective_policy
from tablewright.decide.runs import decide_run
from tablewright.decide.state import JobObservation, StartRun
from tablewright.embedded.folder import Declarations
from tablewright.embedded.state import EmbeddedState
from tablewright.observe.jobs import read_report
from tablewright.observe.tables import HealthMemory

MOST_PASSES = 10  # in one call; a table that wants more is not converging


@dataclass(frozen=True)
class RunStarted:
    table: ManagedTable
    run: MaintenanceRun


@dataclass(frozen=True)
class RunEnded:
    table: ManagedTable
    run: MaintenanceRun


@dataclass(frozen=True)
class TableDone:
    table: ManagedTable


Event = RunStarted | RunEnded | TableDone


def apply_folder(
    declarations: Declarations, state: EmbeddedState, *, clock: Callable[[], datetime] | None = None
) -> Iterator[Event]:
    """Brings every declared table to its declaration and its health, and tells of it as it happens."""
    now = clock or (lambda: datetime.now(UTC).replace(microsecond=0))
    memory = HealthMemory()
    with state.locked():
        world = _FolderWorld(declarations, state, now)
        for declared in declarations.tables:
            yield from _apply_table(declared, state, world, memory, now)


def _apply_table(
    declared: ManagedTable,
    state: EmbeddedState,
    world: "_FolderWorld",
    memory: HealthMemory,
    now: Callable[[], datetime],
) -> Iterator[Event]:
    table = state.with_status(declared, now())
    interrupted = [run for run in state.runs_of(table) if not run.status.is_finished]
    for run in interrupted:
        yield from world.carry_out(table, run)
    for _ in range(MOST_PASSES):
        table = state.with_status(declared, now())
        outcome = reconcile_table(table, world, memory, now())
        if outcome.started is not None:
            yield from world.carry_out(table, world.run_named(table, outcome.started.name))
        elif outcome.look_again_at is None or outcome.look_again_at > now():
            break
    yield TableDone(state.with_status(declared, now()))


class _FolderWorld:
    """What a pass needs, from a folder: the `World` of `act.passes`."""

    def __init__(self, declarations: Declarations, state: EmbeddedState, now: Callable[[], datetime]) -> None:
        self._catalogs = {catalog.key: catalog for catalog in declarations.catalogs}
        self._tables = declarations.tables
        self._policies = declarations.policies
        self._state = state
        self._now = now
        self._opened: dict[tuple[str, str], Catalog] = {}

    def open_catalog(self, table: ManagedTable) -> Catalog:
        catalog = self.catalog_of(table)
        if catalog.key not in self._opened:
            self._opened[catalog.key] = open_catalog(catalog.config({}))
        return self._opened[catalog.key]

    def catalog_of(self, table: ManagedTable) -> TableCatalog:
        key = (table.metadata.namespace, table.spec.catalog_ref.name)
        if key in self._catalogs:
            return self._catalogs[key]
        if self._catalogs:
            message = f"spec.catalogRef: there is no TableCatalog {key[1]} in namespace {key[0]}: declare it"
            raise CatalogNotUsableError("CatalogNotFound", message)
        return _embedded_catalog(*key, self._state.folder)

    def runs_of(self, table: ManagedTable) -> Sequence[MaintenanceRun]:
        return self._state.runs_of(table)

    def older_claim(self, table: ManagedTable) -> ManagedTable | None:
        """Of a folder's objects none is older: the first by name has the table."""
        return next((other for other in self._tables if _same_table(other, table) and other.key < table.key), None)

    def run_named(self, table: ManagedTable, name: str) -> MaintenanceRun:
        return next(run for run in self._state.runs_of(table) if run.metadata.name == name)

    def policy_of(self, table: ManagedTable) -> EffectivePolicy:
        key = (table.metadata.namespace, table.spec.catalog_ref.name)
        return effective_policy(table, self._policies, self._catalogs.get(key))

    def broken_policies(self, table: ManagedTable) -> Sequence[str]:  # noqa: ARG002
        """None: a folder with an object that cannot be read is refused as a whole."""
        return ()

    def start_run(self, table: ManagedTable, start: StartRun) -> None:
        self._state.create_run(table, start, self._now())

    def declaration_applied(self, table: ManagedTable, applied: Applied) -> None:
        """Nothing: whoever applies a folder reads the status that is printed at the end."""

    def write_status(self, table: ManagedTable, status: ManagedTableStatus) -> None:
        self._state.save_status(table, status)

    def carry_out(self, table: ManagedTable, run: MaintenanceRun) -> Iterator[Event]:
        yield RunStarted(table, run)
        started = run.status.model_copy(update={"phase": Phase.RUNNING, "start_time": self._now()})
        self._state.save_run(run, started)
        job = self._run_driver(table, run)
        decision = decide_run(run.model_copy(update={"status": started}), None, job, self._now())
        self._state.save_run(run, decision.status)
        yield RunEnded(table, run.model_copy(update={"status": decision.status}))

    def _run_driver(self, table: ManagedTable, run: MaintenanceRun) -> JobObservation:
        """The run's driver as a process of its own, as it is a pod of its own in a cluster."""
        job = maintenance_job(run, table, self.policy_of(table), self.catalog_of(table)).model_copy(
            update={"run": None}
        )
        with tempfile.TemporaryDirectory(prefix="tablewright-run-") as scratch:
            report = Path(scratch) / "report.json"
            environment = {
                **os.environ,
                "TABLEWRIGHT_JOB": job.model_dump_json(),
                "TABLEWRIGHT_TERMINATION_LOG": str(report),
            }
            ended = subprocess.run([sys.executable, "-m", "tablejobs"], env=environment, check=False)
            text = report.read_text() if report.exists() else ""
        succeeded = ended.returncode == 0
        return JobObservation(
            active=False,
            succeeded=succeeded,
            failed=not succeeded,
            failure=f"the driver ended with code {ended.returncode}",
            report=read_report(text),
        )


def _same_table(one: ManagedTable, other: ManagedTable) -> bool:
    place = one.metadata.namespace, one.spec.catalog_ref, one.identifier
    return place == (other.metadata.namespace, other.spec.catalog_ref, other.identifier)


def _embedded_catalog(namespace: str, name: str, folder: Path) -> TableCatalog:
    """The default where a folder declares no catalog: SQLite and a warehouse beside the state."""
    warehouse = folder.resolve() / "warehouse"
    warehouse.mkdir(parents=True, exist_ok=True)
    spec = TableCatalogSpec(
        sql=SqlStore(uri=f"sqlite:///{folder.resolve() / 'catalog.db'}"), warehouse=f"file://{warehouse}"
    )
    return TableCatalog(metadata=Metadata(name=name, namespace=namespace), spec=spec)
