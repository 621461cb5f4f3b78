"""The levels of a policy: table over policies over catalog over built-in, field by field, each with its origin."""

from datetime import timedelta
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tablewright.api.catalog import TableCatalog
from tablewright.api.objects import parse
from tablewright.api.policy import TablePolicy
from tablewright.api.run import Operation
from tablewright.api.table import ManagedTable
from tablewright.decide.policy import EffectiveRowRetention, EffectiveRunHistory, effective_policy
from tests.unit.operator.values import managed_table

# One value for each field that every level can give, as the API writes it.
SAID: dict[str, list[Any]] = {
    "layout.targetFileSize": ["128Mi", "256Mi"],
    "compaction.schedule": ["*/5 * * * *", "0 * * * *"],
    "compaction.triggers.smallFiles": [10, 20],
    "compaction.triggers.deleteRatioPercent": [30, 40],
    "compaction.deleteRatioPercent": [5, 6],
    "compaction.minInputFiles": [2, 3],
    "compaction.maxBytesPerRun": ["1Gi", "2Gi"],
    "compaction.coolDown": ["10m", "1h"],
    "retention.snapshots.schedule": ["15 * * * *", "16 * * * *"],
    "retention.snapshots.maxAge": ["7d", "8d"],
    "retention.snapshots.minCount": [5, 6],
    "retention.rows.column": ["ts", "day"],
    "retention.rows.maxAge": ["400d", "401d"],
    "retention.rows.schedule": ["0 2 * * *", "0 4 * * *"],
    "manifests.schedule": ["30 3 * * *", "31 3 * * *"],
    "orphanFiles.schedule": ["0 3 * * 0", "0 3 * * 1"],
    "orphanFiles.minAge": ["3d", "4d"],
    "orphanFiles.action": ["Report", "Delete"],
    "orphanFiles.grace": ["7d", "9d"],
    "timeZone": ["Asia/Kolkata", "Europe/Berlin"],
    "runHistory.succeeded": [1, 2],
    "runHistory.failed": [4, 5],
    "jobs.image": ["a:1", "b:2"],
    "jobs.serviceAccountName": ["a", "b"],
    "jobs.resources.requests.cpu": ["1", "2"],
    "jobs.resources.requests.memory": ["1Gi", "2Gi"],
    "jobs.resources.limits.cpu": ["3", "4"],
    "jobs.resources.limits.memory": ["3Gi", "4Gi"],
    "jobs.deadline": ["1h", "2h"],
    "jobs.priorityClassName": ["low", "high"],
    "jobs.queueName": ["a", "b"],
}
Level = dict[str, Any]
levels = st.dictionaries(st.sampled_from(sorted(SAID)), st.integers(0, 1)).map(
    lambda chosen: {field: SAID[field][index] for field, index in chosen.items()}
)


def nested(level: Level) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field, value in level.items():
        *parents, name = field.split(".")
        place = found
        for parent in parents:
            place = place.setdefault(parent, {})
        place[name] = value
    return found


def table_saying(level: Level) -> ManagedTable:
    return managed_table(**{"compaction": {}, **nested(level)})


def policy(name: str, level: Level | None = None, **spec: Any) -> TablePolicy:
    whole = {"metadata": {"name": name, "namespace": "sales"}, "spec": {**nested(level or {}), **spec}}
    return parse(TablePolicy, whole)


def catalog(level: Level | None = None, **spec: Any) -> TableCatalog:
    said = nested(level or {})
    jobs = said.pop("jobs", {})
    whole = {"configMap": {}, "warehouse": "s3://bucket", "maintenance": said, "jobs": jobs, **spec}
    return parse(TableCatalog, {"metadata": {"name": "lake", "namespace": "sales"}, "spec": whole})


def found(table: ManagedTable, policies: list[TablePolicy], lake: TableCatalog | None) -> dict[str, tuple[str, str]]:
    return {field.field: (field.value, field.origin) for field in effective_policy(table, policies, lake).fields}


@settings(max_examples=50)
@given(own=levels, first=levels, second=levels, of_catalog=levels, shuffle=st.randoms())
def test_every_field_has_the_value_of_the_first_level_that_gives_it(
    own: Level, first: Level, second: Level, of_catalog: Level, shuffle: Random
) -> None:
    policies = [policy("b", second), policy("a", first)]
    shuffle.shuffle(policies)
    fields = found(table_saying(own), policies, catalog(of_catalog))
    in_order = [("table", own), ("policy/a", first), ("policy/b", second), ("catalog/lake", of_catalog)]
    for field in SAID:
        saying = [(str(level[field]), origin) for origin, level in in_order if field in level]
        if saying:
            assert fields[field] == saying[0], field
        elif field in fields:
            assert fields[field][1] == "default", field


