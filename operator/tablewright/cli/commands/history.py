"""`tablewright history` and `tablewright diff`: a table's snapshots, and what lies between two of them."""

from typing import Annotated

import typer

from tablewright.cli import options
from tablewright.cli.output import Column, OutputFormat, document_of, show, signed_size, size, tell

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
    Column("REFS"),
    Column("PARENT", wide_only=True),
    Column("SIZE", wide_only=True, right=True),
    Column("ON MAIN", wide_only=True),
)


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
    """Show a table's snapshots, the newest first.

    Example: tablewright history sales.payments --catalog lake
    """
    from tableformat.inspection.history import snapshot_history
    from tablewright.cli.catalogs import AddressOptions, address

    found = address(table, AddressOptions(catalog, catalog_uri, properties or (), folders or (), state))
    every = snapshot_history(found.load().metadata)
    entries = every[: limit or (50 if output in (OutputFormat.TABLE, OutputFormat.WIDE) else None)]
    rows = [
        (
            str(entry.snapshot_id),
            f"{entry.time:%Y-%m-%dT%H:%M:%SZ}",
            entry.operation,
            entry.added_files,
            entry.deleted_files,
            entry.added_records,
            entry.deleted_records,
            entry.total_files,
            entry.total_records,
            ",".join(entry.refs),
            None if entry.parent_id is None else str(entry.parent_id),
            None if entry.total_bytes is None else size(entry.total_bytes),
            "yes" if entry.is_current else "no",
        )
        for entry in entries
    ]
    document = {"snapshots": document_of(entries), "total": len(every)}
    show(output, _COLUMNS, rows, document)
    if len(entries) < len(every):
        tell(f"note: the newest {len(entries):,} of {len(every):,} snapshots; --limit {len(every)} shows all of them")


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
    from tablewright.cli.output import echo

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
