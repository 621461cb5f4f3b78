"""Tables that Iceberg's own Java code wrote, compacted by us and read back by it and by DuckDB."""

import uuid
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.manifest import DataFileContent
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BinaryType,
    DecimalType,
    FixedType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from tableformat.catalogs import SqlConfig, open_catalog
from tableformat.maintenance import InProcessExecutor
from tableformat.maintenance.compaction import CompactionOptions, CompactionResult, OrderColumn, compact
from tests.inspecting import assert_same_as_pyiceberg
from tests.integration.compaction.deletes import delete_equal, put_equality_deletes
from tests.integration.compaction.tables import NOW, data_files
from tests.interop.duckdb_reader import read_with_duckdb
from tests.servers.spark import LocalSpark

pytestmark = pytest.mark.xdist_group("spark")

EAGER = CompactionOptions(target_file_bytes=1024 * 1024, min_input_files=2, delete_ratio_percent=1)
MERGE_ON_READ = (
    "'write.delete.mode'='merge-on-read', 'write.update.mode'='merge-on-read', 'write.merge.mode'='merge-on-read'"
)


class Lake:
    """One catalog under two roofs: `sql` runs in Spark, `compact` is ours."""

    def __init__(self, spark: LocalSpark, catalog: Catalog, name: str) -> None:
        self.name = name
        self.catalog = catalog
        self.session = spark.session

    def sql(self, statement: str) -> list[tuple[object, ...]]:
        return [tuple(row) for row in self.session.sql(statement.replace("LAKE", self.name)).collect()]

    def rows(self, version: int | None = None) -> list[str]:
        self.session.sql(f"REFRESH TABLE {self.name}.db.t")
        as_of = "" if version is None else f"VERSION AS OF {version}"
        return sorted(repr(row) for row in self.sql(f"SELECT * FROM LAKE.db.t {as_of}"))

    def compact(self, options: CompactionOptions = EAGER) -> CompactionResult:
        executor, table = InProcessExecutor(), self.table()
        for snapshot in table.metadata.snapshots:
            assert_same_as_pyiceberg(table.io, snapshot)
        return compact(self.catalog, ("db", "t"), options, executor=executor, run_id=uuid.uuid4().hex, now=NOW)

    def table(self) -> Table:
        return self.catalog.load_table(("db", "t"))


@pytest.fixture
def lake(spark: LocalSpark, tmp_path: Path) -> Iterator[Lake]:
    name = f"lake_{uuid.uuid4().hex[:8]}"
    database, warehouse = tmp_path / "catalog.db", tmp_path / "warehouse"
    catalog = open_catalog(SqlConfig(name=name, uri=f"sqlite:///{database}", warehouse=f"file://{warehouse}"))
    catalog.create_namespace("db")
    spark.use_sqlite_catalog(name, database, warehouse)
    yield Lake(spark, catalog, name)
    catalog.close()


