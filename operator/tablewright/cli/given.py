"""What was typed about a table, against the table itself: a column, a filter, a snapshot or a ref that it does not have
is the input's fault, and is said before anything is started.
"""

from pyiceberg.expressions.parser import parse
from pyiceberg.expressions.visitors import bind
from pyiceberg.table import Table

from tableformat.inspection.history import find_snapshot
from tablewright.api.admission.problems import did_you_mean
from tablewright.cli.exits import InputError


def check_columns(option: str, columns: list[str], table: Table) -> None:
    names = table.schema().column_names
    for column in columns:
        if column not in names:
            raise InputError(f"--{option}: the table has no column {column!r}: {did_you_mean(column, names)}")


def check_filter(text: str | None, table: Table) -> None:
    if text is None:
        return
    example = "write one such as \"day >= '2026-01-01' and city = 'Pune'\""
    try:
        expression = parse(text)
    except Exception:  # the parser's library has errors of its own, which recite the whole grammar
        raise InputError(f"--where {text!r} is no filter: {example}") from None
    try:
        bind(table.schema(), expression, case_sensitive=True)
    except (ValueError, TypeError) as error:
        raise InputError(f"--where {text!r}: {' '.join(str(error).split())}: {example}") from None


def check_snapshot(snapshot_id: int | None, table: Table) -> None:
    """Raises `NoSuchSnapshotError`."""
    if snapshot_id is not None:
        find_snapshot(table.metadata, str(snapshot_id))


def check_ref(name: str | None, table: Table) -> None:
    refs = table.metadata.refs
    if name is not None and name not in refs:
        raise InputError(f"--to-tag: the table has no tag or branch {name!r}: {did_you_mean(name, refs)}")
