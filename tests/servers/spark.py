"""A Spark session in local mode, with Iceberg's Java runtime on its class path: the peer that reads what we write."""

import os
import sys
from pathlib import Path

from tests.servers import binaries, toolchain

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
            .config("spark.driver.extraJavaOptions", f"-XX:-UsePerfData -Dlog4j2.configurationFile=file:{logging}")
            .config("spark.local.dir", str(folder / "local"))
            .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .getOrCreate()
        )

    def use_hadoop_catalog(self, name: str, warehouse: Path) -> None:
        """Lets SQL of this session name the tables of a folder as `name.db.table`."""
        conf = self.session.conf
        conf.set(f"spark.sql.catalog.{name}", "org.apache.iceberg.spark.SparkCatalog")
        conf.set(f"spark.sql.catalog.{name}.type", "hadoop")
        conf.set(f"spark.sql.catalog.{name}.warehouse", f"file://{warehouse}")

    def use_sqlite_catalog(self, name: str, database: Path, warehouse: Path) -> None:
        """The same tables that PyIceberg's SQL catalog of this name has in the database."""
        conf = self.session.conf
        conf.set(f"spark.sql.catalog.{name}", "org.apache.iceberg.spark.SparkCatalog")
        conf.set(f"spark.sql.catalog.{name}.type", "jdbc")
        conf.set(f"spark.sql.catalog.{name}.uri", f"jdbc:sqlite:{database}")
        conf.set(f"spark.sql.catalog.{name}.warehouse", f"file://{warehouse}")

    def stop(self) -> None:
        gateway = self.session.sparkContext._gateway
        self.session.stop()
        if gateway is not None:
            gateway.shutdown()
            gateway.proc.stdin.close()  # the JVM ends with its standard input
            gateway.proc.wait(20)
