"""A table, its runs and a clock, moved by decisions as the operator would move them. No I/O, no server."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from tablewright.act.runs import build_run
from tablewright.api.objects import parse
from tablewright.api.run import Cause, MaintenanceRun, Operation
from tablewright.api.table import ManagedTable, OperationStatus
from tablewright.decide.causes import RUN_ANNOTATION
from tablewright.decide.policy import effective_policy
from tablewright.decide.state import ApplyHolds, TableDecision, TablePresent
from tablewright.decide.tables import decide_table
from tests.unit.operator.values import NOW, managed_table, present

CREATED = NOW - timedelta(days=2)
OLD = [timedelta(days=days) for days in range(30)]  # a snapshot a day
EVERYTHING: dict[str, Any] = {
    "compaction": {"schedule": "0 * * * *", "triggers": {"smallFiles": 50}},
    "retention": {
        "snapshots": {"schedule": "15 * * * *", "maxAge": "7d", "minCount": 5},
        "rows": {"schedule": "0 1 * * *", "column": "ts", "maxAge": "30d"},
    },
    "manifests": {"schedule": "30 * * * *"},
    "orphanFiles": {"schedule": "0 3 * * *"},
}
NOTHING_DONE: dict[str, Any] = {"result": {"rewrittenFiles": 0}}
HOURLY: dict[str, Any] = {"compaction": {"schedule": "0 * * * *"}}
TRIGGER: dict[str, Any] = {"compaction": {"triggers": {"smallFiles": 100}}}
DONE: dict[str, Any] = {"result": {"snapshotId": 8, "rewrittenFiles": 9, "addedFiles": 1}}


@dataclass
class Simulation:
    table: ManagedTable
    now: datetime = NOW
    runs: list[MaintenanceRun] = field(default_factory=list)
    begun: list[tuple[Operation, Cause, datetime]] = field(default_factory=list)
    observed: TablePresent = field(default_factory=present)
    lag: timedelta = timedelta(0)  # of the API server's clock behind ours

    @classmethod
    def of(cls, *, now: datetime = NOW, created: datetime = CREATED, **spec: Any) -> "Simulation":
        declared = managed_table(**{"compaction": {}, **spec})
        metadata = declared.metadata.model_copy(update={"creation_timestamp": created})
        return cls(declared.model_copy(update={"metadata": metadata}), now)

    def look(self, *, write: bool = True, **figures: Any) -> TableDecision:
        """A pass; an operator that dies before it writes the status has created its run all the same."""
        if figures:
            self.see(**figures)
        decision = decide_table(self.table, effective_policy(self.table, []), self.observed, self.runs, self.now)
        if decision.start is not None:
            obj = build_run(self.table, decision.start)
            obj["metadata"] |= {
                "uid": f"uid-{decision.start.name}",
                "creationTimestamp": (self.now - self.lag).isoformat(),
            }
            if all(run.metadata.name != decision.start.name for run in self.runs):  # as the API server answers
                self.runs.append(parse(MaintenanceRun, obj))
                self.begun.append((decision.start.operation, decision.start.cause, self.now))
        if write:
            if decision.clear_request:
                self.annotate(None)
            self.table = self.table.model_copy(update={"status": decision.status})
            self.runs = [run for run in self.runs if run.metadata.name not in decision.delete_runs]
        assert not isinstance(decision.apply, ApplyHolds) or not decision.start, "holds come before runs"
        return decision

    def see(self, **figures: Any) -> None:
        """What the next look finds. Without another snapshot id it is the same table, so it keeps its uuid."""
        uuid = self.observed.metadata.table_uuid
        found = present(**figures)
        metadata = found.metadata.model_copy(update={"table_uuid": uuid})
        self.observed = TablePresent(metadata, found.metadata_location, found.health)

    def wait(self, **length: float) -> "Simulation":
        self.now += timedelta(**length)
        return self

    def finish(self, phase: str = "Succeeded", **status: Any) -> MaintenanceRun:
        """The one unfinished run ends now."""
        [position] = [i for i, run in enumerate(self.runs) if not run.status.is_finished]
        ended = {"phase": phase, "completionTime": self.now.isoformat(), **status}
        run = self.runs[position]
        parsed = type(run.status).model_validate(ended)
        self.runs[position] = run.model_copy(update={"status": parsed})
        return self.runs[position]

    def run_through(self, phase: str = "Succeeded", **status: Any) -> MaintenanceRun:
        """A pass that must start a run, which then ends, and a pass that sees it."""
        started = self.look().start
        assert started is not None
        return self.finish(phase, **status)

    def until_a_run_starts(self) -> None:
        """Looks again whenever a pass wants it."""
        while (decision := self.look()).start is None:
            assert decision.look_again_at is not None
            assert decision.look_again_at > self.now
            self.now = decision.look_again_at

    def annotate(self, value: str | None) -> None:
        annotations = {} if value is None else {RUN_ANNOTATION: value}
        metadata = self.table.metadata.model_copy(update={"annotations": annotations})
        self.table = self.table.model_copy(update={"metadata": metadata})

    def change_spec(self, **spec: Any) -> None:
        changed = managed_table(**{"compaction": {}, **spec})
        generation = self.table.metadata.generation + 1
        metadata = self.table.metadata.model_copy(update={"generation": generation})
        self.table = self.table.model_copy(update={"metadata": metadata, "spec": changed.spec})

    def operation(self, operation: Operation) -> OperationStatus:
        found = [status for status in self.table.status.operations if status.operation is operation]
        return found[0] if found else OperationStatus(operation=operation)

    def condition(self, kind: str) -> tuple[str, str]:
        [found] = [each for each in self.table.status.conditions if each.type == kind]
        return f"{found.status}/{found.reason}", found.message
