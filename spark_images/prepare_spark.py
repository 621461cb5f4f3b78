"""Makes the PySpark package of an environment small and quick to start. Run once, when the image is built.

Usage: python prepare_spark.py SITE_PACKAGES

Jobs use Spark's core, its SQL engine and its Kubernetes scheduler; what serves other purposes goes. A name that
matches nothing is an error: after an upgrade of Spark this list is looked at again rather than trusted.
"""

import platform
import shutil
import sys
import zipfile
from pathlib import Path

UNUSED_JARS = {
    "Hive's metastore, shell and thrift server": [
        *["hive-beeline-*", "hive-cli-*", "hive-common-*", "hive-exec-*", "hive-jdbc-*", "hive-metastore-*"],
        *["hive-serde-*", "hive-service-rpc-*", "hive-shims-*", "spark-hive_*", "spark-hive-thriftserver_*"],
        *["datanucleus-*", "derby*", "javax.jdo-*", "jdo-api-*", "HikariCP-*", "commons-dbcp-*", "commons-pool-*"],
        *["ST4-*", "antlr-runtime-*", "javolution-*", "jpam-*", "jta-*", "libfb303-*", "libthrift-*", "opencsv-*"],
        *["super-csv-*", "transaction-api-*"],
    ],
    "machine learning and graphs": [
        *["spark-mllib_*", "spark-mllib-local_*", "spark-graphx_*", "breeze*", "spire*", "cats-kernel_*", "algebra_*"],
        *["arpack*", "blas-*", "lapack-*", "JLargeArrays-*", "JTransforms-*"],
    ],
    "shells, Connect's server and declarative pipelines": [
        *["spark-connect_*", "spark-pipelines_*", "spark-repl_*", "scala-compiler-*", "jline-*"],
    ],
    "other cluster managers": ["spark-yarn_*", "curator-*", "zookeeper-*"],
    "the state of streaming queries, and the history server's store": ["rocksdbjni-*", "leveldbjni-all-*"],
    "HTTP/3, which nothing here speaks": [
        "netty-codec-native-quic-*",
        "netty-codec-classes-quic-*",
        "netty-codec-http3-*",
    ],
    "libraries of other systems": ["netty-*-osx-*", "netty-*-windows-*", "netty-*-riscv64*"],
}
OTHER_MACHINE = {"x86_64": "aarch_64", "aarch64": "x86_64"}

UNUSED_FOLDERS = [
    "data",
    "examples",
    "jars/connect-repl",
    "python",  # zipped copies of pyspark and py4j: both are installed, and byte-compiled, beside it
]


def prepare(pyspark: Path) -> None:
    for name in UNUSED_FOLDERS:
        shutil.rmtree(pyspark / name)
    patterns = [pattern for group in UNUSED_JARS.values() for pattern in group]
    if platform.machine() in OTHER_MACHINE:
        patterns.append(f"netty-*-linux-{OTHER_MACHINE[platform.machine()]}*")
    for pattern in patterns:
        matches = list((pyspark / "jars").glob(f"{pattern}.jar"))
        if not matches:
            raise SystemExit(f"error: no jar of PySpark matches {pattern}: correct {Path(__file__).name}")
        for jar in matches:
            jar.unlink()
    put_jars_behind_one(pyspark)


def put_jars_behind_one(pyspark: Path) -> None:
    """Moves the jars to `lib`, and leaves one in `jars` that names them all.

    Spark's class path is `jars/*`, which Java expands in the order that the file system happens to list. An archive of
    class data is only used with the very class path that it was made with, so the order must be the same everywhere.
    """
    lib = (pyspark / "jars").rename(pyspark / "lib")
    # Spark's own launcher puts this one first, too: some jars carry older copies of its classes
    names = sorted((jar.name for jar in lib.glob("*.jar")), key=lambda name: (not name.startswith("slf4j-api"), name))
    (pyspark / "jars").mkdir()
    entry = "Class-Path: " + " ".join(f"../lib/{name}" for name in names)
    # a line of a manifest has 72 bytes at most; a continuation begins with a space
    lines = [entry[:72]] + [" " + entry[at : at + 71] for at in range(72, len(entry), 71)]
    with zipfile.ZipFile(pyspark / "jars" / "spark.jar", "w") as jar:
        manifest = zipfile.ZipInfo("META-INF/MANIFEST.MF", date_time=(2020, 1, 1, 0, 0, 0))
        jar.writestr(manifest, "\r\n".join(["Manifest-Version: 1.0", *lines, "", ""]))


if __name__ == "__main__":
    prepare(Path(sys.argv[1]) / "pyspark")
