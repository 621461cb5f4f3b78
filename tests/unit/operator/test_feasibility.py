"""Runs that cannot succeed: they are not started, and what is wrong is said where it is declared."""

from pathlib import Path
from typing import Any

import pytest

from tablewright.api.objects import InvalidObjectError
from tablewright.api.run import Operation
from tablewright.decide.feasibility import TableFacts, impossible_runs
from tablewright.decide.policy import effective_policy
from tablewright.embedded.folder import read_folder, validate_folder
from tests.unit.operator.simulation import Simulation
from tests.unit.operator.values import managed_table, metadata

HOURLY = "0 * * * *"
TRIGGERED: dict[str, Any] = {"compaction": {"triggers": {"smallFiles": 10}}}
TABLE = """\
apiVersion: tablewright.dev/v1alpha1
kind: ManagedTable
metadata: {name: events, namespace: sales}
spec:
  catalogRef: {name: lake}
  schema:
    columns:
      - {name: id, type: long}
      - {name: ts, type: timestamptz}
"""
POLICY = """\
apiVersion: tablewright.dev/v1alpha1
kind: TablePolicy
metadata: {name: all, namespace: sales}
spec:
"""
CATALOG = """\
apiVersion: tablewright.dev/v1alpha1
kind: TableCatalog
metadata: {name: lake, namespace: sales}
spec:
  sql: {uri: "sqlite:////tmp/none.db"}
  warehouse: /tmp/none
"""


def found(spec: dict[str, Any], **properties: str) -> dict[Operation, str]:
    table = managed_table(**spec)
    facts = TableFacts.of_table(metadata(properties=properties))
    return {each.operation: str(each) for each in impossible_runs(table, effective_policy(table, []), facts)}


@pytest.mark.parametrize(
    ("spec", "properties", "operation", "message"),
    [
        (
            {"retention": {"rows": {"column": "tss", "maxAge": "1d", "schedule": HOURLY}}},
            {},
            "DeleteExpiredRows",
            "retention.rows.column: the table has no column 'tss'. Did you mean 'ts'?",
        ),
        (
            {"retention": {"rows": {"column": "id", "maxAge": "1d", "schedule": HOURLY}}},
            {},
            "DeleteExpiredRows",
            "retention.rows.column: column 'id' is of type long, by which no row has an age. Name a date",
        ),
        (
            {
                "layout": {"order": {"strategy": "ZOrder", "columns": ["id", "gone"]}},
                "managementPolicy": "MaintainOnly",
            },
            {},
            "Compact",
            "layout.order.columns[gone]: there is no column 'gone' to order by",
        ),
        ({}, {"write.parquet.compression-codec": "lzo"}, "Compact", "properties[write.parquet.compression-codec]: "),
        ({}, {"encryption.key-id": "k"}, "Compact", "properties[encryption.key-id]: "),
        (
            {"retention": {"snapshots": {"schedule": HOURLY}}},
            {"gc.enabled": "false"},
            "ExpireSnapshots",
            "properties[gc.enabled]: gc.enabled is not true, so others may need the table's files",
        ),
        (
            {"orphanFiles": {"schedule": HOURLY}},
            {"gc.enabled": "false"},
            "RemoveOrphanFiles",
            "Remove the property, or the schedule of RemoveOrphanFiles.",
        ),
        (
            {"retention": {"snapshots": {"schedule": HOURLY}}},
            {"history.expire.max-ref-age-ms": "7d"},
            "ExpireSnapshots",
            "properties[history.expire.max-ref-age-ms]: '7d' is not a whole number",
        ),
        (
            {"orphanFiles": {"schedule": HOURLY}},
            {"write.data.path": "s3://bucket"},
            "RemoveOrphanFiles",
            "properties[write.data.path]: s3://bucket is a whole bucket",
        ),
    ],
)
def test_a_run_that_cannot_succeed_is_not_started_and_the_condition_names_the_field(
    spec: dict[str, Any], properties: dict[str, str], operation: str, message: str
) -> None:
    assert message in found(spec, **properties)[Operation(operation)]
    simulation = Simulation.of(**{"managementPolicy": "MaintainOnly", **TRIGGERED, **spec})
    simulation.wait(hours=2).look(small_files=50, properties=properties)
    assert Operation(operation) not in [each for each, *_ in simulation.begun]
    status, said = simulation.condition("Maintained")
    assert status == "False/NotPossible"
    assert message in said
    simulation.annotate(operation)
    simulation.look(small_files=50, properties=properties)
    assert simulation.condition("RunAccepted")[0] == "False/NotPossible", "nor when a person asks for it"


