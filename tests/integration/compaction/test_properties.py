"""Anybody may write a table's properties: what is in them is followed, made nothing of, or refused beforehand."""

import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from tableformat.inspection.avro_columns import parse_avro
from tableformat.maintenance import UnsupportedTable
from tableformat.maintenance.compaction import plan_compaction
from tests.integration.compaction.tables import (
    NOW,
    SMALL_TARGET,
    compacted,
    create,
    data_files,
    plain_rows,
    put_files,
    stored_rows,
)

NONSENSE = {
    "write.parquet.row-group-size-bytes": "128MB",
    "write.parquet.row-group-limit": "0",
    "write.parquet.page-row-limit": "0",
    "write.parquet.page-size-bytes": "1Mi",
    "write.parquet.dict-size-bytes": "-1",
    "write.parquet.compression-codec": "gzip",
    "write.metadata.metrics.max-inferred-column-defaults": "all",
    "write.summary.partition-limit": "many",
    "write.parquet.bloom-filter-enabled.column.city": "true",
    "write.parquet.bloom-filter-ndv.column.city": "few",
    "write.parquet.bloom-filter-max-bytes": "0",
}


def with_properties(catalog: SqlCatalog, properties: dict[str, str]) -> Table:
    table = create(catalog)
    put_files(table, [plain_rows(start, 100) for start in range(0, 500, 100)])
    with table.transaction() as transaction:
        transaction.set_properties(properties)
    return table


@pytest.mark.parametrize(("level", "share"), [("fast", "2"), ("19", "1%")])
def test_numbers_that_make_no_sense_are_as_if_they_were_not_there(catalog: SqlCatalog, level: str, share: str) -> None:
    more = {"write.parquet.compression-level": level, "write.parquet.bloom-filter-fpp.column.city": share}
    table = with_properties(catalog, NONSENSE | more)
    before = stored_rows(table)

    compacted(catalog)

    [file] = data_files(table.refresh())
    with table.io.new_input(file.file_path).open() as stream:
        assert pq.read_metadata(stream).num_row_groups == 1
    assert file.lower_bounds.keys() == {1, 2, 3}
    assert stored_rows(table) == before


@pytest.mark.parametrize("codec", ["lzo", "zst"])
def test_a_compression_that_cannot_be_written_is_refused_before_any_work(catalog: SqlCatalog, codec: str) -> None:
    table = with_properties(catalog, {"write.parquet.compression-codec": codec})

    with pytest.raises(UnsupportedTable, match=r"write\.parquet\.compression-codec to one of zstd, ") as refusal:
        plan_compaction(table.refresh(), SMALL_TARGET, now=NOW)

    assert repr(codec) in str(refusal.value)


@pytest.mark.parametrize(
    ("codec", "used"),
    [("GZIP", "deflate"), ("uncompressed", "null"), ("zstd", "zstandard"), ("snappy", "deflate")],
)
def test_every_codec_for_avro_that_iceberg_knows_lets_a_commit_be_made(
    catalog: SqlCatalog, codec: str, used: str
) -> None:
    table = with_properties(catalog, {"write.avro.compression-codec": codec})
    before = stored_rows(table)

    compacted(catalog)

    snapshot = table.refresh().current_snapshot()
    assert snapshot is not None
    for path in (snapshot.manifest_list, snapshot.manifests(table.io)[0].manifest_path):
        with table.io.new_input(path).open() as stream:
            assert parse_avro(stream.read()).codec == used
    assert stored_rows(table) == before
