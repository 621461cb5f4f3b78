"""What the command line prints: values to text, nothing else."""

import sys
from collections.abc import Sequence

from tableformat.plurals import plural
from tablewright.api.conditions import HEALTHY, IN_SYNC, MAINTAINED, READY, Condition
from tablewright.api.run import RunResult
from tablewright.api.table import ManagedTable
from tablewright.cli.output import Column, has_colour, size, table_text
from tablewright.embedded.apply import LockAwaited, RunEnded, RunStarted, TableChanged, TableDone, TableForgotten
from tablewright.embedded.state import LockHolder

_COLUMNS = tuple(
    Column(title)
    for title in ("NAMESPACE", "NAME", "READY", "IN SYNC", "HEALTHY", "MAINTAINED", "FILES", "SMALL", "SIZE")
)


def status_table(tables: Sequence[ManagedTable]) -> str:
    """What one wants to see right after an apply; `tablewright get tables` has every column."""
    return table_text(_COLUMNS, [_row(table) for table in tables], colour=has_colour(sys.stdout))


def troubles(done: Sequence[TableDone]) -> list[str]:
    """A line for each condition that does not hold; a table that only waits for a window is in no trouble."""
    return [
        f"{'/'.join(event.table.key)}: not {condition.type} ({condition.reason}): {condition.message}"
        for event in done
        for condition in event.table.status.conditions
        if condition.status != "True" and not _waits(event, condition)
    ]


def waiting(done: Sequence[TableDone]) -> list[str]:
    return [
        f"{'/'.join(event.table.key)}: waits for a window: {condition.message}"
        for event in done
        for condition in event.table.status.conditions
        if _waits(event, condition)
    ]


def _waits(event: TableDone, condition: Condition) -> bool:
    return event.window_opens_at is not None and condition.type == HEALTHY and condition.status != "True"


def _wait(holder: LockHolder) -> str:
    since = f"since {holder.since:%Y-%m-%dT%H:%M:%SZ}"
    if holder.pid is None:
        return f"waiting for another process, which has worked on this folder {since}"
    if holder.is_running:
        return f"waiting for process {holder.pid}, which has worked on this folder {since}"
    return f"waiting for a run that process {holder.pid} left behind, under way {since}"


def describe_event(event: LockAwaited | TableForgotten | TableChanged | RunStarted | RunEnded) -> str:
    if isinstance(event, LockAwaited):
        return _wait(event.holder)
    if isinstance(event, TableForgotten):
        return f"{event.key}: its declaration is gone; it is forgotten, and its table is left as it is"
    name = "/".join(event.table.key)
    if isinstance(event, TableChanged):
        return f"{name}: {'; '.join(event.done)}"
    run = event.run
    if isinstance(event, RunStarted):
        return f"{name}: {run.spec.operation} started (run {run.metadata.name})"
    figures = "" if run.status.result is None else _figures(run.status.result)
    return f"{name}: {run.spec.operation} {str(run.status.phase).lower()}: {run.status.message}{figures}"


def _figures(result: RunResult) -> str:
    """What the message does not say: how much it was."""
    if result.rewritten_bytes:
        return f", {size(result.rewritten_bytes)} became {size(result.added_bytes)}, {plural(result.records, 'row')}"
    if result.deleted_bytes:
        return f", {size(result.deleted_bytes)} freed"
    return ""


def _row(table: ManagedTable) -> tuple[str, ...]:
    conditions = {condition.type: condition.status for condition in table.status.conditions}
    health = table.status.health
    figures = (str(health.data_files), str(health.small_files), size(health.data_bytes)) if health else ("-", "-", "-")
    return (*table.key, *(conditions.get(kind, "-") for kind in (READY, IN_SYNC, HEALTHY, MAINTAINED)), *figures)
