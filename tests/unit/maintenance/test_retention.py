"""Which snapshots an expiry takes: case by case, and against a model that says it in the plainest words."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.table.metadata import TableMetadata

from tableformat.maintenance.errors import UnreadableSetting
from tableformat.maintenance.expiry import ExpiryOptions
from tableformat.maintenance.expiry.retention import plan_retention
from tests.unit.maintenance.histories import DAY, NOW, NOW_MS, branch, histories, metadata, model, snapshot, tag


def kept(history: TableMetadata, options: ExpiryOptions = ExpiryOptions()) -> set[int]:  # noqa: B008
    gone = plan_retention(history, options, now=NOW).snapshots
    return {each.snapshot_id for each in history.snapshots} - gone


def line(*ages: int) -> list:  # type: ignore[type-arg]
    """Snapshots 1, 2, … of these ages, each on top of the one before."""
    return [snapshot(n, n - 1 if n > 1 else None, NOW_MS - age) for n, age in enumerate(ages, 1)]


def test_a_branch_keeps_what_is_young_and_at_least_its_minimum() -> None:
    history = metadata(line(50, 40, 30, 20, 10), {"main": branch(5)})

    assert kept(history, ExpiryOptions(max_snapshot_age_ms=25)) == {4, 5}
    assert kept(history, ExpiryOptions(max_snapshot_age_ms=25, min_snapshots_to_keep=3)) == {3, 4, 5}
    assert kept(history, ExpiryOptions(max_snapshot_age_ms=0)) == {5}


def test_the_table_s_properties_hold_where_the_policy_is_silent() -> None:
    properties = {"history.expire.max-snapshot-age-ms": "25", "history.expire.min-snapshots-to-keep": "3"}
    history = metadata(line(50, 40, 30, 20, 10), {"main": branch(5)}, properties)

    assert kept(history) == {3, 4, 5}
    assert kept(history, ExpiryOptions(min_snapshots_to_keep=4)) == {2, 3, 4, 5}


@pytest.mark.parametrize("name", ["max-snapshot-age-ms", "min-snapshots-to-keep", "max-ref-age-ms"])
@pytest.mark.parametrize("value", ["5d", "8MB", "-1"])
def test_nothing_expires_by_a_guess_of_what_a_property_means(name: str, value: str) -> None:
    history = metadata(line(50, 40), {"main": branch(2)}, {f"history.expire.{name}": value})

    with pytest.raises(UnreadableSetting, match=f"history.expire.{name} is '{value}'"):
        kept(history)


def test_a_property_that_nobody_needs_to_read_may_be_anything() -> None:
    properties = {"history.expire.max-snapshot-age-ms": "5d", "history.expire.min-snapshots-to-keep": "many"}
    history = metadata(line(50, 40, 30, 20, 10), {"main": branch(5)}, properties)

    assert kept(history, ExpiryOptions(max_snapshot_age_ms=25, min_snapshots_to_keep=1)) == {4, 5}


def test_a_branch_s_own_settings_go_before_both() -> None:
    history = metadata(line(50, 40, 30, 20, 10), {"main": branch(5, count=2, age=45)})

    assert kept(history, ExpiryOptions(max_snapshot_age_ms=0)) == {2, 3, 4, 5}


def test_without_any_setting_five_days_and_one_snapshot_are_kept() -> None:
    assert kept(metadata(line(6 * DAY, 5 * DAY + 1, 5 * DAY, 0), {"main": branch(4)})) == {3, 4}


def test_main_never_goes_and_other_refs_go_by_their_age() -> None:
    refs = {"main": branch(1), "old": tag(2, ref_age=5), "young": tag(3, ref_age=500), "for-ever": tag(4)}
    history = metadata([snapshot(n, None, NOW_MS - 100) for n in range(1, 5)], refs)

    plan = plan_retention(history, ExpiryOptions(max_snapshot_age_ms=0), now=NOW)

    assert plan.refs == {"old"}
    assert plan.snapshots == {2}


def test_what_no_ref_leads_to_is_kept_while_it_is_young() -> None:
    history = metadata(
        [snapshot(1, None, NOW_MS - 30), snapshot(2, 1, NOW_MS - 20), snapshot(3, 1, NOW_MS - 5)], {"main": branch(1)}
    )

    assert kept(history, ExpiryOptions(max_snapshot_age_ms=10)) == {1, 3}


def test_the_start_of_a_running_job_is_kept_with_all_that_came_after_it() -> None:
    history = metadata(line(50, 40, 30, 20, 10), {"main": branch(5)})

    assert kept(history, ExpiryOptions(max_snapshot_age_ms=0, protected_snapshots=frozenset({3}))) == {3, 4, 5}


@given(
    histories(),
    st.builds(
        ExpiryOptions,
        max_snapshot_age_ms=st.none() | st.integers(1, 100),
        min_snapshots_to_keep=st.none() | st.integers(1, 5),
        max_ref_age_ms=st.none() | st.integers(1, 100),
    ),
)
@settings(max_examples=200)
def test_it_takes_what_the_model_takes(history: TableMetadata, options: ExpiryOptions) -> None:
    stays, refs = model(history, options, NOW_MS)

    plan = plan_retention(history, options, now=NOW)

    assert kept(history, options) == stays
    assert set(history.refs) - plan.refs == refs
    assert all(ref.snapshot_id in stays for name, ref in history.refs.items() if name in refs)
