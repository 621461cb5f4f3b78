"""`tablewright run OPERATION TABLE`, `rollback`, `cherry-pick`: one operation now, on any Iceberg table of any catalog.

No declaration is needed. With -f, what is not typed comes from the declared table's policy.
"""

import re
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from tablewright.cli import completion, options
from tablewright.cli.once import OnceEach
from tablewright.cli.output import OutputFormat

if TYPE_CHECKING:
    from tablewright.cli.catalogs import AddressedTable

DryRun = Annotated[bool, typer.Option("--dry-run", help="Plan with the run's own planner, and change nothing.")]


class OrderWord(StrEnum):
    BIN_PACK = "binpack"
    SORT = "sort"
    Z_ORDER = "zorder"


class OrphanWord(StrEnum):
    REPORT = "report"
    MARK_THEN_DELETE = "mark-then-delete"
    DELETE = "delete"


class MismatchWord(StrEnum):
    REFUSE = "refuse"
    KEEP = "keep"
    DELETE = "delete"


class _Operations(TyperGroup):
    """Operations are known by the API's own names as well: ExpireSnapshots is expire-snapshots."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        kebab = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", cmd_name).lower()
        return super().get_command(ctx, kebab)


app = typer.Typer(
    cls=_Operations,
    no_args_is_help=True,
    help="Carry one operation out now, on any Iceberg table of any catalog.\n\n"
    "Example: tablewright run compact sales.payments --catalog lake --dry-run",
)


@app.command(cls=OnceEach)
def compact(
    table: options.TableName,
    catalog: options.CatalogName = None,
    catalog_uri: options.CatalogUri = None,
    properties: options.Properties = None,
    folders: options.Folders = None,
    state: options.State = None,
    dry_run: DryRun = False,
    output: options.Output = OutputFormat.TABLE,
    target_file_size: Annotated[str | None, typer.Option(help="Such as 256Mi (default: as the table says).")] = None,
    min_input_files: Annotated[int | None, typer.Option(min=1, help="Leave smaller groups alone.")] = None,
    delete_ratio_percent: Annotated[int | None, typer.Option(min=1, max=100, help="Rewrite at this share.")] = None,
    max_bytes: Annotated[str | None, typer.Option(help="Rewrite at most so much, such as 10Gi.")] = None,
    strategy: Annotated[OrderWord | None, typer.Option(help="In which order the rows of new files are.")] = None,
    by: Annotated[
        list[str] | None,
        typer.Option("--by", help='A column to order by, such as "ts" or "ts desc nulls last"; may be repeated.'),
    ] = None,
    where: Annotated[str | None, typer.Option(help="Only partitions with such rows: \"day >= '2026-01-01'\".")] = None,
    use_current_spec: Annotated[
        bool, typer.Option("--use-current-spec", help="Rewrite files of older partition specs into the current one.")
    ] = False,
    rewrite_all: Annotated[
        bool, typer.Option("--rewrite-all", help="Rewrite every file, as for a first z-order of those that are there.")
    ] = False,
    verify: Annotated[bool, typer.Option("--verify", help="Compare a checksum of all rows before the commit.")] = False,
) -> None:
    """Rewrite small files into few, with their deletes applied. Needs Java 17 or later, for Spark.

    Example: tablewright run compact sales.payments --catalog lake --target-file-size 256Mi
    """
    from tableformat.maintenance.compaction import CompactionOptions
    from tableformat.maintenance.job import CompactWork
    from tablewright.cli import given as typed
    from tablewright.cli import running

    found = _address(table, catalog, catalog_uri, properties, folders, state)
    loaded = found.load()
    order = running.order_option("by", by or ())
    typed.check_columns("by", [str(column["name"]) for column in order], loaded)
    typed.check_filter(where, loaded)
    given = {
        "target_file_bytes": running.size_option("target-file-size", target_file_size),
        "min_input_files": min_input_files,
        "delete_ratio_percent": delete_ratio_percent,
        "max_bytes_per_run": running.size_option("max-bytes", max_bytes),
        "strategy": None if strategy is None else strategy.value,
        "order": order or (() if strategy else None),
        "filter": where,
        "use_current_spec": use_current_spec or None,
        "rewrite_all": rewrite_all or None,
        "verify_contents": verify or None,
    }
    known = {"target_file_bytes": running.target_bytes(loaded), **running.declared_work(found, "Compact")}
    work = CompactWork(options=running.options_of(CompactionOptions, known, given))
    raise typer.Exit(running.carry_out(found, work, dry_run=dry_run, output=output))


@app.command(cls=OnceEach)
def expire_snapshots(
    table: options.TableName,
    catalog: options.CatalogName = None,
    catalog_uri: options.CatalogUri = None,
    properties: options.Properties = None,
    folders: options.Folders = None,
    state: options.State = None,
    dry_run: DryRun = False,
    output: options.Output = OutputFormat.TABLE,
    max_age: Annotated[str | None, typer.Option(help="Such as 7d (default: as the table says).")] = None,
    min_count: Annotated[int | None, typer.Option(min=1, help="Keep so many of a branch whatever their age.")] = None,
) -> None:
    """Expire old snapshots, and delete the files that nothing needs any more.

    Example: tablewright run expire-snapshots sales.payments --catalog lake --max-age 7d --dry-run
    """
    from tableformat.maintenance.expiry import ExpiryOptions
    from tableformat.maintenance.job import ExpireWork
    from tablewright.cli import running

    found = _address(table, catalog, catalog_uri, properties, folders, state)
    given = {
        "max_snapshot_age_ms": running.duration_option("max-age", max_age),
        "min_snapshots_to_keep": min_count,
    }
    known = running.declared_work(found, "ExpireSnapshots")
    work = ExpireWork(options=running.options_of(ExpiryOptions, known, given))
    raise typer.Exit(running.carry_out(found, work, dry_run=dry_run, output=output))


@app.command(cls=OnceEach)
def remove_orphan_files(
    table: options.TableName,
    catalog: options.CatalogName = None,
    catalog_uri: options.CatalogUri = None,
    properties: options.Properties = None,
    folders: options.Folders = None,
    state: options.State = None,
    dry_run: DryRun = False,
    output: options.Output = OutputFormat.TABLE,
    action: Annotated[OrphanWord | None, typer.Option(help="What is done with them.")] = None,
    min_age: Annotated[str | None, typer.Option(help="Touch nothing younger, such as 3d.")] = None,
    grace: Annotated[str | None, typer.Option(help="How long a marked file is kept, such as 7d.")] = None,
    allow_short_min_age: Annotated[
        bool, typer.Option("--allow-short-min-age", help="Accept a --min-age below a day: nobody writes to the table.")
    ] = False,
    prefix_mismatch: Annotated[
        MismatchWord | None,
        typer.Option(help="Whether stores of another scheme or name are one (keep) or two (delete)."),
    ] = None,
) -> None:
    """Find files in the table's folders that no snapshot leads to: mark them, and delete them when marked for long.

    Example: tablewright run remove-orphan-files sales.payments --catalog lake --action report
    """
    from tableformat.maintenance.job import OrphanWork
    from tableformat.maintenance.orphans import OrphanAction, OrphanOptions, PrefixMismatch
    from tablewright.cli import running

    found = _address(table, catalog, catalog_uri, properties, folders, state)
    given = {
        "action": None if action is None else OrphanAction[action.name],
        "min_age_ms": running.duration_option("min-age", min_age),
        "grace_ms": running.duration_option("grace", grace),
        "allow_short_min_age": allow_short_min_age or None,
        "prefix_mismatch": None if prefix_mismatch is None else PrefixMismatch[prefix_mismatch.name],
    }
    known = running.declared_work(found, "RemoveOrphanFiles")
    work = OrphanWork(options=running.options_of(OrphanOptions, known, given))
    raise typer.Exit(running.carry_out(found, work, dry_run=dry_run, output=output))


@app.command(cls=OnceEach)
def rewrite_manifests(
    table: options.TableName,
    catalog: options.CatalogName = None,
    catalog_uri: options.CatalogUri = None,
    properties: options.Properties = None,
    folders: options.Folders = None,
    state: options.State = None,
    dry_run: DryRun = False,
    output: options.Output = OutputFormat.TABLE,
    target_size: Annotated[str | None, typer.Option(help="Such as 8Mi (default: as the table says).")] = None,
) -> None:
    """Rewrite manifests into few, clustered by partition.

    Example: tablewright run rewrite-manifests sales.payments --catalog lake
    """
    from tableformat.maintenance.job import ManifestWork
    from tableformat.maintenance.manifests import ManifestOptions
    from tablewright.cli import running

    found = _address(table, catalog, catalog_uri, properties, folders, state)
    given = {"target_bytes": running.size_option("target-size", target_size)}
    work = ManifestWork(options=running.options_of(ManifestOptions, {}, given))
    raise typer.Exit(running.carry_out(found, work, dry_run=dry_run, output=output))


@app.command(cls=OnceEach)
def delete_expired_rows(
    table: options.TableName,
    catalog: options.CatalogName = None,
    catalog_uri: options.CatalogUri = None,
    properties: options.Properties = None,
    folders: options.Folders = None,
    state: options.State = None,
    dry_run: DryRun = False,
    output: options.Output = OutputFormat.TABLE,
    column: Annotated[str | None, typer.Option(help="The column that says how old a row is.")] = None,
    max_age: Annotated[str | None, typer.Option(help="Rows older than this go, such as 400d.")] = None,
) -> None:
    """Delete rows that are older than a limit, by a time column.

    Example: tablewright run delete-expired-rows sales.payments --catalog lake --column ts --max-age 400d --dry-run
    """
    from tableformat.maintenance.job import RowRetentionWork
    from tableformat.maintenance.retention import RowRetentionOptions
    from tablewright.cli import given as typed
    from tablewright.cli import running
    from tablewright.cli.exits import InputError

    found = _address(table, catalog, catalog_uri, properties, folders, state)
    typed.check_columns("column", [] if column is None else [column], found.load())
    whole = column is not None and max_age is not None
    known = {} if whole else running.declared_work(found, "DeleteExpiredRows")
    given = {"column": column, "max_age_ms": running.duration_option("max-age", max_age)}
    if not known and not whole:
        raise InputError("give --column and --max-age: nothing else says which rows are too old")
    work = RowRetentionWork(options=running.options_of(RowRetentionOptions, known, given))
    raise typer.Exit(running.carry_out(found, work, dry_run=dry_run, output=output))


def rollback(
    table: options.TableName,
    catalog: options.CatalogName = None,
    catalog_uri: options.CatalogUri = None,
    properties: options.Properties = None,
    folders: options.Folders = None,
    state: options.State = None,
    to_snapshot: Annotated[int | None, typer.Option(help="Back to this snapshot.")] = None,
    as_of: Annotated[str | None, typer.Option(help="Back to a time, such as 2026-09-30T23:59:59Z.")] = None,
    to_tag: Annotated[
        str | None, typer.Option(help="Back to a tag, or a branch.", autocompletion=completion.refs)
    ] = None,
    before_run: Annotated[
        str | None, typer.Option(help="Back to before a run, by its name or id.", autocompletion=completion.runs)
    ] = None,
    undo: Annotated[
        bool, typer.Option("--undo", help="Back to where the table was before its last rollback that is not undone.")
    ] = False,
    allow_losing_commits: Annotated[
        bool, typer.Option("--allow-losing-commits", help="Also where commits of rows are lost by it.")
    ] = False,
    dry_run: DryRun = False,
    output: options.Output = OutputFormat.TABLE,
) -> None:
    """Take a table back to an earlier state of its own. Where commits would be lost by it, they are named instead.

    The snapshots that it leaves can be reached until they expire: --undo goes back to them.

    Example: tablewright rollback sales.payments --catalog lake --to-snapshot 7046316431216743921 --dry-run
    """
    from tableformat.maintenance.job import RollbackWork
    from tableformat.maintenance.rollback import RollbackOptions
    from tablewright.cli import given as typed
    from tablewright.cli import running
    from tablewright.cli.exits import InputError

    places = {
        "snapshot_id": to_snapshot,
        "as_of_ms": as_of,
        "tag": to_tag,
        "before_run": before_run,
        "undo": undo or None,
    }
    if sum(place is not None for place in places.values()) != 1:
        raise InputError("say where to, once: --to-snapshot, --as-of, --to-tag, --before-run or --undo")
    if as_of is not None:
        places["as_of_ms"] = int(running.time_option("as-of", as_of).timestamp() * 1000)
    found = _address(table, catalog, catalog_uri, properties, folders, state)
    loaded = found.load()
    typed.check_snapshot(to_snapshot, loaded)
    typed.check_ref(to_tag, loaded)
    given = {**places, "allow_losing_commits": allow_losing_commits}
    work = RollbackWork(options=running.options_of(RollbackOptions, {}, given))
    raise typer.Exit(running.carry_out(found, work, dry_run=dry_run, output=output))


def cherry_pick(
    table: options.TableName,
    snapshot: Annotated[int, typer.Argument(metavar="SNAPSHOT", help="The staged snapshot's id.")],
    catalog: options.CatalogName = None,
    catalog_uri: options.CatalogUri = None,
    properties: options.Properties = None,
    folders: options.Folders = None,
    state: options.State = None,
    dry_run: DryRun = False,
    output: options.Output = OutputFormat.TABLE,
) -> None:
    """Publish a staged snapshot on main: an append, an overwrite of partitions, or whatever is on top of main.

    Example: tablewright cherry-pick sales.payments 7046316431216743921 --catalog lake --dry-run
    """
    from tableformat.maintenance.job import CherryPickWork
    from tablewright.cli import given as typed
    from tablewright.cli import running

    found = _address(table, catalog, catalog_uri, properties, folders, state)
    typed.check_snapshot(snapshot, found.load())
    work = CherryPickWork(snapshot_id=snapshot)
    raise typer.Exit(running.carry_out(found, work, dry_run=dry_run, output=output))


def _address(
    table: str, catalog: str | None, uri: str | None, properties: list[str] | None, folders: Any, state: Any
) -> "AddressedTable":
    from tablewright.cli.catalogs import AddressOptions, address

    return address(table, AddressOptions(catalog, uri, properties or (), folders or (), state))
