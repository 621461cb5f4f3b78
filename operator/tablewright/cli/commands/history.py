"""`tablewright history` and `tablewright diff`: a table's snapshots, and what lies between two of them."""

from typing import TYPE_CHECKING, Annotated

import typer

from tablewright.cli import options
from tablewright.cli.output import Column, OutputFormat, document_of, echo, show, signed_size, size, tell

if TYPE_CHECKING:
    from tableformat.inspection.history import HistoryEntry

_COLUMNS = (
    Column("SNAPSHOT"),
    Column("TIME"),
    Column("OPERATION"),
    Column("FILES +", right=True),
    Column("FILES -", right=True),
    Column("ROWS +", right=True),
    Column("ROWS -", right=True),
    Column("FILES", right=True),
    Column("ROWS", right=True),
    Column("STATE"),
    Column("REFS"),
    Column("PARENT", wide_only=True),
    Column("SIZE", wide_only=True, right=True),
    Column("CURRENT SINCE", wide_only=True),
    Column("CURRENT UNTIL", wide_only=True),
)
_TIME = "%Y-%m-%dT%H:%M:%SZ"


def history(
    table: options.TableName,
    catalog: options.CatalogName = None,
    catalog_uri: options.CatalogUri = None,
    properties: options.Properties = None,
    folders: options.Folders = None,
    state: options.State = None,
    limit: Annotated[
        int | None,
        typer.Option(min=1, help="Number of snapshots, newest first. Default: 50, and all with -o json or yaml."),
    ] = None,
    output: options.Output = OutputFormat.TABLE,
) -> None:
    """Show a table's snapshots, the newest first, and its rollbacks.

    STATE is `current`, `past` for the history of the current one, `rolled back` for what was current and is not in that
    history, and empty for what never was: staged snapshots, and those of other branches.

    Example: tablewright history sales.payments --catalog lake
    """
    from tableformat.inspection.history import snapshot_history
    from tableformat.inspection.main_log import rollbacks
    from tableformat.plurals import plural
    from tablewright.cli.catalogs import AddressOptions, address

    found = address(table, AddressOptions(catalog, catalog_uri, properties or (), folders or (), state))
    metadata = found.load().metadata
    every, moves = snapshot_history(metadata), rollbacks(metadata)
    entries = every[: limit or (50 if output in (OutputFormat.TABLE, OutputFormat.WIDE) else None)]
    rows = [
        (
            str(entry.snapshot_id),
            f"{entry.time:{_TIME}}",
            entry.operation,
            entry.added_files,
            entry.deleted_files,
            entry.added_records,
            entry.deleted_records,
            entry.total_files,
            entry.total_records,
            _state(entry, metadata.current_snapshot_id),
            ",".join(entry.refs),
            None if entry.parent_id is None else str(entry.parent_id),
            None if entry.total_bytes is None else size(entry.total_bytes),
            f"{entry.current[-1].since:{_TIME}}" if entry.current else None,
            f"{until:{_TIME}}" if entry.current and (until := entry.current[-1].until) else None,
        )
        for entry in entries
    ]
    document = {"snapshots": document_of(entries), "total": len(every), "rollbacks": document_of(moves)}
    show(output, _COLUMNS, rows, document)
    if moves and output in (OutputFormat.TABLE, OutputFormat.WIDE):
        echo()
        for move in moves:
            echo(f"rolled back at {move.time:{_TIME}} from snapshot {move.from_snapshot_id} to {move.to_snapshot_id}")
    if len(entries) < len(every):
        total = plural(len(every), "snapshot")
        tell(f"note: the newest {len(entries):,} of {total}; --limit {len(every)} shows all of them")


def _state(entry: "HistoryEntry", current: int | None) -> str:
    if entry.snapshot_id == current:
        return "current"
    return "past" if entry.on_main else "rolled back" if entry.current else ""


def diff(
    table: options.TableName,
    before: Annotated[str, typer.Argument(metavar="SNAPSHOT", help="A snapshot's id, a branch, a tag, or `current`.")],
    after: Annotated[str, typer.Argument(metavar="SNAPSHOT", help="Another one.")] = "current",
    catalog: options.CatalogName = None,
    catalog_uri: options.CatalogUri = None,
    properties: options.Properties = None,
    folders: options.Folders = None,
    state: options.State = None,
    output: options.Output = OutputFormat.TABLE,
) -> None:
    """Show what lies between two snapshots: files, rows and bytes added and removed, and changes of the schema.

    Example: tablewright diff sales.payments 7046316431216743921 current --catalog lake
    """
    from tableformat.inspection.history import find_snapshot, snapshot_difference
    from tablewright.cli.catalogs import AddressOptions, address

    loaded = address(table, AddressOptions(catalog, catalog_uri, properties or (), folders or (), state)).load()
    old, new = find_snapshot(loaded.metadata, before), find_snapshot(loaded.metadata, after)
    found = snapshot_difference(loaded, old, new)
    totals = (
        ("data files", found.added, found.removed),
        ("delete files", found.added_deletes, found.removed_deletes),
    )
    columns = (
        Column(""),
        *(Column(title, right=True) for title in ("ADDED", "REMOVED", "ROWS +", "ROWS -", "SIZE +", "SIZE -", "SIZE")),
    )
    rows = [
        (
            name,
            plus.files,
            minus.files,
            plus.records,
            minus.records,
            size(plus.bytes),
            size(minus.bytes),
            signed_size(plus.bytes - minus.bytes),
        )
        for name, plus, minus in totals
    ]
    ends = {"before": str(found.before), "after": str(found.after)}
    show(output, columns, rows, document_of(found) | ends)
    if output in (OutputFormat.TABLE, OutputFormat.WIDE):
        echo()
        echo("schema: " + ("; ".join(found.schema_changes) or "unchanged"))
