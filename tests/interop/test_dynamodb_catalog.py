"""Iceberg's own Java catalog and ours on the same DynamoDB table: each reads and writes what the other wrote."""

import itertools
import threading
import time
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField, StringType

from tests.interop.conftest import Shared
from tests.servers.dynamodb import DynamoDbAccess

pytestmark = pytest.mark.xdist_group("spark")

SCHEMA = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "name", StringType(), required=False))


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "name": pa.array([f"n{i}" for i in ids], pa.string())})


def ids(table: Table) -> list[int]:
    return sorted(table.scan().to_arrow()["id"].to_pylist())


def test_a_table_that_java_made_is_read_and_written_by_both_in_turns(shared: Shared) -> None:
    shared.sql("CREATE NAMESPACE {java}.db")
    shared.sql("CREATE TABLE {java}.db.t (id BIGINT, name STRING) USING iceberg")
    shared.sql("INSERT INTO {java}.db.t VALUES (1, 'n1')")
    table = shared.ours.load_table("db.t")
    assert ids(table) == [1]
    table.append(rows(2))
    assert shared.ids("db.t") == [1, 2]
    shared.sql("DELETE FROM {java}.db.t WHERE id = 1")
    shared.sql("INSERT INTO {java}.db.t VALUES (3, 'n3')")
    table.refresh()
    assert ids(table) == [2, 3]
    table.delete("id = 2")
    assert shared.ids("db.t") == [3]
    assert table.location().endswith("/warehouse/db.db/t")


def test_a_table_that_we_made_is_read_written_and_evolved_by_both_in_turns(shared: Shared) -> None:
    shared.ours.create_namespace("db")
    table = shared.ours.create_table("db.t", SCHEMA, properties={"team": "sales"})
    table.append(rows(1))
    shared.sql("INSERT INTO {java}.db.t VALUES (2, 'n2')")
    shared.sql("ALTER TABLE {java}.db.t ADD COLUMN city STRING")
    shared.sql("ALTER TABLE {java}.db.t SET TBLPROPERTIES ('team' = 'ops')")
    table.refresh()
    assert table.properties["team"] == "ops"
    with table.update_schema() as change:
        change.rename_column("name", "label")
    shared.sql("INSERT INTO {java}.db.t (id, label, city) VALUES (3, 'n3', 'Pune')")
    assert shared.sql("SELECT id, label, city FROM {java}.db.t ORDER BY id") == [
        (1, "n1", None),
        (2, "n2", None),
        (3, "n3", "Pune"),
    ]
    assert ids(shared.ours.load_table("db.t")) == [1, 2, 3]
    assert table.location().endswith("/warehouse/db.db/t")


def test_items_of_both_have_the_same_attributes_but_for_the_uuid_that_we_keep(
    shared: Shared, dynamodb: DynamoDbAccess
) -> None:
    shared.sql("CREATE NAMESPACE {java}.db")
    shared.sql("CREATE TABLE {java}.db.java (id BIGINT) USING iceberg")
    shared.sql("INSERT INTO {java}.db.java VALUES (1)")
    shared.ours.create_table("db.ours", SCHEMA).append(rows(1))
    shared.ours.create_namespace("other")
    database = dynamodb.client()
    items: list[dict[str, Any]] = list(database.scan(TableName=shared.table_name)["Items"])
    database.close()
    shapes = {
        (item["identifier"]["S"], item["namespace"]["S"]): {key: next(iter(value)) for key, value in item.items()}
        for item in items
    }
    assert {**shapes["db.java", "db"], "p.table-uuid": "S"} == shapes["db.ours", "db"]
    # Spark adds an owner of its own to a namespace.
    java = {key: kind for key, kind in shapes["NAMESPACE", "db"].items() if not key.startswith("p.")}
    assert java == shapes["NAMESPACE", "other"]


