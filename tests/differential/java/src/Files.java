import com.fasterxml.jackson.databind.JsonNode;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DataFiles;
import org.apache.iceberg.FileFormat;
import org.apache.iceberg.PartitionKey;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.SortOrderComparators;
import org.apache.iceberg.StructLike;
import org.apache.iceberg.data.GenericFileWriterFactory;
import org.apache.iceberg.data.InternalRecordWrapper;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.encryption.EncryptedOutputFile;
import org.apache.iceberg.io.DataWriter;
import org.apache.iceberg.io.InputFile;
import org.apache.iceberg.io.OutputFileFactory;
import org.apache.iceberg.io.PositionOutputStream;
import org.apache.iceberg.io.SeekableInputStream;
import org.apache.parquet.format.FileMetaData;
import org.apache.parquet.format.SchemaElement;
import org.apache.parquet.format.Util;

/** Data files of a step: so many rows in so many files, each row in the partition where it belongs. */
final class Files {
  private static final int MOST_PARTITIONS = 4; // rows of others are left out: a file costs more than its rows

  private final BaseTable table;
  private final JsonNode step;
  private final FileFormat format;

  Files(BaseTable table, JsonNode step) {
    this.table = table;
    this.step = step;
    this.format = FileFormat.fromString(Tables.text(step, "format", "parquet"));
  }

  List<DataFile> rows() throws IOException {
    List<DataFile> written = new ArrayList<>();
    int files = Math.max(1, step.path("files").asInt(1));
    int rows = step.path("rows").asInt(5);
    for (int number = 0; number < files; number += 1) {
      List<Record> records = new ArrayList<>();
      for (int row = 0; row < rows; row += 1) {
        Record record = Values.row(table.schema().asStruct(), step.path("seed").asLong(), number * rows + row);
        records.add(format == FileFormat.ORC ? (Record) Values.withOneZero(record) : record);
      }
      int partitions = 0;
      for (Map.Entry<StructLike, List<Record>> entry : byPartition(records).entrySet()) {
        if (partitions < MOST_PARTITIONS) {
          written.add(write(entry.getKey(), entry.getValue()));
        }
        partitions += 1;
      }
    }
    return written;
  }

  private Map<StructLike, List<Record>> byPartition(List<Record> records) {
    Map<StructLike, List<Record>> byPartition = new LinkedHashMap<>();
    InternalRecordWrapper wrapper = new InternalRecordWrapper(table.schema().asStruct());
    PartitionKey key = new PartitionKey(table.spec(), table.schema());
    for (Record record : records) {
      key.partition(wrapper.wrap(record));
      byPartition.computeIfAbsent(key.copy(), any -> new ArrayList<>()).add(record);
    }
    return byPartition;
  }

  private DataFile write(StructLike key, List<Record> records) throws IOException {
    PartitionSpec spec = table.spec();
    GenericFileWriterFactory.Builder factory = new GenericFileWriterFactory.Builder(table).dataFileFormat(format);
    if (table.sortOrder().isSorted() && step.path("sorted").asBoolean()) {
      factory = factory.dataSortOrder(table.sortOrder());
      sort(records);
    }
    StructLike partition = spec.isUnpartitioned() ? null : key;
    DataWriter<Record> writer = factory.build().newDataWriter(output(table, format, spec, partition), spec, partition);
    try (writer) {
      records.forEach(writer::write);
    }
    DataFile file = writer.toDataFile();
    return step.path("plain").asBoolean() && format == FileFormat.PARQUET ? withoutIds(file, spec) : file;
  }

  private void sort(List<Record> records) {
    java.util.Comparator<StructLike> order = SortOrderComparators.forSchema(table.schema(), table.sortOrder());
    InternalRecordWrapper wrapper = new InternalRecordWrapper(table.schema().asStruct());
    records.sort((left, right) -> order.compare(wrapper.copyFor(left), wrapper.copyFor(right)));
  }

  static EncryptedOutputFile output(BaseTable table, FileFormat format, PartitionSpec spec, StructLike partition) {
    OutputFileFactory outputs = OutputFileFactory.builderFor(table, 1, 1).format(format).build();
    return partition == null ? outputs.newOutputFile() : outputs.newOutputFile(spec, partition);
  }

  /** As engines that know nothing of Iceberg write it: the same file, and no field ids in its footer. */
  private static DataFile withoutIds(DataFile file, PartitionSpec spec) throws IOException {
    InputFile input = Tables.IO.newInputFile(file.location());
    byte[] bytes = new byte[(int) input.getLength()];
    try (SeekableInputStream stream = input.newStream()) {
      org.apache.iceberg.io.IOUtil.readFully(stream, bytes, 0, bytes.length);
    }
    int length = ByteBuffer.wrap(bytes, bytes.length - 8, 4).order(ByteOrder.LITTLE_ENDIAN).getInt();
    int start = bytes.length - 8 - length;
    FileMetaData footer = Util.readFileMetaData(new ByteArrayInputStream(bytes, start, length));
    footer.getSchema().forEach(SchemaElement::unsetField_id);
    footer.unsetKey_value_metadata();
    ByteArrayOutputStream encoded = new ByteArrayOutputStream();
    Util.writeFileMetaData(footer, encoded);
    String location = file.location().replace(".parquet", "-plain.parquet");
    byte[] tail = ByteBuffer.allocate(4).order(ByteOrder.LITTLE_ENDIAN).putInt(encoded.size()).array();
    try (PositionOutputStream stream = Tables.IO.newOutputFile(location).create()) {
      stream.write(bytes, 0, start);
      stream.write(encoded.toByteArray());
      stream.write(tail);
      stream.write(Values.utf8("PAR1"));
    }
    Tables.IO.deleteFile(file.location());
    return DataFiles.builder(spec).copy(file).withPath(location).withFileSizeInBytes(start + encoded.size() + 8L).build();
  }
}
