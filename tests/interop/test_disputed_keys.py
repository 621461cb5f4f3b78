"""Equality deletes on which engines disagree: the rows that Spark reads, before and after a compaction by us.

Spark reads delete files and skips them by their statistics with the code of Iceberg's generic reader.
"""

import math
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DoubleType,
    FixedType,
    IcebergType,
    IntegerType,
    NestedField,
    StringType,
    StructType,
    UUIDType,
)

from tableformat.catalogs import SqlConfig, open_catalog
from tableformat.maintenance.compaction import CompactionOptions
from tests.interop.test_compaction import JavaRecords, Lake, java_equality_deletes
from tests.servers.spark import LocalSpark

pytestmark = pytest.mark.xdist_group("spark")

ALL = CompactionOptions(rewrite_all=True, min_input_files=1)
FIXED = [b"ab", b"ac", b"ad"]
UUIDS = [uuid.UUID(int=1), uuid.UUID(int=3), uuid.UUID(int=2**127)]  # as signed numbers the last is the least
RATIOS = [1.0, math.nan]
PLACES = [None, {"city": "Pune"}]


def place(*, required: bool) -> StructType:
    return StructType(NestedField(3, "city", StringType(), required=required))


@pytest.fixture
def lake(spark: LocalSpark, tmp_path: Path) -> Iterator[Lake]:
    name = f"disputed_{uuid.uuid4().hex[:8]}"
    database, warehouse = tmp_path / "catalog.db", tmp_path / "warehouse"
    with open_catalog(SqlConfig(name=name, uri=f"sqlite:///{database}", warehouse=f"file://{warehouse}")) as catalog:
        catalog.create_namespace("db")
        spark.use_sqlite_catalog(name, database, warehouse)
        yield Lake(spark, catalog, name)


def written(
    lake: Lake, kind: IcebergType, formats: str, values: Sequence[Any], column: str, keys: Sequence[Any]
) -> JavaRecords:
    """A data file with the values, its deletes, then two more data files. `formats` are of data and delete files."""
    schema = Schema(NestedField(1, "id", IntegerType(), required=True), NestedField(2, "key", kind, required=False))
    lake.catalog.create_table(("db", "t"), schema, properties={"format-version": "2"})
    records, (data_format, delete_format) = JavaRecords(lake), formats.split()

    def in_java(value: Any) -> Any:
        if isinstance(value, dict):
            return records.struct("key", value)
        return records.java.util.UUID.fromString(str(value)) if isinstance(value, uuid.UUID) else value

    records.append(data_format, [{"id": number, "key": in_java(value)} for number, value in enumerate(values)])
    java_equality_deletes(lake, [column], [{"key": in_java(key)} for key in keys], None, delete_format)
    for number in (10, 11):
        records.append("parquet", [{"id": number, "key": in_java(keys[0])}])
    return records


def ids(lake: Lake, columns: str = "*") -> list[Any]:
    """Sorted here: a sort in Spark takes longer than the read."""
    lake.sql("REFRESH TABLE LAKE.db.t")
    found: list[Any] = [row[0] for row in lake.sql(f"SELECT {columns} FROM LAKE.db.t")]
    return sorted(found)


@pytest.mark.parametrize(
    ("kind", "formats", "values", "keys", "read"),
    [
        pytest.param(FixedType(2), "parquet parquet", FIXED, FIXED[:2], [0, 2], id="fixed in Parquet: the last key"),
        pytest.param(FixedType(2), "parquet avro", FIXED, FIXED[:2], [0, 2], id="fixed in Avro: the last key"),
        pytest.param(FixedType(2), "parquet orc", FIXED, FIXED[:2], [2], id="fixed in ORC: every key"),
        pytest.param(UUIDType(), "parquet parquet", UUIDS, UUIDS[1:2], [0, 1, 2], id="uuid in Parquet: no key"),
        pytest.param(UUIDType(), "parquet avro", UUIDS, UUIDS[1:2], [0, 2], id="uuid in Avro: every key"),
        pytest.param(DoubleType(), "parquet parquet", RATIOS, [math.nan, 5.0], [0, 1], id="NaN in Parquet: no key"),
        pytest.param(DoubleType(), "parquet orc", RATIOS, [math.nan, 5.0], [0, 1], id="NaN in ORC: no key"),
        pytest.param(DoubleType(), "parquet avro", RATIOS, [math.nan, 5.0], [0], id="NaN in Avro: every key"),
        pytest.param(place(required=False), "orc parquet", PLACES, [None], [0, 1], id="optional field, ORC: no key"),
        pytest.param(
            place(required=True), "parquet parquet", PLACES, [None, {"city": "A"}], [0, 1], id="required field: no key"
        ),
    ],
)
def test_spark_applies_the_keys_that_the_generic_reader_applies_and_reads_the_same_after_compaction(
    lake: Lake, kind: IcebergType, formats: str, values: list[Any], keys: list[Any], read: list[int]
) -> None:
    records = written(lake, kind, formats, values, "key.city" if isinstance(kind, StructType) else "key", keys)
    specified = [number for number, value in enumerate(values) if value not in keys]
    assert ids(lake) == records.ids() == [*read, 10, 11]

    result = lake.compact(ALL)

    assert result.files_rewritten == (3 if read == specified else 2)
    assert ids(lake) == records.ids() == [*read, 10, 11]


def test_spark_ignores_deletes_by_a_struct_field_in_queries_that_do_not_read_the_struct(lake: Lake) -> None:
    cities = [{"city": "Oslo"}, {"city": "Pune"}]
    written(lake, place(required=False), "parquet parquet", cities, "key.city", cities[1:])

    assert ids(lake) == [0, 10, 11]
    assert ids(lake, "id") == [0, 1, 10, 11]
