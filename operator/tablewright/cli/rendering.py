"""What the command line prints: values to text, nothing else."""

import sys
from collections.abc import Sequence

from tablewright.api.conditions import HEALTHY, IN_SYNC, READY
from tablewright.api.run import RunResult
from tablewright.api.table import ManagedTable
from tablewright.cli.output import Column, has_colour, size, table_text
from tablewright.embedded.apply import RunEnded, RunStarted

_COLUMNS = tuple(
    Column(title) for title in ("NAMESPACE", "NAME", "READY", "IN SYNC", "HEALTHY", "FILES", "SMALL", "SIZE")
)


def status_table(tables: Sequence[ManagedTable]) -> str:
    """What one wants to see right after an apply; `tablewright get tables` has every column."""
    return table_text(_COLUMNS, [_row(table) for table in tables], colour=has_colour(sys.stdout))


def troubles(tables: Sequence[ManagedTable]) -> list[str]:
    """A line for each condition that does not hold."""
    return [
        f"{'/'.join(table.key)}: not {condition.type} ({condition.reason}): {condition.message}"
        for table in tables
        for condition in table.status.conditions
        if condition.status != "True"
    ]


def describe_event(event: RunStarted | RunEnded) -> str:
    name, run = "/".join(event.table.key), event.run
    if isinstance(event, RunStarted):
        return f"{name}: {run.spec.operation} started (run {run.metadata.name})"
    figures = "" if run.status.result is None else _figures(run.status.result)
    return f"{name}: {run.spec.operation} {str(run.status.phase).lower()}: {run.status.message}{figures}"


def _figures(result: RunResult) -> str:
    """What the message does not say: how much it was."""
    if result.rewritten_bytes:
        return f", {size(result.rewritten_bytes)} became {size(result.added_bytes)}, {result.records} rows"
    if result.deleted_bytes:
        return f", {size(result.deleted_bytes)} freed"
    return ""


def _row(table: ManagedTable) -> tuple[str, ...]:
    conditions = {condition.type: condition.status for condition in table.status.conditions}
    health = table.status.health
    figures = (str(health.data_files), str(health.small_files), size(health.data_bytes)) if health else ("-", "-", "-")
    return (*table.key, *(conditions.get(kind, "-") for kind in (READY, IN_SYNC, HEALTHY)), *figures)
