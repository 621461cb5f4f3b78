"""Spark with Iceberg's Java runtime and its AWS bundle, on the same DynamoDB and S3 servers as our own catalog."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from pyiceberg.catalog import Catalog

from tableformat.catalogs import DynamoDbConfig, open_catalog
from tests.conftest import unique
from tests.servers.dynamodb import DynamoDbAccess
from tests.servers.s3 import S3Access
from tests.servers.spark import LocalSpark


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, dynamodb: DynamoDbAccess) -> Iterator[LocalSpark]:
    """In place of the other suites' session: a process has one JVM, and its class path cannot grow."""
    local = LocalSpark.with_aws(tmp_path_factory.mktemp("spark"), dynamodb)
    yield local
    local.stop()


@dataclass(frozen=True)
class Shared:
    """One catalog, as ours and as Java's."""

    ours: Catalog
    java: str  # its name in SQL
    spark: LocalSpark
    table_name: str

    def sql(self, statement: str) -> list[tuple[object, ...]]:
        """`{java}` in the statement stands for the catalog."""
        return [tuple(row) for row in self.spark.session.sql(statement.format(java=self.java)).collect()]

    def ids(self, table: str) -> list[object]:
        return [row[0] for row in self.sql(f"SELECT id FROM {{java}}.{table} ORDER BY id")]


@pytest.fixture
def shared(spark: LocalSpark, dynamodb: DynamoDbAccess, s3: S3Access, s3_bucket: str) -> Iterator[Shared]:
    table_name, java = unique("catalog"), unique("java").replace("-", "_")
    warehouse = f"s3://{s3_bucket}/warehouse"
    spark.use_dynamodb_catalog(java, table_name, warehouse, dynamodb, s3)
    config = DynamoDbConfig(
        name="lake",
        warehouse=warehouse,
        table_name=table_name,
        region=dynamodb.region,
        endpoint=dynamodb.endpoint,
        create_table=True,
        properties={
            "dynamodb.access-key-id": dynamodb.access_key,
            "dynamodb.secret-access-key": dynamodb.secret_key,
            **s3.file_io_properties(),
        },
    )
    with open_catalog(config) as ours:
        yield Shared(ours, java, spark, table_name)
