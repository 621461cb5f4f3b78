"""Tables with `variant`, `geometry`, `geography` and `unknown` columns, at odd paths, that Iceberg's library wrote.

PyIceberg cannot parse some of these types. Java reads the same rows after every operation of ours.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyiceberg.table import Table
from pyiceberg.types import LongType

from tableformat.catalogs import SqlConfig, open_catalog
from tableformat.catalogs.pointer_catalog import PointerCatalog
from tableformat.inspection import snapshot_files, table_health
from tableformat.locations import Place
from tableformat.maintenance import InProcessExecutor
from tableformat.maintenance.compaction import CompactionOptions, CompactionResult, compact, plan_compaction
from tableformat.maintenance.expiry import ExpiryOptions, expire_snapshots
from tableformat.maintenance.holds import Hold, place_hold
from tableformat.maintenance.manifests import ManifestOptions, rewrite_manifests
from tableformat.maintenance.orphans import OrphanAction, OrphanOptions, remove_orphans
from tableformat.maintenance.rollback import RollbackOptions, roll_back
from tests.differential.reference import Reference

IDENTIFIER = ("db", "t")


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[PointerCatalog]:
    opened = open_catalog(
        SqlConfig(name="lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse")
    )
    assert isinstance(opened, PointerCatalog)
    opened.create_namespace("db")
    yield opened
    opened.close()


def written(reference: Reference, catalog: PointerCatalog, folder: Path, **options: bool) -> Table:
    metadata = reference.ask("write new types", location=f"file:{folder}/t #1?é%41", **options)
    return catalog.register_table(IDENTIFIER, metadata)


def rows(reference: Reference, table: Table) -> list[str]:
    return sorted(reference.ask("read new types", metadata=table.refresh().metadata_location))


def types(table: Table) -> list[object]:
    metadata = json.loads(Path(Place.of(table.refresh().metadata_location).path).read_text())
    return [field["type"] for field in metadata["schemas"][0]["fields"]]


def later(table: Table, **delta: float) -> datetime:
    return datetime.fromtimestamp(table.refresh().metadata.last_updated_ms / 1000, UTC) + timedelta(**delta)


def compacted(catalog: PointerCatalog, table: Table) -> CompactionResult:
    options = CompactionOptions(min_input_files=2, verify_contents=True)
    return compact(catalog, IDENTIFIER, options, executor=InProcessExecutor(), run_id="run", now=later(table))


@pytest.mark.parametrize("variant", [True, False])
def test_java_reads_the_same_rows_and_types_after_every_operation_on_metadata(
    reference: Reference, catalog: PointerCatalog, tmp_path: Path, variant: bool
) -> None:
    table = written(reference, catalog, tmp_path, variant=variant)
    before, as_written, good = rows(reference, table), types(table), table.metadata.current_snapshot_id
    assert len(before) == 12
    assert table_health(table, small_file_bytes=2**20).data_files == 3

    now = later(table)
    place_hold(catalog, IDENTIFIER, Hold(name="h", as_of=now, until=now + timedelta(days=9)), now=now)
    table.refresh().update_schema().add_column("more", LongType()).rename_column("id", "key").commit()
    rewrite_manifests(catalog, IDENTIFIER, ManifestOptions(), run_id="manifests")
    expire_snapshots(
        catalog, IDENTIFIER, ExpiryOptions(max_snapshot_age_ms=0, min_snapshots_to_keep=2), now=later(table, days=1)
    )
    lost = Path(Place.of(table.location()).path) / "data" / "lost#1.parquet"
    lost.write_bytes(b"x")
    remove_orphans(catalog, IDENTIFIER, OrphanOptions(action=OrphanAction.DELETE), now=later(table, days=20))
    options = RollbackOptions(snapshot_id=good, allow_losing_commits=True)
    roll_back(catalog, IDENTIFIER, options, run_id="back", now=later(table))

    assert not lost.exists()
    assert rows(reference, table) == [row[:-1] + "null;)" for row in before]
    assert types(table) == as_written


@pytest.mark.parametrize("variant", [True, False])
def test_compaction_carries_new_types_over_as_java_stores_them(
    reference: Reference, catalog: PointerCatalog, tmp_path: Path, variant: bool
) -> None:
    table = written(reference, catalog, tmp_path, variant=variant)
    before = rows(reference, table)
    [source, *_] = data_files(table)
    schema_before = stored_columns(source)

    assert compacted(catalog, table).files_rewritten == 3

    [path] = data_files(table)
    assert rows(reference, table) == before
    assert stored_columns(path) == schema_before
    footer = pq.read_metadata(path)
    chunks = [footer.row_group(0).column(place) for place in range(footer.num_columns)]
    bounded = {chunk.path_in_schema for chunk in chunks if chunk.statistics.has_min_max}
    unordered = {"place", "plain", "area", "sphere", "inner.places.list.element", "doc.metadata", "doc.value"}
    assert bounded.isdisjoint(unordered)
    assert "id" in bounded


def test_file_with_a_shredded_variant_stays_as_it_is_and_the_plan_names_the_column(
    reference: Reference, catalog: PointerCatalog, tmp_path: Path
) -> None:
    table = written(reference, catalog, tmp_path, variant=True, shredded=True)
    before, [*_, shredded] = rows(reference, table), sorted(data_files(table))

    plan = plan_compaction(table, CompactionOptions(min_input_files=2), now=later(table))

    [reason] = plan.left_alone
    assert reason.startswith("left alone: 1 data file: column 'doc' is a shredded variant")
    assert compacted(catalog, table).files_rewritten == 2
    assert rows(reference, table) == before
    assert len(data_files(table)) == 2
    assert shredded in data_files(table)


def data_files(table: Table) -> list[str]:
    files = snapshot_files(table.io, table.refresh().current_snapshot()).data
    return [Place.of(path).path for path in files["path"].to_pylist()]


def stored_columns(path: str) -> list[str]:
    """As Parquet describes them, without the lineage that a rewrite adds."""
    lines = str(pq.ParquetFile(path).schema).splitlines()[2:]
    return [line for line in lines if "_row_id" not in line and "_last_updated_sequence_number" not in line]
