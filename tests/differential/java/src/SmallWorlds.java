import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.Closeable;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.UUID;
import java.util.stream.Collectors;
import java.util.stream.StreamSupport;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileFormat;
import org.apache.iceberg.Metrics;
import org.apache.iceberg.MetricsConfig;
import org.apache.iceberg.Schema;
import org.apache.iceberg.SchemaParser;
import org.apache.iceberg.SortOrder;
import org.apache.iceberg.SortOrderComparators;
import org.apache.iceberg.SortOrderParser;
import org.apache.iceberg.StructLike;
import org.apache.iceberg.Table;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.data.DeleteFilter;
import org.apache.iceberg.data.GenericDataUtil;
import org.apache.iceberg.data.GenericFileWriterFactory;
import org.apache.iceberg.data.GenericRecord;
import org.apache.iceberg.data.IcebergGenerics;
import org.apache.iceberg.data.InternalRecordWrapper;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.data.parquet.GenericParquetWriter;
import org.apache.iceberg.deletes.EqualityDeleteWriter;
import org.apache.iceberg.encryption.EncryptedFiles;
import org.apache.iceberg.encryption.EncryptedOutputFile;
import org.apache.iceberg.encryption.EncryptionKeyMetadata;
import org.apache.iceberg.inmemory.InMemoryCatalog;
import org.apache.iceberg.inmemory.InMemoryOutputFile;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.io.DataWriter;
import org.apache.iceberg.io.FileAppender;
import org.apache.iceberg.io.FileWriterFactory;
import org.apache.iceberg.io.InputFile;
import org.apache.iceberg.parquet.Parquet;
import org.apache.iceberg.relocated.com.google.common.collect.Lists;
import org.apache.iceberg.transforms.Transform;
import org.apache.iceberg.transforms.Transforms;
import org.apache.iceberg.types.Conversions;
import org.apache.iceberg.types.Type;
import org.apache.iceberg.types.TypeUtil;
import org.apache.iceberg.types.Types;
import org.apache.iceberg.util.SerializableFunction;

/**
 * What Iceberg's library makes of given values: which rows equality deletes delete, in which order rows are, what transforms
 * give, and which bounds a file gets.
 *
 * <p>A value is the hexadecimal text of its single-value serialization, or null; a struct is an array of its fields' values.
 */
final class SmallWorlds {
  private SmallWorlds() {}

  static JsonNode answer(JsonNode request) throws Exception {
    return switch (request.get("question").asText()) {
      case "equality" -> equality(request);
      case "order" -> order(request);
      case "transform" -> transform(request);
      case "bounds" -> bounds(request);
      default -> throw new IllegalArgumentException("unknown question " + request.get("question"));
    };
  }

  /**
   * Which rows of one data file each delete file deletes, by the value of their first column. With "planned", each delete file is
   * committed to the table on its own, and the table is read as a whole; otherwise the delete is applied without asking whether the
   * file's bounds exclude it.
   */
  private static JsonNode equality(JsonNode request) throws Exception {
    Schema schema = SchemaParser.fromJson(request.get("schema").toString());
    FileFormat format = FileFormat.fromString(request.get("format").asText());
    int[] ids = StreamSupport.stream(request.get("ids").spliterator(), false).mapToInt(JsonNode::asInt).toArray();
    Schema keys = TypeUtil.select(schema, Arrays.stream(ids).boxed().collect(Collectors.toSet()));
    ArrayNode answer = Reference.JSON.createArrayNode();
    try (InMemoryCatalog catalog = new InMemoryCatalog()) {
      catalog.initialize(UUID.randomUUID().toString(), Map.of());
      catalog.createNamespace(Namespace.of("n"));
      Table table =
          catalog.buildTable(TableIdentifier.of("n", "t"), schema).withProperty("format-version", "3").create();
      FileWriterFactory<Record> factory =
          new GenericFileWriterFactory.Builder(table)
              .dataFileFormat(format)
              .dataSchema(table.schema())
              .deleteFileFormat(format)
              .equalityFieldIds(ids)
              .equalityDeleteRowSchema(keys)
              .build();
      DataWriter<Record> data = factory.newDataWriter(output(table, format), table.spec(), null);
      write(data, data::write, schema, request.get("rows"));
      table.newAppend().appendFile(data.toDataFile()).commit();
      long start = table.currentSnapshot().snapshotId();
      List<Record> all = rows(table);
      for (JsonNode rows : request.get("deletes")) {
        EqualityDeleteWriter<Record> deletes =
            factory.newEqualityDeleteWriter(output(table, format), table.spec(), null);
        write(deletes, deletes::write, keys, rows);
        List<Record> left;
        if (request.get("planned").asBoolean()) {
          table.newRowDelta().addDeletes(deletes.toDeleteFile()).commit();
          left = rows(table);
          table.manageSnapshots().rollbackTo(start).commit();
        } else {
          left = new Deletes(table, deletes.toDeleteFile()).left(all);
        }
        Set<Object> deleted = numbers(all);
        deleted.removeAll(numbers(left));
        answer.add(Reference.JSON.valueToTree(deleted));
      }
    }
    return answer;
  }

  private static final class Deletes extends DeleteFilter<Record> {
    private final Table table;
    private final InternalRecordWrapper wrapper;

    Deletes(Table table, DeleteFile deletes) {
      super("any", List.of(deletes), table.schema(), table.schema());
      this.table = table;
      this.wrapper = new InternalRecordWrapper(requiredSchema().asStruct());
    }

