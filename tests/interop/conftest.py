"""Spark with Iceberg's Java runtime and its AWS bundle, on the same DynamoDB and S3 servers as our own catalog."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from pyiceberg.catalog import Catalog

from tableformat.catalogs import DynamoDbConfig, open_catalog
from tests.conftest import unique
from tests.servers import binaries
from tests.servers.dynamodb import DynamoDbAccess
from tests.servers.s3 import REGION, S3Access
from tests.servers.spark import LocalSpark


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, dynamodb: DynamoDbAccess) -> Iterator[LocalSpark]:
    """In place of the other suites' session: a process has one JVM, and its class path cannot grow."""
    with pytest.MonkeyPatch.context() as patch:
        # Java's catalog takes DynamoDB's credentials from its environment only.
        patch.setenv("AWS_ACCESS_KEY_ID", dynamodb.access_key)
        patch.setenv("AWS_SECRET_ACCESS_KEY", dynamodb.secret_key)
        local = LocalSpark(tmp_path_factory.mktemp("spark"), extra_jars=(binaries.iceberg_aws_bundle(),))
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
    options = {
        "catalog-impl": "org.apache.iceberg.aws.dynamodb.DynamoDbCatalog",
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "warehouse": warehouse,
        "dynamodb.table-name": table_name,
        "dynamodb.endpoint": dynamodb.endpoint,
        "s3.endpoint": s3.endpoint,
        "s3.path-style-access": "true",
        "s3.access-key-id": s3.access_key,
        "s3.secret-access-key": s3.secret_key,
        "client.region": REGION,
        "cache-enabled": "false",
    }
    conf = spark.session.conf
    conf.set(f"spark.sql.catalog.{java}", "org.apache.iceberg.spark.SparkCatalog")
    for key, value in options.items():
        conf.set(f"spark.sql.catalog.{java}.{key}", value)
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
