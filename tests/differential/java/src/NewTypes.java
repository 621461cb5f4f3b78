import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.HexFormat;
import java.util.Map;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.Schema;
import org.apache.iceberg.data.GenericRecord;
import org.apache.iceberg.data.IcebergGenerics;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.data.parquet.GenericParquetWriter;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.io.DataWriter;
import org.apache.iceberg.parquet.Parquet;
import org.apache.iceberg.types.EdgeAlgorithm;
import org.apache.iceberg.types.Types;
import org.apache.iceberg.types.Types.NestedField;
import org.apache.iceberg.variants.ShreddedObject;
import org.apache.iceberg.variants.Variant;
import org.apache.iceberg.variants.VariantMetadata;
import org.apache.iceberg.variants.Variants;
import org.apache.parquet.schema.PrimitiveType.PrimitiveTypeName;

/** Tables with the column types that only format version 3 has, written and read by Iceberg's generic reader and writer. */
final class NewTypes {
  private NewTypes() {}

  /**
   * Writes a table of three files at "location", with a variant column if "variant", which is shredded in the last file if
   * "shredded", and answers its metadata file.
   */
  static JsonNode write(JsonNode request) throws Exception {
    Schema given =
        new Schema(
            NestedField.required(1, "id", Types.LongType.get()),
            NestedField.optional(2, "place", Types.GeometryType.of("EPSG:4326")),
            NestedField.optional(3, "plain", Types.GeometryType.crs84()),
            NestedField.optional(4, "area", Types.GeographyType.of("EPSG:4269", EdgeAlgorithm.KARNEY)),
            NestedField.optional(5, "sphere", Types.GeographyType.crs84()),
            NestedField.optional(6, "nothing", Types.UnknownType.get()),
            NestedField.optional(
                7,
                "inner",
                Types.StructType.of(
                    NestedField.optional(8, "places", Types.ListType.ofOptional(9, Types.GeometryType.of("srid:0"))),
                    NestedField.optional(10, "nothing", Types.UnknownType.get()))),
            request.path("variant").asBoolean()
                ? NestedField.optional(11, "doc", Types.VariantType.get())
                : NestedField.optional(11, "doc", Types.StringType.get()));
    BaseTable table = Tables.create(given, request.get("location").asText(), Map.of("format-version", "3"));
    Schema schema = table.schema(); // with ids of its own
    for (int file = 0; file < 3; file++) {
      Parquet.DataWriteBuilder builder =
          Parquet.writeData(table.io().newOutputFile(table.location() + "/data/f" + file + "#1?x=%20 é.parquet"))
              .schema(schema)
              .createWriterFunc(GenericParquetWriter::create)
              .withSpec(PartitionSpec.unpartitioned());
      if (file == 2 && request.path("shredded").asBoolean()) {
        builder.variantShreddingFunc((id, name) -> org.apache.parquet.schema.Types.optional(PrimitiveTypeName.INT32).named("typed_value"));
      }
      DataWriter<Record> writer = builder.build();
      try (writer) {
        for (int row = 0; row < 4; row++) {
          writer.write(record(schema, file * 4 + row, row == 1, request.path("variant").asBoolean()));
        }
      }
      table.newAppend().appendFile(writer.toDataFile()).commit();
    }
    return Reference.JSON.getNodeFactory().textNode(Tables.metadataOf(table));
  }

  /** All rows of the table at "metadata", as text. */
  static JsonNode read(JsonNode request) throws Exception {
    ArrayNode rows = Reference.JSON.createArrayNode();
    try (CloseableIterable<Record> records = IcebergGenerics.read(Tables.open(request.get("metadata").asText())).build()) {
      for (Record record : records) {
        rows.add(text(record));
      }
    }
    return rows;
  }

  private static Record record(Schema schema, int number, boolean isNull, boolean isVariant) {
    Record record = GenericRecord.create(schema);
    record.setField("id", (long) number);
    if (!isNull) {
      record.setField("place", point(number, -number));
      record.setField("plain", point(number, 0));
      record.setField("area", point(1, number));
      record.setField("sphere", point(2, number));
      Record inner = GenericRecord.create(schema.findType("inner").asStructType());
      inner.setField("places", java.util.Arrays.asList(point(7, number), null));
      record.setField("inner", inner);
      record.setField("doc", isVariant ? variant(number) : "text " + number);
    }
    return record;
  }

  private static ByteBuffer point(double x, double y) {
    ByteBuffer wkb = ByteBuffer.allocate(21).order(ByteOrder.LITTLE_ENDIAN);
    return wkb.put((byte) 1).putInt(1).putDouble(x).putDouble(y).flip();
  }

  private static Variant variant(int number) {
    VariantMetadata metadata = Variants.metadata("a", "b");
    ShreddedObject object = Variants.object(metadata);
    object.put("a", Variants.of(number));
    object.put("b", Variants.of("text " + number));
    return Variant.of(metadata, object);
  }

  private static String text(Object value) {
    if (value instanceof ByteBuffer bytes) {
      byte[] content = new byte[bytes.remaining()];
      bytes.duplicate().get(content);
      return HexFormat.of().formatHex(content);
    }
    if (value instanceof Variant variant) {
      return Variant.toString(variant);
    }
    if (value instanceof Record record) {
      StringBuilder fields = new StringBuilder("(");
      for (int place = 0; place < record.size(); place++) {
        fields.append(text(record.get(place))).append(";");
      }
      return fields.append(")").toString();
    }
    if (value instanceof Iterable<?> items) {
      StringBuilder elements = new StringBuilder("[");
      items.forEach(item -> elements.append(text(item)).append(";"));
      return elements.append("]").toString();
    }
    return String.valueOf(value);
  }
}
