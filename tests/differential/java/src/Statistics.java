import java.nio.ByteBuffer;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.GenericBlobMetadata;
import org.apache.iceberg.GenericStatisticsFile;
import org.apache.iceberg.PartitionStatsHandler;
import org.apache.iceberg.PartitionStatisticsFile;
import org.apache.iceberg.puffin.Blob;
import org.apache.iceberg.puffin.Puffin;
import org.apache.iceberg.puffin.PuffinWriter;

/** Statistics files of the current snapshot: of columns, in Puffin, and of partitions. */
final class Statistics {
  private Statistics() {}

  static String put(BaseTable table, Random random) throws Exception {
    long snapshot = table.currentSnapshot().snapshotId();
    if (random.nextBoolean()) {
      PartitionStatisticsFile file = PartitionStatsHandler.computeAndWriteStatsFile(table);
      table.updatePartitionStatistics().setPartitionStatistics(file).commit();
      return "of partitions: " + file.path();
    }
    String path = table.location() + "/metadata/" + java.util.UUID.randomUUID() + ".stats";
    try (PuffinWriter writer = Puffin.write(Tables.IO.newOutputFile(path)).createdBy("differential").build()) {
      int field = table.schema().columns().get(0).fieldId();
      writer.add(
          new Blob(
              "apache-datasketches-theta-v1",
              List.of(field),
              snapshot,
              table.currentSnapshot().sequenceNumber(),
              ByteBuffer.wrap(new byte[] {1, 2, 3}),
              null,
              Map.of("ndv", "3")));
      writer.finish();
      table
          .updateStatistics()
          .setStatistics(
              new GenericStatisticsFile(
                  snapshot,
                  path,
                  writer.fileSize(),
                  writer.footerSize(),
                  writer.writtenBlobsMetadata().stream().map(GenericBlobMetadata::from).toList()))
          .commit();
    }
    return path;
  }
}
