import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.hadoop.fs.Path;
import org.apache.iceberg.Accessor;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.ContentFile;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileContent;
import org.apache.iceberg.FileFormat;
import org.apache.iceberg.ManifestContent;
import org.apache.iceberg.ManifestFile;
import org.apache.iceberg.ManifestFiles;
import org.apache.iceberg.ManifestReader;
import org.apache.iceberg.PartitionField;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.Schema;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SortOrder;
import org.apache.iceberg.SortOrderComparators;
import org.apache.iceberg.StructLike;
import org.apache.iceberg.data.InternalRecordWrapper;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.formats.FormatModelRegistry;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.transforms.Transform;
import org.apache.iceberg.types.Comparators;
import org.apache.iceberg.types.Conversions;
import org.apache.iceberg.types.Type;
import org.apache.iceberg.types.TypeUtil;
import org.apache.iceberg.types.Types;
import org.apache.parquet.hadoop.ParquetFileReader;
import org.apache.parquet.hadoop.metadata.BlockMetaData;
import org.apache.parquet.hadoop.util.HadoopInputFile;

/**
 * What the manifests of the current snapshot claim, against the files themselves.
 *
 * <p>Files and manifests that are "known" were written by Iceberg's own library, which is not on trial: of those, the entries are
 * returned as text, so that whoever asks can see whether they are what they were.
 */
final class Claims {
  /** As Parquet's own statistics of them, which Iceberg's writer takes for bounds; its comparator takes the first bit for a sign. */
  private static final Comparator<Object> BY_BYTES =
      Comparator.comparing(value -> Conversions.toByteBuffer(Types.UUIDType.get(), value), Comparators.unsignedBytes());

  private final BaseTable table;
  private final Set<String> known = new HashSet<>();
  private final ArrayNode violations = Reference.JSON.createArrayNode();
  private final Map<String, String> entries = new TreeMap<>();
  private int checked = 0;

  private Claims(JsonNode request) {
    this.table = Tables.open(request.get("metadata").asText());
    request.path("known").forEach(each -> known.add(each.asText()));
  }

  /** {"metadata": …} to {"files": [paths of data, deletes and manifests in all snapshots]}. */
  static JsonNode files(JsonNode request) throws Exception {
    Claims claims = new Claims(request);
    Set<String> files = new HashSet<>();
    for (Snapshot snapshot : claims.table.snapshots()) {
      for (ManifestFile manifest : snapshot.allManifests(Tables.IO)) {
        if (files.add(manifest.path())) {
          try (ManifestReader<? extends ContentFile<?>> reader = claims.reader(manifest)) {
            reader.forEach(file -> files.add(file.location()));
          }
        }
      }
    }
    return Reference.JSON.createObjectNode().set("files", Reference.JSON.valueToTree(files));
  }

  /** {"metadata": …, "known": [paths]} to {"violations": […], "entries": {file: claims}}. */
  static JsonNode check(JsonNode request) {
    Claims claims = new Claims(request);
    Snapshot snapshot = claims.table.currentSnapshot();
    if (snapshot != null) {
      for (ManifestFile manifest : snapshot.allManifests(Tables.IO)) {
        try {
          claims.manifest(manifest);
        } catch (Exception error) {
          claims.wrong(manifest.path(), "cannot be read: " + error);
        }
      }
    }
    ObjectNode answer = Reference.JSON.createObjectNode();
    answer.set("violations", claims.violations);
    answer.set("entries", Reference.JSON.valueToTree(claims.entries));
    return answer.put("checked", claims.checked);
  }

  private void wrong(String where, String what) {
    if (violations.size() < 20) {
      violations.add(where + ": " + what);
    }
  }

  private void expect(boolean holds, String where, String what) {
    if (!holds) {
      wrong(where, what);
    }
  }

  private void manifest(ManifestFile manifest) throws Exception {
    boolean isKnown = known.contains(manifest.path());
    PartitionSpec spec = table.specs().get(manifest.partitionSpecId());
    long files = 0;
    long rows = 0;
    long least = Long.MAX_VALUE;
    List<StructLike> partitions = new ArrayList<>();
    try (ManifestReader<? extends ContentFile<?>> reader = reader(manifest)) {
      for (ContentFile<?> shared : reader) {
        ContentFile<?> file = (ContentFile<?>) shared.copy();
        files += 1;
        rows += file.recordCount();
        least = Math.min(least, file.dataSequenceNumber());
        partitions.add(file.partition());
        entries.put(key(file), claims(file, spec));
        if (!known.contains(file.location())) {
          file(file, spec);
        }
      }
    }
    if (isKnown) {
      return;
    }
    expect(manifest.addedFilesCount() + manifest.existingFilesCount() == files, manifest.path(), "counts other than " + files + " files");
    expect(manifest.addedRowsCount() + manifest.existingRowsCount() == rows, manifest.path(), "counts other than " + rows + " rows");
    expect(files == 0 || manifest.minSequenceNumber() <= least, manifest.path(), "has a file older than its least sequence number");
    expect(Tables.IO.newInputFile(manifest.path()).getLength() == manifest.length(), manifest.path(), "another length");
    summaries(manifest, spec, partitions);
  }

