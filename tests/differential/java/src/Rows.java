import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.math.BigInteger;
import java.security.MessageDigest;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Predicate;
import org.apache.iceberg.Accessor;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.MetadataColumns;
import org.apache.iceberg.Schema;
import org.apache.iceberg.SnapshotRef;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.StructLike;
import org.apache.iceberg.TableScan;
import org.apache.iceberg.data.GenericDeleteFilter;
import org.apache.iceberg.data.IdentityPartitionConverters;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.formats.FormatModelRegistry;
import org.apache.iceberg.formats.ReadBuilder;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.types.Type;
import org.apache.iceberg.types.TypeUtil;
import org.apache.iceberg.types.Types;
import org.apache.iceberg.util.PartitionUtil;

/**
 * The rows of refs and snapshots as the generic reader sees them; in version 3 with row ids and the numbers of last updates.
 *
 * <p>Rows of a table are a multiset: its digest is the sum of the digests of its rows, so that no order matters and a case costs no
 * more than reading. The texts themselves are returned only where they are asked for.
 */
final class Rows {
  private Rows() {}

  /**
   * {"metadata": …, "full": whether texts are wanted, "only": [keys], "young": {"column": …, "from": …}} to {"ref main": {…},
   * "snapshot 123": {…}}. With "young", rows whose value in the column is less are left out.
   */
  static JsonNode read(JsonNode request) {
    BaseTable table = Tables.open(request.get("metadata").asText());
    boolean full = request.path("full").asBoolean();
    ObjectNode answer = Reference.JSON.createObjectNode();
    for (Map.Entry<String, SnapshotRef> ref : table.refs().entrySet()) {
      String key = "ref " + ref.getKey();
      if (wanted(request, key)) {
        answer.set(key, contents(table, table.newScan().useRef(ref.getKey()), full, young(request, table)));
      }
    }
    for (Snapshot snapshot : table.snapshots()) {
      String key = "snapshot " + snapshot.snapshotId();
      if (wanted(request, key)) {
        answer.set(key, contents(table, table.newScan().useSnapshot(snapshot.snapshotId()), full, record -> true));
      }
    }
    return answer;
  }

  private static boolean wanted(JsonNode request, String key) {
    if (!request.hasNonNull("only")) {
      return true;
    }
    for (JsonNode each : request.get("only")) {
      if (each.asText().equals(key)) {
        return true;
      }
    }
    return false;
  }

  /** Which records of the current schema are young enough. */
  @SuppressWarnings({"unchecked", "rawtypes"})
  private static Predicate<Record> young(JsonNode request, BaseTable table) {
    if (!request.hasNonNull("young")) {
      return record -> true;
    }
    Types.NestedField field = table.schema().findField(request.get("young").get("column").asText());
    String text = request.get("young").get("from").asText();
    Accessor<StructLike> accessor = table.schema().accessorForField(field.fieldId());
    Comparable from =
        field.type().typeId() == Type.TypeID.DATE
            ? LocalDate.parse(text)
            : field.type().equals(Types.TimestampType.withZone()) ? OffsetDateTime.parse(text) : LocalDateTime.parse(text);
    return record -> accessor.get(record) == null || from.compareTo(accessor.get(record)) <= 0;
  }

  private static ObjectNode contents(BaseTable table, TableScan scan, boolean full, Predicate<Record> wanted) {
    ObjectNode answer = Reference.JSON.createObjectNode();
    Sum rows = new Sum();
    Sum lineage = new Sum();
    List<String> texts = new ArrayList<>();
    long count = 0;
    long anonymous = 0;
    boolean hasLineage = Steps.version(table) >= 3;
    try (CloseableIterable<FileScanTask> tasks = scan.project(hasLineage ? withLineage(scan.schema()) : scan.schema()).planFiles()) {
      for (FileScanTask task : tasks) {
        for (Row row : seen(table, task, scan.schema(), hasLineage)) {
          if (!wanted.test(row.record)) {
            continue;
          }
          count += 1;
          anonymous += row.lineage.startsWith("null@") ? 1 : 0;
          rows.add(row.text);
          lineage.add(row.lineage + row.text);
          if (full) {
            texts.add(row.lineage + row.text);
          }
        }
      }
    } catch (Exception | StackOverflowError error) {
      return answer.put("error", error.getClass().getName() + ": " + error.getMessage()).put("trace", trace(error));
    }
    answer.put("count", count).put("without_id", anonymous).put("rows", rows.text()).put("lineage", lineage.text());
    if (full) {
      texts.sort(null);
      answer.set("texts", Reference.JSON.valueToTree(texts));
    }
    return answer;
  }