def test_a_merge_on_read_table_of_format_version_2(lake: Lake) -> None:
    lake.sql(
        "CREATE TABLE LAKE.db.t (id bigint NOT NULL, city string, amount decimal(20,2), day date, ts timestamp_ntz, "
        "tags array<struct<k: string, n: int>>, attributes map<string, struct<x: double>>, raw binary) USING iceberg "
        f"PARTITIONED BY (city) TBLPROPERTIES ('format-version'='2', {MERGE_ON_READ})"
    )
    for start in (0, 10, 20):
        lake.sql(
            "INSERT INTO LAKE.db.t SELECT id, concat('city ', id % 2), id * 1.5, date_add(date'2026-01-01', cast(id AS "
            "int)), timestamp_ntz'2026-01-01 00:00:00.123456', IF(id % 3 = 0, NULL, IF(id % 3 = 1, array(), "
            "array(named_struct('k', 'a', 'n', 1), NULL))), IF(id % 4 = 0, NULL, map('m', IF(id % 4 = 1, NULL, "
            f"named_struct('x', 0.5D)))), X'FF00' FROM range({start}, {start + 10})"
        )
    lake.sql("DELETE FROM LAKE.db.t WHERE id IN (3, 14, 25)")
    lake.sql("UPDATE LAKE.db.t SET amount = -1 WHERE id = 7")
    lake.sql("ALTER TABLE LAKE.db.t ADD PARTITION FIELD bucket(2, id)")
    lake.sql("INSERT INTO LAKE.db.t (id, city) VALUES (100, 'city 0'), (101, 'city 1')")
    lake.sql("INSERT INTO LAKE.db.t (id, city) VALUES (100, 'city 0'), (101, 'city 1')")
    lake.sql("ALTER TABLE LAKE.db.t RENAME COLUMN raw TO bytes")
    lake.sql("ALTER TABLE LAKE.db.t ADD COLUMN tags.element.extra string")
    before, before_files = lake.rows(), len(data_files(lake.table()))
    older = lake.table().metadata.snapshots[1].snapshot_id
    history = lake.rows(older)

    result = lake.compact()

    files = data_files(lake.table())
    assert {file.content for file in files} == {DataFileContent.DATA}
    assert len(files) < before_files
    assert (result.rows_deleted, result.rows) == (4, 31)
    assert lake.rows() == before
    assert lake.rows(older) == history
    assert len(read_with_duckdb(lake.table().metadata_location)) == 31
    assert lake.compact().snapshot_id is None

    lake.sql("DELETE FROM LAKE.db.t WHERE id = 5")  # and Java goes on from there
    lake.sql("CALL LAKE.system.rewrite_data_files(table => 'db.t', options => map('rewrite-all', 'true'))")
    assert lake.rows() == [row for row in before if not row.startswith("(5,")]


LINEAGE = "SELECT _row_id, _last_updated_sequence_number, * FROM LAKE.db.t ORDER BY id, _row_id"


def test_deletion_vectors_and_row_lineage_of_format_version_3(lake: Lake) -> None:
    lake.sql(
        "CREATE TABLE LAKE.db.t (id bigint, city string, amount double) USING iceberg PARTITIONED BY (city) "
        f"TBLPROPERTIES ('format-version'='3', {MERGE_ON_READ})"
    )
    for start in (0, 10, 20):
        lake.sql(f"INSERT INTO LAKE.db.t SELECT id, concat('c', id % 2), id FROM range({start}, {start + 10})")
    lake.sql("DELETE FROM LAKE.db.t WHERE id IN (0, 3, 14)")
    lake.sql("UPDATE LAKE.db.t SET amount = -1 WHERE id = 7")
    before, lineage = lake.rows(), lake.sql(LINEAGE)
    assert DataFileContent.POSITION_DELETES in {file.content for file in data_files(lake.table())}

    result = lake.compact(EAGER.model_copy(update={"filter": "city = 'c0'"}))

    assert result.rows_deleted == 2
    assert lake.rows() == before
    assert lake.sql(LINEAGE) == lineage
    assert any(file.content != DataFileContent.DATA for file in data_files(lake.table()))  # vectors of the other city

    lake.compact()
    assert {file.content for file in data_files(lake.table())} == {DataFileContent.DATA}
    assert lake.rows() == before
    assert lake.sql(LINEAGE) == lineage

    lake.sql("DELETE FROM LAKE.db.t WHERE id = 21")
    lake.sql("INSERT INTO LAKE.db.t VALUES (100, 'c0', 1), (101, 'c1', 1)")
    lineage = lake.sql(LINEAGE)
    assert len({row[0] for row in lineage}) == len(lineage) == 28
    lake.compact(EAGER.model_copy(update={"strategy": "sort", "order": (OrderColumn(name="amount"),)}))
    assert lake.sql(LINEAGE) == lineage


