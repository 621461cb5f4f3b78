"""Reconciles a folder of declarations: the operator's own passes, with runs carried out here and now.

Different tables have their runs side by side, as many as there are cores; those of one table follow each other. A run
is written down before it starts and keeps its id, so one that was interrupted is taken up again, and recognises what it
had committed.
"""

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pyiceberg.catalog import Catalog

from tableformat.declaration import Applied, TableLocation, overlapping_table
from tableformat.maintenance.job import MaintenanceJob
from tablewright.act.catalogs import open_declared
from tablewright.act.jobs import maintenance_job
from tablewright.act.passes import reconcile_table
from tablewright.api.catalog import TableCatalog
from tablewright.api.conditions import READY
from tablewright.api.run import MaintenanceRun, Operation, Phase
from tablewright.api.table import HoldState, ManagedTable, ManagedTableStatus
from tablewright.decide.bookkeeping import forgiven
from tablewright.decide.policy import EffectivePolicy, effective_policy
from tablewright.decide.runs import decide_run
from tablewright.decide.schedules import next_opening
from tablewright.decide.state import JobObservation, StartRun
from tablewright.embedded.catalogs import catalog_of
from tablewright.embedded.driver import DriverEnded, DriverProgress, Drivers
from tablewright.embedded.folder import Declarations
from tablewright.embedded.state import EmbeddedState, LockHolder
from tablewright.observe.jobs import read_report
from tablewright.observe.tables import HealthMemory

_AWAY = frozenset({"CatalogUnreachable", "StorageUnreachable", "TryingAgain"})
RUNS_AT_ONCE = len(os.sched_getaffinity(0))
MOST_PASSES = 10  # in one call; a table that wants more is not converging


@dataclass(frozen=True)
class RunStarted:
    table: ManagedTable
    run: MaintenanceRun


@dataclass(frozen=True)
class RunProgressed:
    table: ManagedTable
    run: MaintenanceRun
    progress: DriverProgress


@dataclass(frozen=True)
class RunEnded:
    table: ManagedTable
    run: MaintenanceRun


@dataclass(frozen=True)
class LockAwaited:
    """Another process works on the folder; this one goes on when that one has ended."""

    holder: LockHolder


@dataclass(frozen=True)
class TableChanged:
    """What was done to the table's definition and its holds, a sentence each."""

    table: ManagedTable
    done: tuple[str, ...]


@dataclass(frozen=True)
class TableDone:
    table: ManagedTable
    window_opens_at: datetime | None = None
    """When maintenance that the table needs may begin, where it only waits for that."""


@dataclass(frozen=True)
class TableForgotten:
    """Its object is declared no more; the table itself is left as it is."""

    key: str


@dataclass(frozen=True)
class _Order:
    """A table's next run, for a driver; the table goes on when it is told of the run's end."""

    table: ManagedTable
    run: MaintenanceRun
    job: MaintenanceJob


Event = LockAwaited | TableChanged | RunStarted | RunProgressed | RunEnded | TableDone | TableForgotten
_Steps = Generator[Event | _Order, DriverEnded | None, None]


def apply_folder(
    declarations: Declarations,
    state: EmbeddedState,
    *,
    clock: Callable[[], datetime] | None = None,
    by_itself: bool = False,
) -> Iterator[Event]:
    """Brings every declared table to its declaration and its health, and tells of it as it happens.

    What failed is tried again at once, since somebody asks for it; `by_itself`, again and again, it backs off.
    """
    now = clock or (lambda: datetime.now(UTC).replace(microsecond=0))
    memory = HealthMemory()
    holder = state.holder()
    if holder is not None:
        yield LockAwaited(holder)
    with state.locked():
        state.refuse_other_tables(declarations.tables)
        for key in state.forget_gone(declarations.tables, declarations.given):
            yield TableForgotten(key)
        world = _FolderWorld(declarations, state, now)
        tables = (
            _apply_table(declared, state, world, memory, now, by_itself=by_itself) for declared in declarations.tables
        )
        with Drivers(inherited=state.lock_descriptors, within=state.folder) as drivers:
            yield from _side_by_side(tables, drivers)