  private ManifestReader<? extends ContentFile<?>> reader(ManifestFile manifest) {
    return manifest.content() == ManifestContent.DATA
        ? ManifestFiles.read(manifest, Tables.IO, table.specs())
        : ManifestFiles.readDeleteManifest(manifest, Tables.IO, table.specs());
  }

  private void summaries(ManifestFile manifest, PartitionSpec spec, List<StructLike> partitions) {
    List<Types.NestedField> fields = spec.partitionType().fields();
    List<ManifestFile.PartitionFieldSummary> summaries = manifest.partitions();
    if (summaries == null || summaries.isEmpty()) {
      return;
    }
    expect(summaries.size() == fields.size(), manifest.path(), "has " + summaries.size() + " summaries of " + fields.size() + " fields");
    for (int place = 0; place < Math.min(fields.size(), summaries.size()); place += 1) {
      ManifestFile.PartitionFieldSummary summary = summaries.get(place);
      Type.PrimitiveType type = fields.get(place).type().asPrimitiveType();
      for (StructLike partition : partitions) {
        Object value = partition.get(place, Object.class);
        String where = manifest.path() + " partition field " + fields.get(place).name();
        if (value == null) {
          expect(summary.containsNull(), where, "has a null that its summary denies");
        } else if (isNaN(value)) {
          expect(summary.containsNaN() == null || summary.containsNaN(), where, "has a NaN that its summary denies");
        } else {
          within(where, type, summary.lowerBound(), summary.upperBound(), value);
        }
      }
    }
  }

  private static String key(ContentFile<?> file) {
    Long offset = file instanceof DeleteFile ? ((DeleteFile) file).contentOffset() : null;
    return offset == null ? file.location() : file.location() + " at " + offset;
  }

  private static String claims(ContentFile<?> file, PartitionSpec spec) {
    DeleteFile delete = file instanceof DeleteFile ? (DeleteFile) file : null;
    return file.content() + " " + file.format() + " spec " + file.specId() + " " + Values.text(spec.partitionType(), file.partition())
        + " rows " + file.recordCount() + " bytes " + file.fileSizeInBytes() + " seq " + file.dataSequenceNumber() + "/"
        + file.fileSequenceNumber() + " sizes " + sorted(file.columnSizes()) + " values " + sorted(file.valueCounts()) + " nulls "
        + sorted(file.nullValueCounts()) + " nans " + sorted(file.nanValueCounts()) + " lower " + bounds(file.lowerBounds()) + " upper "
        + bounds(file.upperBounds()) + " splits " + file.splitOffsets() + " equal " + file.equalityFieldIds() + " order "
        + file.sortOrderId() + " first row " + file.firstRowId()
        + (delete == null ? "" : " of " + delete.referencedDataFile() + " " + delete.contentOffset() + "+" + delete.contentSizeInBytes());
  }

  private static Object sorted(Map<Integer, Long> counts) {
    return counts == null || counts.isEmpty() ? "none" : new TreeMap<>(counts);
  }

  private static Object bounds(Map<Integer, ByteBuffer> bounds) {
    if (bounds == null || bounds.isEmpty()) {
      return "none";
    }
    Map<Integer, String> texts = new TreeMap<>();
    bounds.forEach((id, value) -> texts.put(id, Values.hex(value)));
    return texts;
  }

  private void file(ContentFile<?> file, PartitionSpec spec) throws Exception {
    checked += 1;
    String where = file.location();
    expect(Tables.IO.newInputFile(where).getLength() == file.fileSizeInBytes(), where, "another length than " + file.fileSizeInBytes());
    if (file.format() == FileFormat.PARQUET && file.splitOffsets() != null) {
      expect(rowGroups(where).equals(file.splitOffsets()), where, "split offsets " + file.splitOffsets() + " are no row groups");
    }
    if (file.content() == FileContent.DATA) {
      contents((DataFile) file, spec);
    }
  }

  private static List<Long> rowGroups(String location) throws Exception {
    try (ParquetFileReader reader = ParquetFileReader.open(HadoopInputFile.fromPath(new Path(location), Tables.HADOOP))) {
      return reader.getFooter().getBlocks().stream().map(BlockMetaData::getStartingPos).toList();
    }
  }