def test_a_table_that_was_upgraded_to_format_version_3(lake: Lake) -> None:
    lake.sql("CREATE TABLE LAKE.db.t (id bigint) USING iceberg TBLPROPERTIES ('format-version'='2')")
    for start in (0, 5):
        lake.sql(f"INSERT INTO LAKE.db.t SELECT id FROM range({start}, {start + 5})")
    lake.sql("ALTER TABLE LAKE.db.t SET TBLPROPERTIES ('format-version'='3')")
    before = lake.rows()
    lake.compact()
    assert lake.rows() == before

    lineage = lake.sql(LINEAGE)
    assert len({row[0] for row in lineage}) == len(lineage) == 10
    lake.sql("INSERT INTO LAKE.db.t VALUES (100)")
    assert lake.sql(LINEAGE)[:10] == lineage


def test_equality_deletes_read_by_java_are_the_ones_applied_by_us(lake: Lake) -> None:
    lake.sql("CREATE TABLE LAKE.db.t (id bigint, city string) USING iceberg TBLPROPERTIES ('format-version'='2')")
    for start in (0, 5, 10):
        lake.sql(
            "INSERT INTO LAKE.db.t SELECT id, IF(id % 4 = 0, NULL, concat('c', id % 3)) "
            f"FROM range({start}, {start + 5})"
        )
    delete_equal(lake.table(), ["id"], [{"id": 2}, {"id": 11}])
    delete_equal(
        lake.table(), ["city", "id"], [{"city": None, "id": 4}, {"city": "c1", "id": 1}, {"city": "c1", "id": 3}]
    )
    lake.sql("INSERT INTO LAKE.db.t VALUES (2, 'again')")
    before = lake.rows()

    result = lake.compact()

    assert len(before) == 12
    assert result.rows_deleted == 4
    assert lake.rows() == before


def java_equality_deletes(
    lake: Lake, columns: list[str], rows: list[dict[str, object]], city: str | None, file_format: str = "parquet"
) -> None:
    """Written and committed by Iceberg's own Java code; in one partition, or everywhere in a table without any."""
    session = lake.session
    gateway = session.sparkContext._gateway
    assert gateway is not None
    iceberg = gateway.jvm.org.apache.iceberg
    table = iceberg.spark.Spark3Util.loadIcebergTable(session._jsparkSession, f"{lake.name}.db.t")
    ids = gateway.new_array(gateway.jvm.int, len(columns))
    for place, column in enumerate(columns):
        ids[place] = table.schema().findField(column).fieldId()
    schema = table.schema().select(columns)
    factory = getattr(iceberg.data, "GenericFileWriterFactory$Builder")(table)
    stored = iceberg.FileFormat.fromString(file_format)
    factory = factory.equalityFieldIds(ids).equalityDeleteRowSchema(schema).deleteFileFormat(stored).build()
    output = iceberg.io.OutputFileFactory.builderFor(table, 1, 1).format(stored).build()
    partition = None
    if city is not None:
        partition = iceberg.PartitionData(table.spec().partitionType())
        partition.set(0, city)
        file = output.newOutputFile(table.spec(), partition)
    else:
        file = output.newOutputFile()
    writer = factory.newEqualityDeleteWriter(file, table.spec(), partition)
    for row in rows:
        record = iceberg.data.GenericRecord.create(schema)
        for name, value in row.items():
            record.setField(name, value)
        writer.write(record)
    writer.close()
    table.newRowDelta().addDeletes(writer.toDeleteFile()).commit()


