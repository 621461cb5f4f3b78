"""`tablewright inspect`: a table's health, and what maintenance would make of it."""

from typing import TYPE_CHECKING, Annotated

import typer

from tableformat.plurals import plural
from tablewright.cli import options
from tablewright.cli.output import Column, OutputFormat, as_json, as_yaml, document_of, echo, size, table_text

if TYPE_CHECKING:
    from tablewright.cli.examination import Examination

_BAR = 32


def inspect(
    table: options.TableName,
    catalog: options.CatalogName = None,
    catalog_uri: options.CatalogUri = None,
    properties: options.Properties = None,
    folders: options.Folders = None,
    state: options.State = None,
    orphans: Annotated[bool, typer.Option("--orphans", help="Look for orphan files, too: lists the storage.")] = False,
    output: options.Output = OutputFormat.TABLE,
) -> None:
    """Show a table's health: sizes of files, worst partitions, deletes, refs, and what each operation would save.

    Example: tablewright inspect sales.payments --catalog lake
    """
    from datetime import UTC, datetime

    from tablewright.cli.catalogs import AddressOptions, address
    from tablewright.cli.examination import examine

    found = address(table, AddressOptions(catalog, catalog_uri, properties or (), folders or (), state))
    seen = examine(found, now=datetime.now(UTC), orphans=orphans)
    if output in (OutputFormat.JSON, OutputFormat.YAML):
        document = {
            "table": seen.name,
            "location": seen.location,
            "formatVersion": seen.format_version,
            "targetFileBytes": seen.target_file_bytes,
            "health": document_of(seen.health),
            "refs": document_of(seen.refs),
            "savings": document_of(seen.savings),
        }
        echo(as_json(document) if output is OutputFormat.JSON else as_yaml(document).rstrip())
    else:
        echo("\n".join(_lines(seen)))


def _lines(seen: "Examination") -> list[str]:
    health = seen.health
    small = 100 * health.small_files // health.data_files if health.data_files else 0
    facts = [
        ("table", seen.name),
        ("location", seen.location),
        ("format", f"Iceberg v{seen.format_version}"),
        ("rows", f"{health.records:,}"),
        ("data files", f"{health.data_files:,} of {size(health.data_bytes)}, median {size(health.median_file_bytes)}"),
        ("small files", f"{health.small_files:,} ({small} %); the target is {size(seen.target_file_bytes)}"),
        (
            "deletes",
            f"{plural(health.delete_files, 'file')} ({health.position_delete_files:,} position, "
            f"{health.equality_delete_files:,} equality, {plural(health.deletion_vectors, 'vector')}) "
            f"on {plural(health.files_with_deletes, 'data file')}",
        ),
        (
            "full scan",
            f"opens {health.read_amplification:.1f} times as many files as it had to; compaction would save it "
            f"{plural(health.requests_saved, 'request')}"
            + (f" and {size(health.bytes_saved)} of deleted rows" if health.bytes_saved else ""),
        ),
        ("partitions", f"{health.partitions:,}"),
        ("manifests", f"{health.manifests:,} of {size(health.manifest_bytes)}"),
        ("snapshots", f"{health.snapshots:,}"),
    ]
    lines = [f"{name + ':':<13}{text}" for name, text in facts]
    if health.size_histogram:
        most = max(bucket.files for bucket in health.size_histogram)
        lines += ["", "file sizes"]
        for bucket in health.size_histogram:
            bar = "#" * max(1, round(_BAR * bucket.files / most))
            lines.append(f"  < {size(bucket.below_bytes):>10}  {bar:<{_BAR}}  {bucket.files:,}")
    if len(health.worst_partitions) > 1:
        titles = (Column("PARTITION"), *(Column(word, right=True) for word in ("FILES", "SMALL", "SIZE")))
        worst = [(p.partition, p.data_files, p.small_files, size(p.data_bytes)) for p in health.worst_partitions]
        lines += ["", table_text(titles, worst)]
    refs = [(name, ref.snapshot_ref_type.value, str(ref.snapshot_id)) for name, ref in seen.refs.items()]
    if refs:
        lines += ["", table_text((Column("REF"), Column("KIND"), Column("SNAPSHOT")), refs)]
    titles = (
        Column("OPERATION"),
        *(Column(word, right=True) for word in ("FILES", "SIZE", "SNAPSHOTS")),
        Column("NOTE"),
    )
    savings = [
        (
            each.operation,
            each.plan.files if each.plan else None,
            size(each.plan.bytes) if each.plan else None,
            each.plan.snapshots if each.plan else None,
            each.told,
        )
        for each in seen.savings
    ]
    return [*lines, "", "what each operation would do", table_text(titles, savings)]
