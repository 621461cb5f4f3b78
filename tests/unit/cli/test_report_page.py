"""The report's page: what comes from tables and declarations is text there, never markup."""

import re
from datetime import UTC, datetime
from html.parser import HTMLParser

from tableformat.inspection import TableHealth
from tableformat.inspection.health import PartitionHealth, SizeBucket
from tableformat.inspection.history import HistoryEntry
from tablewright.api.conditions import condition
from tablewright.api.objects import parse
from tablewright.api.run import MaintenanceRun
from tablewright.cli.examination import Examination, Saving
from tablewright.cli.report.charts import files_over_time, histogram
from tablewright.cli.report.page import render_page
from tablewright.cli.report.values import ReportedTable

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOSTILE = '<script>alert("x")</script>'


class Tags(HTMLParser):
    """The elements of a page, and whether each that was opened was closed."""

    VOID = frozenset({"meta", "rect", "polyline"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        self.seen.add(tag)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag


def health(**figures: object) -> TableHealth:
    known = {
        "snapshot_id": 7,
        "data_files": 5,
        "small_files": 4,
        "data_bytes": 5000,
        "records": 50,
        "delete_files": 0,
        "snapshots": 1,
        "manifests": 1,
        "median_file_bytes": 1000,
        "partitions": 2,
    }
    return TableHealth(**{**known, **figures})  # type: ignore[arg-type]


def entry(number: int, files: int | None, *, current: bool = True) -> HistoryEntry:
    return HistoryEntry(
        number, None, NOW, "append", (), current, (), None, None, None, None, files, None, None, summary={}
    )


def test_hostile_names_and_messages_are_text() -> None:
    seen = Examination(
        name=HOSTILE,
        location=HOSTILE,
        format_version=2,
        target_file_bytes=1 << 20,
        small_below=3 << 18,
        health=health(worst_partitions=(PartitionHealth(HOSTILE, 3, 3, 1), PartitionHealth("b", 2, 1, 1))),
        refs={},
        savings=(Saving("Compact", None, HOSTILE),),
    )
    run = parse(
        MaintenanceRun,
        {
            "metadata": {"name": "r"},
            "spec": {"tableRef": {"name": "t"}, "operation": "Compact"},
            "status": {"phase": "Failed", "message": HOSTILE},
        },
    )
    tables = [
        ReportedTable(HOSTILE, seen, conditions=(condition("Ready", False, "R", HOSTILE),), runs=(run,)),
        ReportedTable("gone", None, HOSTILE),
    ]
    page = render_page(tables, title=HOSTILE, now=NOW)
    assert HOSTILE not in page
    tags = Tags()
    tags.feed(page)
    assert tags.open == []
    assert "script" not in tags.seen


def run_of(hour: int, before: int, after: int, *, freed: int = 0) -> MaintenanceRun:
    figures = {"dataFiles": before, "deleteFiles": 1, "dataBytes": 1000 * before, "records": 50}
    status = {
        "phase": "Succeeded",
        "startTime": f"2026-03-01T{hour:02}:00:00Z",
        "completionTime": f"2026-03-01T{hour:02}:00:09Z",
        "before": figures,
        "after": {**figures, "dataFiles": after, "deleteFiles": 0, "dataBytes": 1000 * after},
        "result": {"deletedFiles": 2 * freed, "deletedBytes": freed},
    }
    spec = {"tableRef": {"name": "t"}, "operation": "Compact"}
    return parse(MaintenanceRun, {"metadata": {"name": f"r{hour}"}, "spec": spec, "status": status})


def test_before_and_after_are_of_the_first_and_the_last_run_and_what_was_freed_is_of_all() -> None:
    runs = (run_of(9, 12, 7, freed=70), run_of(5, 90, 4, freed=1000), run_of(7, 8, 5))
    page = render_page([ReportedTable("t", None, runs=runs)], title="t", now=NOW)
    shown = dict(re.findall(r'data-figure="([^"]*)" value="(\d+)"', page))
    assert (shown["t:before:data_files"], shown["t:after:data_files"]) == ("90", "7")
    assert (shown["t:before:data_bytes"], shown["t:after:data_bytes"]) == ("90000", "7000")
    assert (shown["t:before:delete_files"], shown["t:after:delete_files"]) == ("1", "0")
    assert shown["t:requests_no_more"] == shown["fleet:requests_no_more"] == str(91 - 7)
    assert (shown["t:deleted_files"], shown["t:deleted_bytes"], shown["fleet:deleted_bytes"]) == (
        "2140",
        "1070",
        "1070",
    )
    assert "3 runs, 2026-03-01 05:00:00 to 09:00:09 UTC" in page


def test_a_table_without_runs_claims_no_savings() -> None:
    waiting = parse(
        MaintenanceRun, {"metadata": {"name": "r"}, "spec": {"tableRef": {"name": "t"}, "operation": "Compact"}}
    )
    page = render_page([ReportedTable("t", None, runs=(waiting,))], title="t", now=NOW)
    assert "Before and after" not in page
    assert "fleet:deleted_bytes" not in page


def test_bars_are_as_long_as_their_counts_say() -> None:
    drawn = histogram([SizeBucket(1024, 10), SizeBucket(1 << 30, 5)], 1 << 20)
    widths = [float(part.split('"')[0]) for part in drawn.split('width="')[1:]]
    assert widths[0] == 2 * widths[1]
    assert drawn.count('class="bar small"') == 1
    assert "no data files" in histogram([], 1)


def test_the_line_has_a_step_for_each_commit_on_the_way() -> None:
    newest_first = [entry(4, 3), entry(3, 9, current=False), entry(2, None), entry(1, 12)]
    assert 'data-counts="12,3"' in files_over_time(newest_first)
    assert "at most 12, now 3; 2026-03-01 12:00 to 12:00 UTC" in files_over_time(newest_first)
    assert files_over_time(newest_first[:1]) == ""