@settings(max_examples=50)
@given(own=levels, of_policy=levels, of_catalog=levels)
def test_a_lower_level_never_changes_what_a_higher_one_says(own: Level, of_policy: Level, of_catalog: Level) -> None:
    table = table_saying(own)
    alone, together = found(table, [], None), found(table, [policy("p", of_policy)], catalog(of_catalog))
    assert {field: alone[field] for field in own} == {field: together[field] for field in own}


@settings(max_examples=50)
@given(own=levels)
def test_what_the_status_says_is_what_holds(own: Level) -> None:
    effective = effective_policy(table_saying(own), [], catalog())
    fields = {field.field: field.value for field in effective.fields}
    assert fields["compaction.minInputFiles"] == str(effective.min_input_files)
    assert fields.get("compaction.triggers.deleteRatioPercent") == _text(effective.delete_ratio_trigger_percent)
    assert fields.get("jobs.image") == effective.jobs.image
    assert fields["jobs.resources.requests.cpu"] == effective.jobs.resources.requests.cpu
    assert effective.schedules.get(Operation.REWRITE_MANIFESTS) == fields.get("manifests.schedule")
    assert effective.schedules.get(Operation.DELETE_EXPIRED_ROWS) == fields.get("retention.rows.schedule")


def _text(value: int | None) -> str | None:
    return None if value is None else str(value)


def test_a_level_that_says_nothing_leaves_everything_built_in() -> None:
    assert {origin for _, origin in found(managed_table(compaction={}), [policy("p")], catalog()).values()} == {
        "default"
    }


def test_rows_are_deleted_only_where_column_and_age_are_both_known_be_it_from_different_levels() -> None:
    ageless = table_saying({"retention.rows.column": "ts"})
    assert effective_policy(ageless, [], catalog()).row_retention is None
    lake = catalog({"retention.rows.maxAge": "400d"})
    assert effective_policy(ageless, [], lake).row_retention == EffectiveRowRetention("ts", timedelta(days=400))
    assert effective_policy(managed_table(), [], lake).row_retention is None


def test_holds_are_the_tables_own() -> None:
    hold = {"name": "audit", "asOf": "2026-01-01T00:00:00Z", "until": "2030-01-01T00:00:00Z"}
    effective = effective_policy(managed_table(retention={"holds": [hold]}), [policy("p")], catalog())
    assert [held.name for held in effective.holds] == ["audit"]
    assert not [field for field in effective.fields if "holds" in field.field]


def test_a_list_or_a_map_is_one_field_and_an_empty_one_takes_it_away() -> None:
    windows = [{"start": "22:00", "duration": "8h"}]
    lake = catalog(maintenance={"windows": windows}, jobs={"nodeSelector": {"disk": "fast"}})
    inherited = effective_policy(managed_table(), [], lake)
    assert len(inherited.windows) == 1
    assert inherited.jobs.node_selector == {"disk": "fast"}
    own = effective_policy(managed_table(windows=[], jobs={"nodeSelector": {"zone": "a"}}), [], lake)
    assert own.windows == ()
    assert own.jobs.node_selector == {"zone": "a"}


def test_runs_are_limited_and_kept_as_the_levels_say() -> None:
    effective = effective_policy(managed_table(runHistory={"failed": 0}), [], catalog(maxConcurrentRuns=9))
    assert effective.max_concurrent_runs == 9
    assert effective.run_history == EffectiveRunHistory(succeeded=3, failed=0)


@pytest.mark.parametrize(
    ("table", "of_policy", "of_catalog", "origin"),
    [
        (None, None, False, None),
        (False, None, False, None),
        (True, True, True, "table"),
        (False, True, True, "policy/p"),
        (None, None, True, "catalog/lake"),
        (False, False, True, "catalog/lake"),
    ],
)
def test_whoever_says_suspend_is_heard_and_named(
    table: bool | None, of_policy: bool | None, of_catalog: bool, origin: str | None
) -> None:
    own: dict[str, Any] = {} if table is None else {"suspend": table}
    policies = [policy("p") if of_policy is None else policy("p", suspend=of_policy)]
    effective = effective_policy(managed_table(**own), policies, catalog(suspend=of_catalog))
    assert effective.suspended_by == origin
    assert effective.suspend == (origin is not None)
    [field] = [field for field in effective.fields if field.field == "suspend"]
    assert field.value == str(origin is not None).lower()
    assert origin is None or field.origin == origin


def test_what_only_a_table_can_say_has_no_origin_because_it_has_no_levels() -> None:
    table = managed_table(layout={"order": {"strategy": "Sort", "columns": ["id"]}, "writeMode": "MergeOnRead"})
    names = {field.field for field in effective_policy(table, []).fields}
    assert not {name for name in names if name.startswith(("layout.order", "layout.writeMode"))}
