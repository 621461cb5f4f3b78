"""Holds of a table: set before anything expires, released when they end, and told one by one."""

from datetime import timedelta
from typing import Any

from pyiceberg.table.refs import SnapshotRef, SnapshotRefType
from pyiceberg.table.snapshots import SnapshotLogEntry

from tablewright.api.table import HoldState, HoldStatus
from tablewright.decide.state import ApplyHolds, TablePresent
from tests.unit.operator.simulation import Simulation
from tests.unit.operator.values import NOW

AGES = [timedelta(0), timedelta(days=10)]
EXPIRY = {"schedule": "* * * * *", "maxAge": "1d"}


def hold(name: str, *, as_of: timedelta, until: timedelta) -> dict[str, str]:
    return {"name": name, "asOf": (NOW + as_of).isoformat(), "until": (NOW + until).isoformat()}


AUDIT = hold("audit", as_of=-timedelta(days=9), until=timedelta(days=100))


def holding(*holds: dict[str, str], **spec: Any) -> Simulation:
    simulation = Simulation.of(retention={"holds": list(holds), "snapshots": EXPIRY}, **spec)
    simulation.see(ages=AGES)
    logged = [
        SnapshotLogEntry(snapshot_id=each.snapshot_id, timestamp_ms=each.timestamp_ms)
        for each in reversed(simulation.observed.metadata.snapshots)
    ]
    put(simulation, snapshot_log=logged)
    return simulation


def put(simulation: Simulation, **metadata: Any) -> None:
    observed = simulation.observed
    changed = observed.metadata.model_copy(update=metadata)
    simulation.observed = TablePresent(changed, observed.metadata_location, observed.health)


def tag(simulation: Simulation, name: str, until: timedelta) -> None:
    """As apply_holds sets it."""
    snapshot = simulation.observed.metadata.snapshots[-1]
    age = int((NOW + until).timestamp() * 1000) - snapshot.timestamp_ms
    ref = SnapshotRef.model_validate(
        {"snapshot-id": snapshot.snapshot_id, "type": SnapshotRefType.TAG, "max-ref-age-ms": age}
    )
    put(simulation, refs=simulation.observed.metadata.refs | {f"tablewright-hold-{name}": ref})


def states(simulation: Simulation) -> dict[str, HoldState]:
    return {status.name: status.state for status in simulation.table.status.holds}


def test_a_hold_is_set_before_an_expiry_starts() -> None:
    simulation = holding(AUDIT)
    decision = simulation.look()
    assert isinstance(decision.apply, ApplyHolds)
    assert decision.start is None
    tag(simulation, "audit", timedelta(days=100))
    decision = simulation.look()
    assert decision.apply is None
    assert states(simulation) == {"audit": HoldState.HELD}
    assert decision.start is None, "what is held does not expire"


def test_what_is_not_held_expires() -> None:
    assert holding().look().start is not None


def test_a_hold_of_a_time_to_come_waits_for_it() -> None:
    simulation = holding(hold("later", as_of=timedelta(hours=1), until=timedelta(days=9)), suspend=True)
    decision = simulation.look()
    assert (decision.apply, decision.look_again_at) == (None, NOW + timedelta(hours=1))
    assert states(simulation) == {"later": HoldState.PENDING}


def test_a_hold_that_cannot_be_kept_is_refused_with_what_is_left() -> None:
    simulation = holding(hold("early", as_of=-timedelta(days=99), until=timedelta(days=9)))
    simulation.look()
    [status] = simulation.table.status.holds
    assert status.state is HoldState.REFUSED
    assert "no longer in its history" in str(status.message)


def test_a_hold_that_ends_is_released_then() -> None:
    simulation = holding(AUDIT)
    tag(simulation, "audit", timedelta(days=100))
    assert simulation.look().look_again_at is not None
    simulation.wait(days=100, seconds=1)
    assert isinstance(simulation.look().apply, ApplyHolds)
    assert states(simulation) == {"audit": HoldState.EXPIRED}


def test_a_hold_that_is_no_longer_declared_is_released_and_then_forgotten() -> None:
    simulation = holding(AUDIT)
    tag(simulation, "audit", timedelta(days=100))
    simulation.look()
    simulation.change_spec()
    assert simulation.look().apply == ApplyHolds((), placed=("audit",))
    assert states(simulation) == {"audit": HoldState.HELD}, "until it is released"
    put(simulation, refs={"main": simulation.observed.metadata.refs["main"]})
    assert simulation.look().apply is None
    assert simulation.table.status.holds == ()


def test_the_holds_of_a_table_that_never_declared_any_are_left_alone() -> None:
    simulation = holding()
    tag(simulation, "somebody-elses", timedelta(days=100))
    assert simulation.look().apply is None


def test_holds_that_others_placed_are_left_alone_though_the_table_declares_its_own() -> None:
    simulation = holding(AUDIT, suspend=True)
    tag(simulation, "audit", timedelta(days=100))
    tag(simulation, "somebody-elses", timedelta(days=100))
    assert simulation.look().apply is None
    simulation.change_spec(suspend=True)
    assert simulation.look().apply == ApplyHolds((), placed=("audit",))


def test_a_hold_of_another_s_name_and_time_is_refused_and_never_released() -> None:
    simulation = holding(hold("audit", as_of=timedelta(0), until=timedelta(days=9)), suspend=True)
    tag(simulation, "audit", timedelta(days=100))
    assert simulation.look().apply is None
    [status] = simulation.table.status.holds
    assert status.state is HoldState.REFUSED
    assert "never moves" in str(status.message)
    simulation.change_spec(suspend=True)
    assert simulation.look().apply is None


def test_a_table_that_is_only_observed_gets_no_holds() -> None:
    simulation = holding(AUDIT, managementPolicy="ObserveOnly")
    assert simulation.look().apply is None
    assert simulation.table.status.holds == ()


def test_a_suspended_table_keeps_its_holds_all_the_same() -> None:
    assert isinstance(holding(AUDIT, suspend=True).look().apply, ApplyHolds)


def test_what_is_said_of_a_hold_does_not_change_by_itself() -> None:
    simulation = holding(AUDIT, suspend=True)
    tag(simulation, "audit", timedelta(days=100))
    simulation.look()
    before: tuple[HoldStatus, ...] = simulation.table.status.holds
    simulation.wait(days=3).look()
    assert simulation.table.status.holds == before


def test_as_many_holds_as_there_may_be_can_all_be_replaced_at_once() -> None:
    def named(prefix: str) -> list[dict[str, str]]:
        days = timedelta(days=100)
        return [hold(f"{prefix}-{number}", as_of=-timedelta(days=9), until=days) for number in range(32)]

    simulation = holding(*named("old"))
    for number in range(32):
        tag(simulation, f"old-{number}", timedelta(days=100))
    simulation.look()
    assert set(states(simulation).values()) == {HoldState.HELD}
    simulation.change_spec(retention={"holds": named("new")})
    assert isinstance(simulation.look().apply, ApplyHolds)
    assert len(states(simulation)) == 32, "more would be refused by the API server"