def test_the_uuid_that_we_keep_survives_what_java_does_and_goes_with_the_table(
    shared: Shared, dynamodb: DynamoDbAccess
) -> None:
    def kept(name: str) -> str | None:
        database = dynamodb.client()
        key = {"identifier": {"S": f"db.{name}"}, "namespace": {"S": "db"}}
        item = database.get_item(TableName=shared.table_name, Key=key, ConsistentRead=True)["Item"]
        database.close()
        return item["p.table-uuid"]["S"] if "p.table-uuid" in item else None

    shared.ours.create_namespace("db")
    uuid = str(shared.ours.create_table("db.t", SCHEMA).metadata.table_uuid)
    shared.sql("INSERT INTO {java}.db.t VALUES (1, 'n1')")
    assert kept("t") == uuid
    shared.sql("ALTER TABLE {java}.db.t RENAME TO db.u")
    assert kept("u") == uuid
    assert ids(shared.ours.load_table("db.u")) == [1]
    shared.sql("DROP TABLE {java}.db.u")
    shared.sql("CREATE TABLE {java}.db.u (id BIGINT, name STRING) USING iceberg")
    assert kept("u") is None
    shared.sql("CREATE OR REPLACE TABLE {java}.db.u (id BIGINT, name STRING) USING iceberg")
    table = shared.ours.load_table("db.u")
    table.append(rows(2))
    assert kept("u") == str(table.metadata.table_uuid)
    shared.sql("CREATE OR REPLACE TABLE {java}.db.u (id BIGINT, name STRING) USING iceberg")
    assert ids(shared.ours.load_table("db.u")) == []


def test_namespaces_and_their_properties_are_seen_by_both(shared: Shared) -> None:
    shared.sql("CREATE NAMESPACE {java}.a WITH PROPERTIES ('x' = '1')")
    shared.ours.create_namespace("b", {"y": "2"})
    assert shared.ours.load_namespace_properties("a")["x"] == "1"
    assert shared.ours.list_namespaces() == [("a",), ("b",)]
    assert sorted(shared.sql("SHOW NAMESPACES IN {java}")) == [("a",), ("b",)]
    shared.ours.update_namespace_properties("a", updates={"x": "3"})
    shared.sql("ALTER NAMESPACE {java}.b SET PROPERTIES ('y' = '4')")
    assert shared.ours.load_namespace_properties("b")["y"] == "4"
    described = {row[0]: str(row[1]) for row in shared.sql("DESCRIBE NAMESPACE EXTENDED {java}.a")}
    assert "(x,3)" in described["Properties"]
    shared.ours.drop_namespace("a")
    assert shared.sql("SHOW NAMESPACES IN {java}") == [("b",)]


def test_a_rename_and_a_drop_of_one_are_seen_by_the_other(shared: Shared) -> None:
    shared.ours.create_namespace("db")
    shared.ours.create_table("db.t", SCHEMA).append(rows(1))
    shared.sql("ALTER TABLE {java}.db.t RENAME TO db.u")
    assert shared.ours.list_tables("db") == [("db", "u")]
    renamed = shared.ours.rename_table("db.u", "db.v")
    assert ids(renamed) == [1]
    assert shared.ids("db.v") == [1]
    with pytest.raises(NoSuchTableError):
        shared.ours.load_table("db.t")
    shared.sql("CREATE TABLE {java}.db.t (id BIGINT) USING iceberg")
    with pytest.raises(TableAlreadyExistsError):
        shared.ours.create_table("db.t", SCHEMA)
    shared.sql("DROP TABLE {java}.db.t")
    assert not shared.ours.table_exists("db.t")
    shared.ours.drop_table("db.v")
    assert shared.sql("SHOW TABLES IN {java}.db") == []


def test_commits_of_both_that_race_are_all_there_exactly_once(shared: Shared) -> None:
    retries = {"commit.retry.num-retries": "30", "commit.retry.min-wait-ms": "20", "commit.retry.max-wait-ms": "500"}
    shared.ours.create_namespace("db")
    shared.ours.create_table("db.t", SCHEMA, properties=retries)
    java_ids = list(range(1000, 1012))
    written: list[int] = []
    failures: list[BaseException] = []

    def java_writes() -> None:
        try:
            for number in java_ids:
                shared.sql(f"INSERT INTO {{java}}.db.t VALUES ({number}, 'java')")
                written.append(number)
        except BaseException as error:
            failures.append(error)

    writer = threading.Thread(target=java_writes)
    writer.start()

    def ours_in_a_row() -> int:
        return sum(1 for _ in itertools.takewhile(lambda number: number >= 2000, reversed(written)))

    for number in itertools.count(2000):
        while writer.is_alive() and ours_in_a_row() >= 8:
            time.sleep(0.01)  # Spark is slower to make a commit: it would lose more races than it has retries
        try:
            shared.ours.load_table("db.t").append(rows(number))
            written.append(number)
        except CommitFailedException:
            continue
        if not writer.is_alive() and number >= 2010:
            break
    writer.join()
    assert failures == []
    assert set(java_ids) <= set(written)
    table = shared.ours.load_table("db.t")
    assert ids(table) == sorted(written)
    assert shared.ids("db.t") == sorted(written)
    assert len(table.metadata.snapshots) == len(written)
