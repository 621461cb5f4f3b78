"""Which operation starts, and in which order."""

from datetime import datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tablewright.api.objects import parse
from tablewright.api.run import MaintenanceRun, Operation
from tablewright.api.table import HealthFigures, ManagedTable
from tablewright.decide.maintenance import MaintenanceDecision, decide_maintenance
from tablewright.decide.policy import effective_policy
from tests.unit.operator.values import NOW, health, managed_table

EVERYTHING: dict[str, Any] = {
    "compaction": {"schedule": "0 * * * *", "triggers": {"smallFiles": 50}},
    "retention": {"snapshots": {"schedule": "15 * * * *", "maxAge": "7d", "minCount": 5}},
    "orphanFiles": {"schedule": "0 3 * * *"},
}


def table(**spec: Any) -> ManagedTable:
    declared = managed_table(**{**EVERYTHING, **spec})
    metadata = declared.metadata.model_copy(update={"creation_timestamp": NOW - timedelta(days=2)})
    return declared.model_copy(update={"metadata": metadata})


def figures(*, small_files: int = 0, snapshots: int = 100) -> HealthFigures:
    return health(small_files=small_files).model_copy(update={"snapshots": snapshots})


def decide(
    declared: ManagedTable, found: HealthFigures, runs: list[MaintenanceRun], now: datetime
) -> MaintenanceDecision:
    return decide_maintenance(declared, effective_policy(declared, []), found, 7, runs, now)


def past(operation: Operation, *, start: datetime, phase: str = "Succeeded", name: str = "past") -> MaintenanceRun:
    return parse(
        MaintenanceRun,
        {
            "metadata": {"name": name, "namespace": "sales", "creationTimestamp": start.isoformat()},
            "spec": {"tableRef": {"name": "events"}, "operation": operation.value},
            "status": {"phase": phase, "completionTime": (start + timedelta(minutes=1)).isoformat()},
        },
    )


def test_compaction_comes_before_expiry_and_expiry_before_orphans() -> None:
    runs: list[MaintenanceRun] = []
    order = []
    while (decision := decide(table(), figures(small_files=60), runs, NOW)).start is not None:
        order.append(decision.start.operation)
        runs.append(past(decision.start.operation, start=NOW, name=decision.start.name))
    assert order == [Operation.COMPACT, Operation.EXPIRE_SNAPSHOTS, Operation.REMOVE_ORPHAN_FILES]


def test_a_table_with_few_snapshots_is_not_expired() -> None:
    declared = table(compaction={}, orphanFiles={})
    assert decide(declared, figures(snapshots=5), [], NOW).start is None
    decision = decide(declared, figures(snapshots=6), [], NOW)
    assert decision.start is not None
    assert decision.start.operation == Operation.EXPIRE_SNAPSHOTS


def test_the_next_scheduled_time_of_any_operation_is_waited_for() -> None:
    runs = [past(operation, start=NOW) for operation in Operation]
    assert decide(table(), figures(), runs, NOW).wait_until == NOW + timedelta(minutes=15)


def test_one_operations_failures_do_not_hold_up_another() -> None:
    failed = past(Operation.COMPACT, start=NOW - timedelta(minutes=1), phase="Failed")
    decision = decide(table(), figures(small_files=60), [failed], NOW)
    assert decision.start is not None
    assert decision.start.operation == Operation.EXPIRE_SNAPSHOTS


@given(
    minutes=st.lists(st.integers(1, 180), min_size=1, max_size=40),
    small_files=st.lists(st.integers(0, 80), min_size=40, max_size=40),
    fails=st.lists(st.booleans(), min_size=40, max_size=40),
)
def test_a_day_of_decisions_never_doubles_a_run_and_ends_quiet(
    minutes: list[int], small_files: list[int], fails: list[bool]
) -> None:
    """Whatever happens when, names never repeat, and once everything was done nothing starts by itself."""
    declared, now, runs = table(), NOW, list[MaintenanceRun]()
    for step, (wait, small, failed) in enumerate(zip(minutes, small_files, fails, strict=False)):
        now += timedelta(minutes=wait)
        policy = effective_policy(declared, [])
        decision = decide_maintenance(declared, policy, figures(small_files=small), step, runs, now)
        if decision.start is not None:
            assert decision.start.name not in {run.metadata.name for run in runs}
            phase = "Failed" if failed else "Succeeded"
            runs.append(past(decision.start.operation, start=now, phase=phase, name=decision.start.name))
    now += timedelta(hours=2)
    for _ in range(4):
        decision = decide_maintenance(declared, effective_policy(declared, []), figures(), 999, runs, now)
        if decision.start is None:
            break
        runs.append(past(decision.start.operation, start=now, name=decision.start.name))
    assert decision.start is None
    assert decision.wait_until is not None
    assert decision.wait_until > now