@pytest.mark.parametrize("partitioned", [False, True])
def test_equality_deletes_written_by_javas_own_api(lake: Lake, partitioned: bool) -> None:
    lake.sql(
        "CREATE TABLE LAKE.db.t (id int, city string, name string) USING iceberg "
        f"{'PARTITIONED BY (city)' if partitioned else ''} TBLPROPERTIES ('format-version'='2')"
    )
    for start in (0, 6, 12):
        lake.sql(
            "INSERT INTO LAKE.db.t SELECT /*+ COALESCE(1) */ id, concat('c', id % 2), IF(id % 5 = 0, NULL, 'n') "
            f"FROM range({start}, {start + 6})"
        )
    java_equality_deletes(lake, ["id"], [{"id": 2}, {"id": 9}, {"id": 14}], "c0" if partitioned else None)
    lake.sql("INSERT INTO LAKE.db.t VALUES (2, 'c0', 'again')")
    java_equality_deletes(
        lake, ["id", "name"], [{"id": 10, "name": None}, {"id": 4, "name": None}], "c0" if partitioned else None
    )
    before = lake.rows()

    result = lake.compact()

    assert lake.rows() == before
    assert result.rows_deleted == (3 if partitioned else 4)  # 9 is in another partition, and 4 has a name
    assert {file.content for file in data_files(lake.table())} == {DataFileContent.DATA}
    assert len(before) == 19 - result.rows_deleted


def test_java_reads_files_that_moved_to_a_new_partition_spec(lake: Lake) -> None:
    lake.sql(
        "CREATE TABLE LAKE.db.t (id bigint, city string, ts timestamp) USING iceberg PARTITIONED BY (city) "
        f"TBLPROPERTIES ('format-version'='2', {MERGE_ON_READ})"
    )
    for start in (0, 20):
        lake.sql(
            "INSERT INTO LAKE.db.t SELECT id, concat('c', id % 2), timestamp_seconds(id * 40000 - 100000) "
            f"FROM range({start}, {start + 20})"
        )
    lake.sql("DELETE FROM LAKE.db.t WHERE id IN (3, 24)")
    lake.sql("ALTER TABLE LAKE.db.t DROP PARTITION FIELD city")
    lake.sql("ALTER TABLE LAKE.db.t ADD PARTITION FIELD bucket(3, id)")
    lake.sql("ALTER TABLE LAKE.db.t ADD PARTITION FIELD days(ts)")
    before = lake.rows()

    lake.compact(EAGER.model_copy(update={"use_current_spec": True}))

    assert lake.rows() == before
    partitions = "SELECT DISTINCT spec_id FROM LAKE.db.t.files"
    assert lake.sql(partitions) == [(lake.table().spec().spec_id,)]
    # Java places rows by the same transforms: it finds each where it looks for it.
    for number in (0, 17, 39):
        where = f"id = {number} AND ts = timestamp_seconds({number} * 40000 - 100000)"
        assert lake.sql(f"SELECT id FROM LAKE.db.t WHERE {where}") == [(number,)]
    assert len(read_with_duckdb(lake.table().metadata_location)) == 38


def test_java_finds_rows_by_our_statistics(lake: Lake) -> None:
    lake.sql(
        "CREATE TABLE LAKE.db.t (id bigint, s string, d decimal(30,3), f double, place struct<x: int>) USING iceberg"
    )
    for start in range(0, 50, 10):
        lake.sql(
            "INSERT INTO LAKE.db.t SELECT id, concat(repeat('é', 20), id), id - 25.5, IF(id = 7, double('NaN'), id), "
            f"named_struct('x', id) FROM range({start}, {start + 10})"
        )
    conditions = [
        "id = 49",
        "s > concat(repeat('é', 20), 45)",
        "d < -24",
        "f > 48 AND NOT isnan(f)",  # to Spark NaN is greater, and whether Java finds it depends on its file's bounds
        "isnan(f)",
        "place.x = 3",
        "s IS NULL",
    ]
    before = [lake.sql(f"SELECT id FROM LAKE.db.t WHERE {where} ORDER BY id") for where in conditions]

    lake.compact()
    lake.rows()

    assert [lake.sql(f"SELECT id FROM LAKE.db.t WHERE {where} ORDER BY id") for where in conditions] == before
    assert [bool(found) for found in before] == [True, True, True, True, True, True, False]


