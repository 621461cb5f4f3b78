"""What compaction writes, read by Java: pages are skipped by their index, and no row is with them."""

import uuid
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
    UUIDType,
)

from tableformat.maintenance import InProcessExecutor
from tableformat.maintenance.compaction import CompactionOptions, compact
from tests.integration.compaction.tables import IDENTIFIER, NOW, create, data_files, put_files, sql_catalog
from tests.servers.spark import LocalSpark

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "name", StringType()),
    NestedField(3, "price", DecimalType(9, 2)),
    NestedField(4, "total", DecimalType(38, 3)),
    NestedField(5, "ratio", DoubleType()),
    NestedField(6, "day", DateType()),
    NestedField(7, "ts", TimestamptzType()),
    NestedField(8, "tags", ListType(9, StringType())),
    NestedField(10, "place", StructType(NestedField(11, "x", DoubleType()))),
    NestedField(12, "raw", BinaryType()),
)
NOT_FOR_SPARK_ALONE = Schema(*SCHEMA.fields, NestedField(13, "key", UUIDType()))
ROWS, PAGE_ROWS = 4000, 100
FILTERS = [
    "id = 1234",
    "id BETWEEN 1995 AND 2005",
    "name = concat(repeat('é', 90), '03211')",
    "name > concat(repeat('é', 90), '03995')",
    "name IS NULL AND id < 50",
    "price = -12.25",
    "total > 3090000000000000000000000",
    "total < -899000000000000000000000",
    "ratio > 440",  # NaN is greater than all numbers there: one is in a row group of smaller ones, one in such a page
    "ratio < 1",
    "day = date'2027-01-15'",
    "ts > timestamp'2026-01-01 01:06:30Z'",
    "place.x > 1330",
    "raw >= X'0F9F'",
    "id IN (7, 2222, 3999)",
]


def row(n: int) -> dict[str, Any]:
    return {
        "id": n,
        "name": None if n % 10 == 0 else f"{'é' * 90}{n:05d}",
        "price": Decimal(n - 900) / 4,
        "total": (n - 900) * Decimal("1000000000000000000000.125"),
        "ratio": float("nan") if n in (777, 3333) else n / 9,
        "day": date(2026, 1, 1) + timedelta(n // 4),
        "ts": datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=n),
        "tags": None if n % 4 == 0 else [f"tag {n}"] * (n % 3),
        "place": None if n % 6 == 0 else {"x": n / 3},
        "raw": n.to_bytes(2, "big") * (100 if n % 2 else 1),
        "key": uuid.UUID(int=n).bytes,
    }


@pytest.fixture
def catalog(tmp_path: Path, spark: LocalSpark) -> SqlCatalog:
    name = f"pages_{uuid.uuid4().hex[:8]}"
    spark.use_sqlite_catalog(name, tmp_path / "catalog.db", tmp_path / "warehouse")
    return sql_catalog(tmp_path, name)


def compacted(catalog: SqlCatalog, schema: Schema) -> str:
    """The one file of a table whose rows are in order, a row group for every thousand."""
    properties = {"write.parquet.page-row-limit": str(PAGE_ROWS), "write.parquet.row-group-limit": "1000"}
    table = create(catalog, schema, properties=properties)
    names = {field.name for field in schema.fields}
    rows = [{name: value for name, value in row(n).items() if name in names} for n in range(ROWS)]
    put_files(table, [pa.Table.from_pylist(rows[n::8], schema_to_pyarrow(schema)) for n in range(8)])
    options = CompactionOptions.model_validate({"strategy": "sort", "order": [{"name": "id"}]})
    compact(catalog, IDENTIFIER, options, executor=InProcessExecutor(), run_id="r", now=NOW)
    [file] = data_files(table.refresh())
    return file.file_path


def test_spark_finds_the_rows_of_a_filter_whether_or_not_it_skips_pages(catalog: SqlCatalog, spark: LocalSpark) -> None:
    path = compacted(catalog, SCHEMA)
    for where in FILTERS:
        found = [
            sorted(
                repr(one)
                for one in spark.session.read.option("parquet.filter.columnindex.enabled", skips)
                .option("parquet.filter.stats.enabled", skips)
                .parquet(path)
                .where(where)
                .collect()
            )
            for skips in ("true", "false")
        ]
        assert found[0] == found[1], where
        assert 0 < len(found[0]) < ROWS / 4, where


def test_javas_iceberg_finds_the_rows_of_a_filter(catalog: SqlCatalog, spark: LocalSpark) -> None:
    compacted(catalog, NOT_FOR_SPARK_ALONE)
    spark.session.sql(f"CREATE TEMPORARY VIEW everything AS SELECT * FROM {catalog.name}.db.events")
    rows = spark.session.table("everything").collect()
    session = spark.session
    try:
        assert [one.id for one in rows] == list(range(ROWS))
        plain = session.createDataFrame(rows, session.table("everything").schema)
        for where in [*FILTERS, f"key = '{uuid.UUID(int=321)}'"]:
            found = session.sql(f"SELECT * FROM everything WHERE {where}").collect()
            assert list(map(repr, found)) == list(map(repr, plain.where(where).collect())), where
            assert found, where
    finally:
        session.catalog.dropTempView("everything")


def test_parquets_java_reader_skips_all_pages_but_those_with_the_rows(catalog: SqlCatalog, spark: LocalSpark) -> None:
    path = compacted(catalog, SCHEMA)
    gateway = spark.session.sparkContext._gateway
    assert gateway is not None
    java, hadoop = gateway.jvm, gateway.jvm.org.apache.parquet.hadoop
    place = java.org.apache.hadoop.fs.Path(path)
    file = hadoop.util.HadoopInputFile.fromPath(place, java.org.apache.hadoop.conf.Configuration())
    predicates = java.org.apache.parquet.filter2.predicate.FilterApi
    number = java.org.apache.parquet.io.api.Binary.fromConstantByteArray((1234).to_bytes(2, "big"))
    equal = predicates.eq(predicates.binaryColumn("raw"), number)
    wanted = java.org.apache.parquet.filter2.compat.FilterCompat.get(equal)
    options = java.org.apache.parquet.ParquetReadOptions.builder().withRecordFilter(wanted).useColumnIndexFilter(True)
    reader = hadoop.ParquetFileReader.open(file, options.build())
    try:
        assert reader.getRecordCount() == 1000  # of the one row group that can have it
        assert reader.getFilteredRecordCount() == PAGE_ROWS
        for group in reader.getFooter().getBlocks():
            for chunk in group.getColumns():
                pages = reader.readOffsetIndex(chunk)
                assert pages.getPageCount() == 10
                assert pages.getOffset(0) == chunk.getFirstDataPageOffset()
                bounds = reader.readColumnIndex(chunk)
                has_nan = group.getRowIndexOffset() in (0, 3000) and chunk.getPath().toDotString() == "ratio"
                assert (bounds is None) == has_nan, chunk
    finally:
        reader.close()