def _side_by_side(tables: Iterator[_Steps], drivers: Drivers) -> Iterator[Event]:
    """Begins as many tables as may have a run at once. An error that ends one of them lets the others end first."""
    under_way: dict[str, tuple[_Order, _Steps]] = {}
    errors: list[Exception] = []

    def go_on(steps: _Steps, ended: DriverEnded | None = None) -> Iterator[Event]:
        try:
            step = next(steps) if ended is None else steps.send(ended)
            while not isinstance(step, _Order):
                yield step
                step = next(steps)
            drivers.start(step.job)
            under_way[step.job.run_id] = step, steps
        except StopIteration:
            pass
        except Exception as error:
            errors.append(error)

    for steps in tables:
        yield from go_on(steps)
        while len(under_way) >= RUNS_AT_ONCE:
            yield from _heard(drivers, under_way, go_on)
    while under_way:
        yield from _heard(drivers, under_way, go_on)
    if errors:
        raise errors[0]


def _heard(
    drivers: Drivers,
    under_way: dict[str, tuple[_Order, _Steps]],
    go_on: Callable[[_Steps, DriverEnded], Iterator[Event]],
) -> Iterator[Event]:
    for run_id, event in drivers.look():
        if isinstance(event, DriverProgress):
            order, _ = under_way[run_id]
            yield RunProgressed(order.table, order.run, event)
        else:
            _, steps = under_way.pop(run_id)
            yield from go_on(steps, event)


def _apply_table(
    declared: ManagedTable,
    state: EmbeddedState,
    world: "_FolderWorld",
    memory: HealthMemory,
    now: Callable[[], datetime],
    *,
    by_itself: bool,
) -> _Steps:
    table = state.with_status(declared, now(), world.source_of(declared))
    interrupted = [run for run in state.runs_of(table) if not run.status.is_finished]
    for run in interrupted:
        yield from world.carry_out(table, run)
    for number in range(MOST_PASSES):
        table = state.with_status(declared, now(), world.source_of(declared))
        if number == 0 and not by_itself:
            table = tried_again(table)
        outcome = reconcile_table(table, world, memory, now())
        if done := (*world.changes_made(), *_holds_changed(table.status, outcome.status)):
            yield TableChanged(table, done)
        if outcome.started is not None:
            yield from world.carry_out(table, world.run_named(table, outcome.started.name))
        elif outcome.look_again_at is None or outcome.look_again_at > now():
            break
    table = state.with_status(declared, now(), world.source_of(declared))
    yield TableDone(table, _awaited_window(table.status, world.policy_of(table), now()))


def _holds_changed(before: ManagedTableStatus, after: ManagedTableStatus) -> list[str]:
    held = [{hold.name for hold in status.holds if hold.state is HoldState.HELD} for status in (before, after)]
    placed, released = sorted(held[1] - held[0]), sorted(held[0] - held[1])
    return [*(f"placed hold {name}" for name in placed), *(f"released hold {name}" for name in released)]


def _awaited_window(status: ManagedTableStatus, policy: EffectivePolicy, now: datetime) -> datetime | None:
    opens = next_opening(policy.windows, now)
    compaction = next((each for each in status.operations if each.operation is Operation.COMPACT), None)
    return opens if opens is not None and compaction is not None and compaction.next_run == opens else None


def tried_again(table: ManagedTable) -> ManagedTable:
    """The table without the failures of its operations: whoever calls has seen to their cause, or wants to see it."""
    operations = tuple(forgiven(status) for status in table.status.operations)
    return table.model_copy(update={"status": table.status.model_copy(update={"operations": operations})})


def did_not_answer(status: ManagedTableStatus) -> bool:
    """Whether the table could not be looked at because its catalog or its storage was away."""
    ready = next((condition for condition in status.conditions if condition.type == READY), None)
    return ready is not None and ready.status != "True" and ready.reason in _AWAY