def test_java_reads_delete_manifests_that_we_wrote_again(lake: Lake) -> None:
    lake.sql(
        "CREATE TABLE LAKE.db.t (id bigint, city string) USING iceberg PARTITIONED BY (city) "
        "TBLPROPERTIES ('format-version'='2')"
    )
    for start in (0, 4):
        lake.sql(f"INSERT INTO LAKE.db.t SELECT id, concat('c', id % 2) FROM range({start}, {start + 4})")
    put_equality_deletes(lake.table(), ["id"], {Record("c0"): [{"id": 2}], Record("c1"): [{"id": 3}]})
    before = lake.rows()

    lake.compact(EAGER.model_copy(update={"filter": "city = 'c0'"}))

    contents = sorted(file.content for file in data_files(lake.table()))
    assert contents == [DataFileContent.DATA] * 3 + [DataFileContent.EQUALITY_DELETES]
    assert len(before) == 6
    assert lake.rows() == before


@pytest.mark.parametrize("file_format", ["orc", "avro"])
def test_a_merge_on_read_table_whose_files_and_deletes_are_not_parquet(lake: Lake, file_format: str) -> None:
    lake.sql(
        "CREATE TABLE LAKE.db.t (id int NOT NULL, city string, yes boolean, small float, large double, "
        "narrow decimal(9,2), wide decimal(38,10), day date, ts timestamp, local timestamp_ntz, raw binary, "
        "place struct<x: int NOT NULL, inner: struct<y: string, z: array<int>>>, "
        "tags array<struct<k: string, n: int>>, attributes map<string, struct<x: double>>, "
        "numbers map<int, array<timestamp>>, gone string) USING iceberg PARTITIONED BY (city) "
        f"TBLPROPERTIES ('format-version'='2', 'write.format.default'='{file_format}', {MERGE_ON_READ})"
    )
    insert = (
        "INSERT INTO LAKE.db.t SELECT /*+ COALESCE(1) */ cast(id AS int), concat('c', id % 2), "
        "IF(id % 3 = 0, NULL, id % 2 = 0), CASE id % 5 WHEN 0 THEN float('NaN') WHEN 1 THEN float('-0.0') ELSE id END, "
        "id / 7, id * -1.25BD, IF(id % 4 = 0, NULL, -12345678901234567890.0123456789BD), "
        "date_add(date'1900-01-01', cast(id AS int) * 1000), "
        "timestamp'1969-12-31 23:59:59.999999' + make_dt_interval(0, cast(id AS int) - 5), "
        "timestamp_ntz'1800-02-03 04:05:06.000001', IF(id % 6 = 0, NULL, X'FF0080'), "
        "CASE id % 4 WHEN 0 THEN NULL WHEN 1 THEN named_struct('x', 1, 'inner', NULL) "
        "ELSE named_struct('x', id, 'inner', named_struct('y', concat('ü', id), 'z', array(1, NULL))) END, "
        "CASE id % 3 WHEN 0 THEN NULL WHEN 1 THEN array() ELSE array(named_struct('k', 'a', 'n', id), NULL) END, "
        "IF(id % 4 = 0, NULL, map('m', IF(id % 4 = 1, NULL, named_struct('x', 0.5D)), 'n', NULL)), "
        "IF(id % 5 = 0, NULL, map(id, array(timestamp'2026-01-01 00:00:00.000001', NULL), -id - 1, NULL)), 'gone' "
        "FROM range({}, {})"
    )
    for start in (0, 12, 24):
        lake.sql(insert.format(start, start + 12))
    lake.sql("DELETE FROM LAKE.db.t WHERE id IN (3, 14, 25, 26)")
    lake.sql("UPDATE LAKE.db.t SET narrow = -1 WHERE id = 7")
    java_equality_deletes(lake, ["id"], [{"id": 4}, {"id": 16}, {"id": 1000}], "c0", file_format)
    lake.sql("ALTER TABLE LAKE.db.t ALTER COLUMN id TYPE bigint")
    lake.sql("ALTER TABLE LAKE.db.t ALTER COLUMN small TYPE double")
    lake.sql("ALTER TABLE LAKE.db.t ALTER COLUMN narrow TYPE decimal(20,2)")
    lake.sql("ALTER TABLE LAKE.db.t RENAME COLUMN raw TO bytes")
    lake.sql("ALTER TABLE LAKE.db.t DROP COLUMN gone")
    lake.sql("ALTER TABLE LAKE.db.t ADD COLUMN gone int")
    lake.sql("ALTER TABLE LAKE.db.t ADD COLUMN tags.element.extra string")
    lake.sql("INSERT INTO LAKE.db.t (id, city, gone) VALUES (4, 'c0', 1), (3000000000, 'c1', 2)")
    before = lake.rows()
    older = lake.table().metadata.snapshots[2].snapshot_id
    history = lake.rows(older)
    files = data_files(lake.table())
    assert {file.content for file in files} == set(DataFileContent)
    assert {file.file_format.value.lower() for file in files} == {file_format}

    result = lake.compact()

    files = data_files(lake.table())
    assert {(file.content, file.file_format.value) for file in files} == {(DataFileContent.DATA, "PARQUET")}
    assert (result.rows_deleted, result.rows, len(before)) == (7, 32, 32)
    assert lake.rows() == before
    assert lake.rows(older) == history
    assert lake.compact().snapshot_id is None


