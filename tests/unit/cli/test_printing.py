"""Objects as kubectl shows them."""

from datetime import UTC, datetime, timedelta

import pytest

from tablewright.cli.output import Column, signed_size, size, table_text
from tablewright.cli.printing import age, described, value_at

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (119, "119s"),
        (125, "2m5s"),
        (600, "10m"),
        (179 * 60, "179m"),
        (3 * 3600 + 120, "3h2m"),
        (30 * 3600, "30h"),
        (49 * 3600, "2d1h"),
        (20 * 86400, "20d"),
        (800 * 86400, "2y70d"),
        (9 * 365 * 86400, "9y"),
        (-5, "0s"),
    ],
)
def test_an_age_is_said_in_kubectls_words(seconds: int, text: str) -> None:
    assert age(NOW - timedelta(seconds=seconds), NOW) == text


def test_a_printer_columns_path_finds_fields_and_items() -> None:
    obj = {"status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "InSync", "status": "False"}]}}
    assert value_at(obj, '.status.conditions[?(@.type=="InSync")].status') == "False"
    assert value_at(obj, '.status.conditions[?(@.type=="Healthy")].status') is None
    assert value_at({}, ".status.health.dataFiles") is None
    with pytest.raises(ValueError, match="nothing but fields"):
        value_at(obj, ".status.conditions[0]")


def test_a_table_has_its_columns_below_each_other_and_wide_ones_on_demand() -> None:
    columns = [Column("NAME"), Column("FILES", right=True), Column("NOTE", wide_only=True)]
    rows = [("a", 1200, "x"), ("bcdef", None, "")]
    assert table_text(columns, rows) == "NAME    FILES\na       1,200\nbcdef       -"
    assert table_text(columns, rows, wide=True).splitlines()[1] == "a       1,200   x"


def test_colours_are_for_words_that_mean_something_and_for_terminals_only() -> None:
    rows = [("True",), ("False",), ("other",)]
    plain = table_text([Column("READY")], rows)
    assert "\x1b" not in plain
    coloured = table_text([Column("READY")], rows, colour=True)
    assert "\x1b[32mTrue" in coloured
    assert "\x1b[31mFalse" in coloured
    assert coloured.count("\x1b") == 4


def test_sizes_are_said_in_the_unit_that_fits() -> None:
    assert [size(n) for n in (0, 1023, 1024, 64 << 20, 3 << 40)] == ["0 B", "1023 B", "1.0 KiB", "64.0 MiB", "3.0 TiB"]
    assert [signed_size(n) for n in (-2048, 0, 2048)] == ["-2.0 KiB", "0 B", "+2.0 KiB"]


def test_a_described_object_tells_lists_of_objects_as_tables() -> None:
    text = described(
        {
            "metadata": {"name": "payments", "namespace": "sales", "labels": {"team": "a"}},
            "spec": {"catalogRef": {"name": "lake"}, "suspend": False, "partitioning": [{"column": "ts"}]},
        }
    )
    assert text.splitlines() == [
        "Name:       payments",
        "Namespace:  sales",
        "Labels:",
        "  team=a",
        "Spec:",
        "  Suspend:  false",
        "  Catalog Ref:",
        "    Name:  lake",
        "  Partitioning:",
        "    Column",
        "    ts",
    ]


def test_objects_inside_the_objects_of_a_list_are_told_below_each_other() -> None:
    operations = [
        {"operation": "Compact", "failures": 0, "record": {"state": "Ended", "end": "2026"}},
        {"operation": "ExpireSnapshots", "failures": 1, "record": {"state": "Pending"}},
    ]
    assert described({"metadata": {"name": "t"}, "status": {"operations": operations}}).splitlines()[2:] == [
        "Status:",
        "  Operations:",
        "    Operation:  Compact",
        "    Failures:   0",
        "    Record:",
        "      State:  Ended",
        "      End:    2026",
        "",
        "    Operation:  ExpireSnapshots",
        "    Failures:   1",
        "    Record:",
        "      State:  Pending",
    ]
