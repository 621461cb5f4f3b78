"""A Spark session in local mode, with Iceberg's Java runtime on its class path: the peer that reads what we write."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.servers import binaries, toolchain
from tests.servers.dynamodb import DynamoDbAccess
from tests.servers.s3 import REGION, S3Access

_QUIET = "rootLogger.level = error\nrootLogger.appenderRef.stderr.ref = stderr\n" + (
    "appender.stderr.type = Console\nappender.stderr.name = stderr\nappender.stderr.target = SYSTEM_ERR\n"
    "appender.stderr.layout.type = PatternLayout\nappender.stderr.layout.pattern = %p %c: %m%n\n"
)


class LocalSpark:
    """One JVM a process: a second session in the same process would share this one's class path."""

    def __init__(self, folder: Path, *, cores: int = 2, extra_jars: tuple[Path, ...] = ()) -> None:
        from pyspark.sql import SparkSession

        folder.mkdir(parents=True, exist_ok=True)
        java = toolchain.java()
        logging = folder / "log4j2.properties"
        logging.write_text(_QUIET)
        properties = f"-Djava.io.tmpdir={folder} -Dlog4j2.configurationFile=file:{logging}"
        os.environ["JAVA_HOME"] = str(Path(java).resolve().parent.parent)
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ["SPARK_LAUNCHER_OPTS"] = "-XX:-UsePerfData"
        # On the class path rather than in spark.jars: JDBC finds drivers of the system's class loader only.
        jars = (binaries.iceberg_spark_runtime(), binaries.sqlite_jdbc(), *extra_jars)
        self.session: SparkSession = (
            SparkSession.builder.master(f"local[{cores}]")
            .appName("tests")
            .config("spark.driver.extraClassPath", ":".join(str(jar) for jar in jars))
            .config("spark.sql.extensions", "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.memory", "2g")
            .config("spark.driver.extraJavaOptions", f"-XX:-UsePerfData {properties}")
            .config("spark.local.dir", str(folder / "local"))
            .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.shuffle.reduceLocality.enabled", "false")  # as in the jobs' own sessions
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .getOrCreate()
        )

    @classmethod
    def with_aws(cls, folder: Path, dynamodb: DynamoDbAccess) -> "LocalSpark":
        """For catalogs in DynamoDB, too, whose credentials Java takes from its environment only."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("AWS_ACCESS_KEY_ID", dynamodb.access_key)
            patch.setenv("AWS_SECRET_ACCESS_KEY", dynamodb.secret_key)
            return cls(folder, extra_jars=(binaries.iceberg_aws_bundle(),))

    def use_hadoop_catalog(self, name: str, warehouse: Path) -> None:
        """Lets SQL of this session name the tables of a folder as `name.db.table`."""
        self._use_catalog(name, {"type": "hadoop", "warehouse": f"file://{warehouse}"})

    def use_sqlite_catalog(self, name: str, database: Path, warehouse: Path) -> None:
        """The same tables that PyIceberg's SQL catalog of this name has in the database."""
        uri = f"jdbc:sqlite:{database}"
        self._use_catalog(name, {"type": "jdbc", "uri": uri, "warehouse": f"file://{warehouse}"})

    def use_dynamodb_catalog(
        self, name: str, table_name: str, warehouse: str, dynamodb: DynamoDbAccess, s3: S3Access
    ) -> None:
        """The same tables that our catalog has in this DynamoDB table; for a session `with_aws`."""
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
        self._use_catalog(name, options)

    def _use_catalog(self, name: str, options: Mapping[str, str]) -> None:
        conf = self.session.conf
        conf.set(f"spark.sql.catalog.{name}", "org.apache.iceberg.spark.SparkCatalog")
        for key, value in options.items():
            conf.set(f"spark.sql.catalog.{name}.{key}", value)

    def stop(self) -> None:
        gateway = self.session.sparkContext._gateway
        self.session.stop()
        if gateway is not None:
            gateway.shutdown()
            gateway.proc.stdin.close()  # the JVM ends with its standard input
            gateway.proc.wait(120)