@pytest.mark.parametrize("file_format", ["orc", "avro"])
def test_row_lineage_of_files_that_are_not_parquet(lake: Lake, file_format: str) -> None:
    lake.sql(
        "CREATE TABLE LAKE.db.t (id bigint, city string) USING iceberg "
        f"TBLPROPERTIES ('format-version'='3', 'write.format.default'='{file_format}', {MERGE_ON_READ})"
    )
    for start in (0, 10, 20):
        lake.sql(f"INSERT INTO LAKE.db.t SELECT id, concat('c', id % 2) FROM range({start}, {start + 10})")
    lake.sql("DELETE FROM LAKE.db.t WHERE id IN (0, 3, 14)")
    lake.sql("UPDATE LAKE.db.t SET city = 'moved' WHERE id = 7")
    before, lineage = lake.rows(), lake.sql(LINEAGE)

    assert lake.compact().rows_deleted == 4

    assert {file.file_format.value for file in data_files(lake.table())} == {"PARQUET"}
    assert lake.rows() == before
    assert lake.sql(LINEAGE) == lineage


EVERY_TYPE = Schema(
    NestedField(1, "id", IntegerType(), required=True),
    NestedField(2, "uuid", UUIDType(), required=False),
    NestedField(3, "fixed", FixedType(5), required=False),
    NestedField(4, "time", TimeType(), required=False),
    NestedField(5, "long", LongType(), required=False),
    NestedField(6, "decimal", DecimalType(38, 5), required=False),
    NestedField(7, "local", TimestampType(), required=False),
    NestedField(8, "instant", TimestamptzType(), required=False),
    NestedField(9, "binary", BinaryType(), required=False),
    NestedField(10, "uuids", ListType(11, UUIDType(), element_required=False), required=False),
    NestedField(
        12,
        "times",
        MapType(
            13, UUIDType(), 14, StructType(NestedField(15, "at", TimeType(), required=False)), value_required=False
        ),
        required=False,
    ),
)