class _FolderWorld:
    """What a pass needs, from a folder: the `World` of `act.passes`."""

    def __init__(self, declarations: Declarations, state: EmbeddedState, now: Callable[[], datetime]) -> None:
        self._declarations = declarations
        self._state = state
        self._now = now
        self._opened: dict[tuple[str, str], Catalog] = {}
        self._changes: list[str] = []

    def source_of(self, table: ManagedTable) -> Path:
        return self._declarations.sources[table.key]

    def open_catalog(self, table: ManagedTable) -> Catalog:
        catalog = self.catalog_of(table)
        if catalog.key not in self._opened:
            self._opened[catalog.key] = open_declared(catalog.metadata.name, catalog.config({}))
        return self._opened[catalog.key]

    def catalog_of(self, table: ManagedTable) -> TableCatalog:
        return catalog_of(table, self._declarations.catalogs, self._state.folder)

    def runs_of(self, table: ManagedTable) -> Sequence[MaintenanceRun]:
        return self._state.runs_of(table)

    def older_claim(self, table: ManagedTable) -> ManagedTable | None:
        return older_claim(table, self._declarations)

    def run_named(self, table: ManagedTable, name: str) -> MaintenanceRun:
        return next(run for run in self._state.runs_of(table) if run.metadata.name == name)

    def policy_of(self, table: ManagedTable) -> EffectivePolicy:
        return policy_of(table, self._declarations)

    def broken_policies(self, table: ManagedTable) -> Sequence[str]:  # noqa: ARG002
        """None: a folder with an object that cannot be read is refused as a whole."""
        return ()

    def start_run(self, table: ManagedTable, start: StartRun) -> None:
        self._state.create_run(table, start, self._now())

    def overlapping(self, table: ManagedTable, catalog: Catalog, places: Sequence[str]) -> TableLocation | None:
        return overlapping_table(catalog, table.identifier, places)

    def declaration_applied(self, table: ManagedTable, applied: Applied) -> None:  # noqa: ARG002
        self._changes += [change.done for change in applied.changes]

    def changes_made(self) -> list[str]:
        """To the definition of the table whose pass it was, since this was asked last."""
        made, self._changes = self._changes, []
        return made

    def clear_request(self, table: ManagedTable) -> None:
        """The folder is the user's, so what was asked for is remembered instead until it asks for something else."""
        self._state.remember_request(table)

    def delete_run(self, table: ManagedTable, name: str) -> None:
        self._state.delete_run(table, name)

    def pass_failed(self, table: ManagedTable, error: Exception, now: datetime) -> None:
        """Nothing: the error ends the command, and whoever typed it reads it."""

    def write_status(self, table: ManagedTable, status: ManagedTableStatus) -> None:
        self._state.save_status(table, status)

    def carry_out(self, table: ManagedTable, run: MaintenanceRun) -> _Steps:
        yield RunStarted(table, run)
        started = run.status.model_copy(update={"phase": Phase.RUNNING, "start_time": self._now()})
        self._state.save_run(run, started)
        policy, catalog = self.policy_of(table), self.catalog_of(table)
        job = maintenance_job(run, table, policy, catalog).model_copy(update={"run": None})
        ended = yield _Order(table, run, job)
        assert ended is not None  # noqa: S101
        decision = decide_run(run.model_copy(update={"status": started}), None, _observed(ended), self._now())
        self._state.save_run(run, decision.status)
        yield RunEnded(table, run.model_copy(update={"status": decision.status}))


def _observed(ended: DriverEnded) -> JobObservation:
    return JobObservation(
        active=False,
        succeeded=ended.succeeded,
        failed=not ended.succeeded,
        failure=ended.failure,
        report=read_report(ended.report),
    )


def policy_of(table: ManagedTable, declarations: Declarations) -> EffectivePolicy:
    key = (table.metadata.namespace, table.spec.catalog_ref.name)
    catalog = next((catalog for catalog in declarations.catalogs if catalog.key == key), None)
    return effective_policy(table, declarations.policies, catalog)


def older_claim(table: ManagedTable, declarations: Declarations) -> ManagedTable | None:
    """Of a folder's objects none is older: the first by name has the table."""
    return next((other for other in declarations.tables if _same_table(other, table) and other.key < table.key), None)


def _same_table(one: ManagedTable, other: ManagedTable) -> bool:
    place = one.metadata.namespace, one.spec.catalog_ref, one.identifier
    return place == (other.metadata.namespace, other.spec.catalog_ref, other.identifier)