    List<Record> left(List<Record> rows) throws IOException {
      try (CloseableIterable<Record> left = filter(CloseableIterable.withNoopClose(rows))) {
        return Lists.newArrayList(left);
      }
    }

    @Override
    protected StructLike asStructLike(Record row) {
      return wrapper.wrap(row);
    }

    @Override
    protected InputFile getInputFile(String location) {
      return table.io().newInputFile(location);
    }
  }

  private static EncryptedOutputFile output(Table table, FileFormat format) {
    String path = table.locationProvider().newDataLocation(UUID.randomUUID() + "." + format.name().toLowerCase());
    return EncryptedFiles.encryptedOutput(table.io().newOutputFile(path), EncryptionKeyMetadata.EMPTY);
  }

  private interface RowWriter {
    void write(Record row) throws IOException;
  }

  private static void write(Closeable writer, RowWriter rows, Schema schema, JsonNode values) throws IOException {
    try (writer) {
      for (JsonNode row : values) {
        rows.write((Record) generic(schema.asStruct(), row));
      }
    }
  }

  private static List<Record> rows(Table table) throws IOException {
    try (CloseableIterable<Record> rows = IcebergGenerics.read(table).build()) {
      return Lists.newArrayList(rows);
    }
  }

  private static Set<Object> numbers(List<Record> rows) {
    return rows.stream().map(row -> row.get(0)).collect(Collectors.toCollection(TreeSet::new));
  }

  /** For each pair of rows: less than 0, 0 or greater than 0 as the first comes before, with or after the second. */
  private static JsonNode order(JsonNode request) {
    Schema schema = SchemaParser.fromJson(request.get("schema").toString());
    SortOrder order = SortOrderParser.fromJson(request.get("order").toString()).bind(schema);
    Comparator<StructLike> comparator = SortOrderComparators.forSchema(schema, order);
    List<StructLike> rows = new ArrayList<>();
    for (JsonNode row : request.get("rows")) {
      rows.add(new InternalRecordWrapper(schema.asStruct()).wrap((Record) generic(schema.asStruct(), row)));
    }
    ArrayNode answer = Reference.JSON.createArrayNode();
    for (StructLike row : rows) {
      ArrayNode signs = answer.addArray();
      rows.forEach(other -> signs.add(Integer.signum(comparator.compare(row, other))));
    }
    return answer;
  }

  @SuppressWarnings("unchecked")
  private static JsonNode transform(JsonNode request) {
    Type type = Types.fromPrimitiveString(request.get("type").asText());
    Transform<Object, Object> transform =
        (Transform<Object, Object>) Transforms.fromString(request.get("transform").asText());
    Type result = transform.getResultType(type);
    SerializableFunction<Object, Object> function = transform.bind(type);
    ArrayNode answer = Reference.JSON.createArrayNode();
    for (JsonNode value : request.get("values")) {
      answer.add(hex(Conversions.toByteBuffer(result, function.apply(internal(type, value)))));
    }
    return answer;
  }

  /** What the manifest would say of a Parquet file with these values, for each list of values. */
  private static JsonNode bounds(JsonNode request) throws Exception {
    Type type = Types.fromPrimitiveString(request.get("type").asText());
    Schema schema = new Schema(Types.NestedField.optional(1, "value", type));
    Map<String, String> properties = Map.of("write.metadata.metrics.default", request.get("mode").asText());
    ArrayNode answer = Reference.JSON.createArrayNode();
    for (JsonNode values : request.get("files")) {
      FileAppender<Record> file =
          Parquet.write(new InMemoryOutputFile())
              .schema(schema)
              .createWriterFunc(GenericParquetWriter::create)
              .set("write.parquet.compression-codec", "uncompressed")
              .metricsConfig(MetricsConfig.fromProperties(properties))
              .build();
      try (file) {
        for (JsonNode value : values) {
          Record row = GenericRecord.create(schema);
          row.set(0, generic(type, value));
          file.add(row);
        }
      }
      Metrics metrics = file.metrics();
      ObjectNode found = answer.addObject();
      found.put("lower", bound(metrics.lowerBounds()));
      found.put("upper", bound(metrics.upperBounds()));
      found.put("values", count(metrics.valueCounts()));
      found.put("nulls", count(metrics.nullValueCounts()));
      found.put("nans", count(metrics.nanValueCounts()));
    }
    return answer;
  }

  private static String bound(Map<Integer, ByteBuffer> bounds) {
    return bounds == null ? null : hex(bounds.get(1));
  }

  private static Long count(Map<Integer, Long> counts) {
    return counts == null ? null : counts.get(1);
  }

  private static Object generic(Type type, JsonNode value) {
    if (value.isNull() || type.isPrimitiveType()) {
      return GenericDataUtil.internalToGeneric(type, internal(type, value));
    }
    Record row = GenericRecord.create(type.asStructType());
    List<Types.NestedField> fields = type.asStructType().fields();
    for (int place = 0; place < fields.size(); place += 1) {
      row.set(place, generic(fields.get(place).type(), value.get(place)));
    }
    return row;
  }

  private static Object internal(Type type, JsonNode value) {
    if (value.isNull()) {
      return null;
    }
    Object found = Conversions.fromByteBuffer(type, ByteBuffer.wrap(HexFormat.of().parseHex(value.asText())));
    return type.typeId() == Type.TypeID.STRING ? found.toString() : found; // writers take no other character sequences
  }

  private static String hex(ByteBuffer bytes) {
    if (bytes == null) {
      return null;
    }
    byte[] copy = new byte[bytes.remaining()];
    bytes.duplicate().get(copy);
    return HexFormat.of().formatHex(copy);
  }
}