class JavaRecords:
    """A table's rows by Iceberg's own Java code, without Spark: it knows no time, and takes a uuid for a text."""

    def __init__(self, lake: Lake) -> None:
        self._gateway = lake.session.sparkContext._gateway
        assert self._gateway is not None
        self.java = self._gateway.jvm.java
        self._iceberg = self._gateway.jvm.org.apache.iceberg
        # Catalogs are looked up in the session of the JVM's thread, which has none once py4j gives us another thread.
        session = lake.session._get_j_spark_session_class(self._gateway.jvm)
        session.setActiveSession(lake.session._jsparkSession)
        self._table = self._iceberg.spark.Spark3Util.loadIcebergTable(lake.session._jsparkSession, f"{lake.name}.db.t")

    def append(self, file_format: str, rows: list[dict[str, Any]]) -> None:
        factory = getattr(self._iceberg.data, "GenericFileWriterFactory$Builder")(self._table)
        stored = self._iceberg.FileFormat.fromString(file_format)
        factory = factory.dataFileFormat(stored).build()
        output = self._iceberg.io.OutputFileFactory.builderFor(self._table, 1, 1)
        file = output.format(stored).build().newOutputFile()
        writer = factory.newDataWriter(file, self._table.spec(), None)
        for row in rows:
            writer.write(self._record(self._table.schema(), row))
        writer.close()
        self._table.newAppend().appendFile(writer.toDataFile()).commit()

    def _record(self, schema: Any, row: dict[str, Any]) -> Any:
        record = self._iceberg.data.GenericRecord.create(schema)
        for name, value in row.items():
            record.setField(name, value)
        return record

    def struct(self, column: str, row: dict[str, Any]) -> Any:
        """A value of a struct, or of a map of structs."""
        kind = self._table.schema().findType(column)
        return self._record(kind.valueType().asStructType() if kind.isMapType() else kind.asStructType(), row)

    def rows(self) -> list[str]:
        columns = [field.name for field in EVERY_TYPE.fields]
        return sorted(repr([self._text(record.getField(name)) for name in columns]) for record in self._read())

    def ids(self) -> list[int]:
        return sorted(record.getField("id") for record in self._read())

    def _read(self) -> Iterator[Any]:
        self._table.refresh()
        records = self._iceberg.data.IcebergGenerics.read(self._table).build().iterator()
        while records.hasNext():
            yield records.next()

    def _text(self, value: Any) -> Any:
        if value is None or isinstance(value, bytes | bytearray | int | Decimal):
            return bytes(value) if isinstance(value, bytearray) else value
        is_buffer = "ByteBuffer" in value.getClass().getName()
        return bytes(value.array()) if is_buffer else str(value.toString())


@pytest.mark.parametrize("file_format", ["orc", "avro"])
def test_types_that_spark_does_not_have_written_by_javas_own_api(lake: Lake, file_format: str) -> None:
    lake.catalog.create_table(("db", "t"), EVERY_TYPE)
    records = JavaRecords(lake)
    java = records.java
    uuids = [java.util.UUID.fromString(str(uuid.UUID(int=2**127 + number))) for number in range(3)]
    noon, last = java.time.LocalTime.parse("12:00:00"), java.time.LocalTime.parse("23:59:59.999999")
    times = java.util.HashMap()
    times.put(uuids[1], records.struct("times", {"at": last}))
    times.put(uuids[2], records.struct("times", {"at": None}))
    full = {
        "uuid": uuids[0],
        "fixed": b"\x00\xff\x7f\x80\x01",
        "time": noon,
        "long": -(2**63),
        "decimal": Decimal("-123456789012345678901234567890123.45678"),
        "local": java.time.LocalDateTime.parse("1677-09-22T00:00:00.000001"),
        "instant": java.time.OffsetDateTime.parse("2262-04-11T23:00:00.999999Z"),
        "binary": java.nio.ByteBuffer.wrap(b"\x00\xff"),
        "uuids": java.util.ArrayList([uuids[2], None, uuids[0]]),
        "times": times,
    }
    for number in range(5):
        records.append(file_format, [{"id": number, **full}, {"id": -number}])
    before = records.rows()

    assert lake.compact().rows == 10

    assert {file.file_format.value for file in data_files(lake.table())} == {"PARQUET"}
    assert len(before) == 10
    assert records.rows() == before