def test_the_others_are_started_all_the_same() -> None:
    spec: dict[str, Any] = {"retention": {"rows": {"column": "gone", "maxAge": "1d", "schedule": HOURLY}}}
    simulation = Simulation.of(**TRIGGERED, **spec)
    simulation.look(small_files=50)
    assert simulation.begun[0][0] is Operation.COMPACT


def test_what_nobody_starts_is_no_trouble() -> None:
    simulation = Simulation.of()
    simulation.look(properties={"gc.enabled": "false"})
    assert simulation.condition("Maintained")[0] == "True/NothingDone"


@pytest.mark.parametrize("age", ["1h", "23h", "1439m", "86399s", "0d"])
def test_a_short_minimum_age_needs_its_word_beside_it(age: str) -> None:
    with pytest.raises(InvalidObjectError, match="minAge below 1d may take the files that a writer is about to commit"):
        managed_table(orphanFiles={"minAge": age})
    assert managed_table(orphanFiles={"minAge": age, "allowShortMinAge": True}).spec.orphan_files.min_age is not None


@pytest.mark.parametrize("age", ["1d", "24h", "1440m", "86400s", "3d"])
def test_a_day_is_long_enough(age: str) -> None:
    assert found({"orphanFiles": {"minAge": age}}) == {}


def problems(folder: Path, *documents: str) -> list[str]:
    (folder / "all.yaml").write_text("---\n".join(documents))
    return [str(each).removeprefix(f"{folder}/all.yaml:") for each in validate_folder(folder).findings]


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("  orphanFiles: {minAge: 1h}\n", {"10:25: spec.orphanFiles.minAge: minAge below 1d"}),
        (
            "  retention: {rows: {column: id, maxAge: 1d}}\n",
            {"10:30: spec.retention.rows.column: column 'id' is of type long"},
        ),
        (
            "  layout:\n    order:\n      strategy: ZOrder\n      columns:\n        - id\n        - tss\n",
            {"15:11: spec.layout.order.columns[tss]: there is no column 'tss' to order by. Did you mean 'ts'?"},
        ),
        ("  jobs: {executors: {memory: 575Mi}}\n", {"10:30: spec.jobs.executors.memory: memory of an executor must"}),
        (
            "  compaction: {schedule: '0 1 * * *'}\n  properties:\n    a: b\n"
            "    write.parquet.compression-codec: lzo\n",
            {"13:38: spec.properties[write.parquet.compression-codec]: compaction cannot rewrite the table"},
        ),
        (
            "  layout: {targetFileSize: 64Mi}\n  properties:\n    write.target-file-size-bytes: '1'\n",
            {"12:35: spec.properties[write.target-file-size-bytes]: it is '1', and spec.layout.targetFileSize says"},
        ),
    ],
)
def test_validate_points_at_what_would_let_every_run_fail(tmp_path: Path, text: str, places: set[str]) -> None:
    said = problems(tmp_path, TABLE + text, CATALOG)
    assert len(said) == len(places)
    for place in places:
        assert any(each.startswith(place) for each in said), said


def test_a_value_of_a_policy_is_pointed_at_in_the_policy(tmp_path: Path) -> None:
    rows = "  retention: {rows: {column: created, maxAge: 1d, schedule: '0 1 * * *'}}\n"
    short = "  orphanFiles: {minAge: 1h, allowShortMinAge: true, schedule: '0 1 * * *'}\n"
    said = problems(tmp_path, POLICY + rows + short, TABLE + "  orphanFiles: {allowShortMinAge: false}\n", CATALOG)
    assert [each.split(": ")[:3] for each in said] == [
        ["5:30", "spec.retention.rows.column", "for ManagedTable sales/events"],
        ["6:25", "spec.orphanFiles.minAge", "for ManagedTable sales/events"],
    ]


def test_a_value_of_a_catalog_is_pointed_at_in_the_catalog(tmp_path: Path) -> None:
    rows = "  maintenance: {retention: {rows: {column: created, maxAge: 1d, schedule: '0 1 * * *'}}}\n"
    [said] = problems(tmp_path, CATALOG + rows, TABLE)
    assert said.startswith(
        "7:44: spec.maintenance.retention.rows.column: for ManagedTable sales/events: the table has no"
    )


def test_plan_and_apply_are_told_with_the_place_and_serve_the_other_tables(tmp_path: Path) -> None:
    rows = "  retention: {rows: {column: created, maxAge: 1d, schedule: '0 1 * * *'}}\n"
    (tmp_path / "all.yaml").write_text("---\n".join([TABLE, POLICY + rows, CATALOG]))
    [note] = read_folder(tmp_path).notes
    assert note.startswith(f"{tmp_path}/all.yaml:15:30: spec.retention.rows.column: for ManagedTable sales/events")