  private record Row(Record record, String lineage, String text) {}

  private static final int MOST_SEEN = 2000;
  private static final Map<String, List<Row>> SEEN =
      new LinkedHashMap<>(16, 0.75f, true) {
        @Override
        protected boolean removeEldestEntry(Map.Entry<String, List<Row>> eldest) {
          return size() > MOST_SEEN;
        }
      };

  /** Snapshots share most of their files, which never change: each is read once with the same deletes, and then has to be there. */
  private static List<Row> seen(BaseTable table, FileScanTask task, Schema schema, boolean hasLineage) throws Exception {
    StringBuilder key = new StringBuilder();
    key.append(schema).append(table.schema()).append(Tables.nameMapping(table)).append(hasLineage).append(task.spec());
    key.append(task.file().location()).append(task.file().partition()).append(task.file().firstRowId());
    key.append(task.file().dataSequenceNumber()).append(' ').append(task.start()).append('+').append(task.length());
    boolean isThere = Tables.IO.newInputFile(task.file().location()).exists();
    for (DeleteFile delete : task.deletes()) {
      key.append(delete.location()).append(delete.contentOffset()).append(delete.equalityFieldIds());
      isThere &= Tables.IO.newInputFile(delete.location()).exists();
    }
    List<Row> rows = isThere ? SEEN.get(key.toString()) : null;
    if (rows == null) {
      rows = new ArrayList<>();
      int columns = schema.columns().size();
      for (Record record : records(table, task, hasLineage ? withLineage(schema) : schema)) {
        String lineage = hasLineage ? record.get(columns, Object.class) + "@" + record.get(columns + 1, Object.class) + " " : "";
        rows.add(new Row(record, lineage, Values.text(schema.asStruct(), record)));
      }
      SEEN.put(key.toString(), rows);
    }
    return rows;
  }

  private static String trace(Throwable error) {
    java.io.StringWriter to = new java.io.StringWriter();
    error.printStackTrace(new java.io.PrintWriter(to));
    return to.toString();
  }

  static Schema withLineage(Schema schema) {
    return TypeUtil.join(schema, new Schema(MetadataColumns.ROW_ID, MetadataColumns.LAST_UPDATED_SEQUENCE_NUMBER));
  }

  static List<Record> records(BaseTable table, TableScan scan) throws Exception {
    List<Record> records = new ArrayList<>();
    try (CloseableIterable<FileScanTask> tasks = scan.planFiles()) {
      for (FileScanTask task : tasks) {
        records.addAll(records(table, task, scan.schema()));
      }
    }
    return records;
  }

  /** As Iceberg's own GenericReader, which applies no name mapping: readers of engines do. */
  private static List<Record> records(BaseTable table, FileScanTask task, Schema projection) throws Exception {
    List<Record> records = new ArrayList<>();
    GenericDeleteFilter deletes = new GenericDeleteFilter(Tables.IO, task, table.schema(), projection);
    try (CloseableIterable<Record> kept = deletes.filter(file(table, task, deletes.requiredSchema()))) {
      kept.forEach(records::add);
    }
    return records;
  }

  private static CloseableIterable<Record> file(BaseTable table, FileScanTask task, Schema schema) {
    ReadBuilder<Record, ?> builder =
        FormatModelRegistry.readBuilder(task.file().format(), Record.class, Tables.IO.newInputFile(task.file().location()));
    builder = builder.project(schema).idToConstant(PartitionUtil.constantsMap(task, IdentityPartitionConverters::convertConstant));
    builder = builder.split(task.start(), task.length()).caseSensitive(true);
    if (Tables.nameMapping(table) != null) {
      builder = builder.withNameMapping(Tables.nameMapping(table));
    }
    return builder.build();
  }

  private static final class Sum {
    private final MessageDigest digest;
    private BigInteger total = BigInteger.ZERO;

    Sum() {
      try {
        digest = MessageDigest.getInstance("MD5");
      } catch (java.security.NoSuchAlgorithmException error) {
        throw new IllegalStateException(error);
      }
    }

    void add(String text) {
      total = total.add(new BigInteger(1, digest.digest(Values.utf8(text))));
    }

    String text() {
      return total.toString(36);
    }
  }
}