  private void contents(DataFile file, PartitionSpec spec) throws Exception {
    Schema schema = table.schema();
    InternalRecordWrapper wrapper = new InternalRecordWrapper(schema.asStruct());
    List<Column> columns = new ArrayList<>();
    TypeUtil.indexById(schema.asStruct()).forEach((id, field) -> {
      if (field.type().isPrimitiveType() && schema.accessorForField(id) != null) {
        columns.add(new Column(file, schema, field));
      }
    });
    SortOrder order = file.sortOrderId() == null ? null : table.sortOrders().get(file.sortOrderId());
    expect(file.sortOrderId() == null || order != null, file.location(), "sort order " + file.sortOrderId() + " is unknown");
    Comparator<StructLike> inOrder = order == null || order.isUnsorted() ? null : SortOrderComparators.forSchema(schema, order);
    long rows = 0;
    Record previous = null;
    try (CloseableIterable<Record> records =
        FormatModelRegistry.<Record, Object>readBuilder(file.format(), Record.class, Tables.IO.newInputFile(file.location()))
            .project(schema)
            .build()) {
      for (Record record : records) {
        rows += 1;
        StructLike row = wrapper.copyFor(record);
        columns.forEach(column -> column.see(row));
        partition(file, spec, schema, row);
        if (inOrder != null && previous != null) {
          expect(inOrder.compare(wrapper.copyFor(previous), row) <= 0, file.location(), "row " + (rows - 1) + " is out of order " + order);
        }
        previous = record;
      }
    }
    expect(rows == file.recordCount(), file.location(), "has " + rows + " rows and claims " + file.recordCount());
    for (Column column : columns) {
      column.check(rows);
    }
  }

  private void partition(DataFile file, PartitionSpec spec, Schema schema, StructLike row) {
    for (int place = 0; place < spec.fields().size(); place += 1) {
      PartitionField field = spec.fields().get(place);
      Accessor<StructLike> accessor = schema.accessorForField(field.sourceId());
      if (accessor == null) {
        continue;
      }
      Type type = schema.findType(field.sourceId());
      @SuppressWarnings("unchecked")
      Transform<Object, Object> transform = (Transform<Object, Object>) field.transform();
      Object made = transform.bind(type).apply(accessor.get(row));
      Object claimed = file.partition().get(place, Object.class);
      Type made_of = spec.partitionType().fields().get(place).type();
      expect(same(made_of, made, claimed), file.location(), "a row belongs in " + field.name() + "=" + made + ", not " + claimed);
    }
  }

  private static boolean same(Type type, Object left, Object right) {
    if (left == null || right == null) {
      return left == right;
    }
    if (left instanceof byte[]) {
      return same(type, ByteBuffer.wrap((byte[]) left), right);
    }
    return Comparators.forType(type.asPrimitiveType()).compare(left, right) == 0;
  }

  private static boolean isNaN(Object value) {
    return value instanceof Float ? ((Float) value).isNaN() : value instanceof Double && ((Double) value).isNaN();
  }

  private void within(String where, Type.PrimitiveType type, ByteBuffer lower, ByteBuffer upper, Object value) {
    Comparator<Object> comparator = type.typeId() == Type.TypeID.UUID ? BY_BYTES : Comparators.forType(type);
    if (lower != null) {
      expect(comparator.compare(Conversions.fromByteBuffer(type, lower), value) <= 0, where, value + " is below " + Values.hex(lower));
    }
    if (upper != null) {
      expect(comparator.compare(value, Conversions.fromByteBuffer(type, upper)) <= 0, where, value + " is above " + Values.hex(upper));
    }
  }

  /** One column, or field of structs, of one file. */
  private final class Column {
    private final DataFile file;
    private final Types.NestedField field;
    private final Accessor<StructLike> accessor;
    private final String where;
    private long nulls = 0;
    private long nans = 0;

    Column(DataFile file, Schema schema, Types.NestedField field) {
      this.file = file;
      this.field = field;
      this.accessor = schema.accessorForField(field.fieldId());
      this.where = file.location() + " column " + schema.findColumnName(field.fieldId());
    }

    void see(StructLike row) {
      Object value = accessor.get(row);
      if (value == null) {
        nulls += 1;
      } else if (isNaN(value)) {
        nans += 1;
      } else {
        within(where, field.type().asPrimitiveType(), bound(file.lowerBounds()), bound(file.upperBounds()), value);
      }
    }

    private ByteBuffer bound(Map<Integer, ByteBuffer> bounds) {
      return bounds == null ? null : bounds.get(field.fieldId());
    }

    void check(long rows) {
      count(file.valueCounts(), rows, "values");
      count(file.nullValueCounts(), nulls, "nulls");
      count(file.nanValueCounts(), nans, "NaNs");
    }

    private void count(Map<Integer, Long> counts, long seen, String what) {
      Long claimed = counts == null ? null : counts.get(field.fieldId());
      expect(claimed == null || claimed == seen, where, "has " + seen + " " + what + " and claims " + claimed);
    }
  }
}
