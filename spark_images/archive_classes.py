"""Runs the work of a typical job, so that Java writes an archive of the classes that it loads. Run at build time.

Java maps such an archive instead of reading and verifying thousands of classes, which is a large part of a short
job's time. Where to write it is said by `-XX:ArchiveClassesAtExit` in SPARK_SUBMIT_OPTS.
"""

from pyspark.sql import SparkSession


def main() -> None:
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "512m")
        .config("spark.driver.extraJavaOptions", "-XX:-UsePerfData -XX:+UseSerialGC -XX:TieredStopAtLevel=1")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    context = session.sparkContext
    total = context.accumulator(0)
    context.parallelize(range(4), 4).foreach(total.add)
    shuffled = context.parallelize([(key % 2, b"blob") for key in range(8)], 2).repartitionAndSortWithinPartitions(2)
    if total.value != 6 or shuffled.count() != 8:
        raise SystemExit("error: Spark's own results are wrong: no archive of its classes is made")
    gateway = context._gateway
    session.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(120)  # Java writes the archive as it ends


if __name__ == "__main__":
    main()
