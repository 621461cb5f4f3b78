"""Whatever happens, and whenever: no two runs at once, no schedule skipped or doubled, and quiet in the end."""

from datetime import timedelta
from typing import Any

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tablewright.api.run import Cause, Operation
from tablewright.decide.schedules import next_time
from tests.unit.operator.simulation import CREATED, DONE, EVERYTHING, NOTHING_DONE, OLD, Simulation

# Shrinking a story of a dozen events takes minutes; a failure names its events as they are.
NO_SHRINK = [Phase.explicit, Phase.reuse, Phase.generate]
OUTCOMES = st.sampled_from(["done", "nothing", "failed", "cancelled", "under way"])
EVENTS = st.fixed_dictionaries(
    {
        "minutes": st.integers(0, 180),
        "small_files": st.integers(0, 80),
        "delete_records": st.integers(0, 500),
        "manifests": st.integers(1, 9),
        "commits": st.booleans(),
        "outcome": OUTCOMES,
        "dies": st.booleans(),
        "sees_runs": st.booleans(),
        "asks": st.sampled_from([None, None, None, "Compact", "ExpireSnapshots", "Inspect", "nonsense"]),
        "changes_spec": st.sampled_from([False, False, False, True]),
        "clock_jumps": st.sampled_from([0, 0, 0, -2, 3, -400, 400]),  # hours
    }
)


def happen(simulation: Simulation, event: dict[str, Any], snapshot_id: int) -> None:
    simulation.wait(minutes=event["minutes"], seconds=1, hours=event["clock_jumps"])
    simulation.see(
        small_files=event["small_files"],
        delete_records=event["delete_records"],
        delete_files=1 if event["delete_records"] else 0,
        manifests=event["manifests"],
        snapshot_id=snapshot_id,
        ages=OLD,
    )
    if event["asks"]:
        simulation.annotate(event["asks"])
    if event["changes_spec"]:
        simulation.change_spec(**EVERYTHING)
    hidden = [] if event["sees_runs"] else [run for run in simulation.runs if not run.status.is_finished]
    before = {run.metadata.name for run in simulation.runs if not run.status.is_finished}
    simulation.runs = [run for run in simulation.runs if run not in hidden]
    decision = simulation.look(write=not event["dies"])
    simulation.runs += [run for run in hidden if run.metadata.name not in {r.metadata.name for r in simulation.runs}]
    if decision.start is not None and not hidden and decision.start.cause is not Cause.ANNOTATION:
        assert not before, "one at a time"


def end_all(simulation: Simulation, outcome: str) -> None:
    for run in [run for run in simulation.runs if not run.status.is_finished]:
        others = [other for other in simulation.runs if other is not run]
        simulation.runs = [run]
        match outcome:
            case "done":
                simulation.finish(**DONE)
            case "nothing":
                simulation.finish(**NOTHING_DONE)
            case "failed":
                simulation.finish("Failed", reason="Some", message="thing")
            case "cancelled":
                simulation.runs = []
        simulation.runs = others + simulation.runs
        if outcome == "under way":
            return


@settings(max_examples=60, phases=NO_SHRINK)
@given(st.lists(EVENTS, max_size=12))
def test_names_never_repeat_and_once_all_is_done_the_table_is_quiet(events: list[dict[str, Any]]) -> None:
    """With operators that die before they write, watches that lag, clocks that jump, people who ask, cancel, edit."""
    simulation, snapshot_id = Simulation.of(**EVERYTHING), 1
    for event in events:
        snapshot_id += event["commits"]
        happen(simulation, event, snapshot_id)
        end_all(simulation, event["outcome"])
    assert len(simulation.begun) == len({*simulation.begun}), "no cause starts twice"
    # From here on nobody touches the table, and everything that starts succeeds.
    simulation.annotate(None)
    simulation.wait(days=2)
    simulation.see(snapshot_id=snapshot_id)
    end_all(simulation, "done")
    simulation.look()  # a failure of a time to come, under a clock that was ahead, waits from here on
    end_all(simulation, "done")
    simulation.now = simulation.wait(days=2).now.replace(hour=12, minute=31)  # no scheduled time comes in what follows
    for _ in range(12):
        decision = simulation.wait(minutes=2).look()
        if decision.start is not None:
            end_all(simulation, "done")
    assert decision.start is None
    quiet = simulation.table.status
    assert simulation.look().status == quiet, "and nothing is written again"
    assert decision.look_again_at is not None
    assert decision.look_again_at > simulation.now


@settings(max_examples=60)
@given(
    cron=st.sampled_from(["0 * * * *", "*/20 * * * *", "30 3 * * *", "0 0 * * 0"]),
    waits=st.lists(st.integers(0, 5000), min_size=1, max_size=15),
    lengths=st.lists(st.integers(1, 300), min_size=15, max_size=15),
    dies=st.lists(st.booleans(), min_size=15, max_size=15),
    lag=st.integers(0, 90),
)
def test_a_schedule_is_neither_skipped_nor_doubled(
    cron: str, waits: list[int], lengths: list[int], dies: list[bool], lag: int
) -> None:
    """However late the looks are, however long runs take, and wherever the operator dies."""
    simulation = Simulation.of(orphanFiles={"schedule": cron})
    simulation.lag = timedelta(seconds=lag)
    made_up = CREATED
    for minutes, length, died in zip(waits, lengths, dies, strict=False):
        simulation.wait(minutes=minutes, seconds=1)
        due = next_time(cron, made_up) <= simulation.now
        count = len(simulation.begun)
        simulation.look(write=not died)
        assert (len(simulation.begun) == count + 1) == due
        if due:
            made_up = simulation.now
            simulation.wait(seconds=length).finish()
            simulation.look()
            assert len(simulation.begun) <= count + 2
            if len(simulation.begun) == count + 2:  # a time came while the run was under way
                assert next_time(cron, made_up) <= simulation.now
                made_up = simulation.now
                simulation.wait(seconds=1).finish()
                simulation.look()
    assert all(
        (operation, cause) == (Operation.REMOVE_ORPHAN_FILES, Cause.SCHEDULE)
        for operation, cause, _ in simulation.begun
    )
