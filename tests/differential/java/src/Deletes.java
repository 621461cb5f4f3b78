import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeSet;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileContent;
import org.apache.iceberg.FileFormat;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.RowDelta;
import org.apache.iceberg.Schema;
import org.apache.iceberg.SnapshotRef;
import org.apache.iceberg.StructLike;
import org.apache.iceberg.data.BaseDeleteLoader;
import org.apache.iceberg.data.GenericFileWriterFactory;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.deletes.BaseDVFileWriter;
import org.apache.iceberg.deletes.EqualityDeleteWriter;
import org.apache.iceberg.deletes.PositionDelete;
import org.apache.iceberg.deletes.PositionDeleteIndex;
import org.apache.iceberg.deletes.PositionDeleteWriter;
import org.apache.iceberg.io.OutputFileFactory;
import org.apache.iceberg.types.TypeUtil;
import org.apache.iceberg.util.Pair;
import org.apache.iceberg.util.StructLikeUtil;

/** Row deltas of a step: deletes by position, as vectors in version 3, and by equality. */
final class Deletes {
  private final BaseTable table;
  private final JsonNode step;
  private final String branch;
  private final FileFormat format;

  Deletes(BaseTable table, JsonNode step) {
    this.table = table;
    this.step = step;
    this.branch = Tables.text(step, "branch", SnapshotRef.MAIN_BRANCH);
    this.format = FileFormat.fromString(Tables.text(step, "format", "parquet"));
  }

  String byPosition(Random random) throws Exception {
    List<FileScanTask> tasks = Steps.live(table, branch);
    Map<String, TreeSet<Long>> positions = new LinkedHashMap<>();
    Map<String, FileScanTask> byPath = new LinkedHashMap<>();
    int left = step.path("rows").asInt(5);
    for (; left > 0 && !tasks.isEmpty(); left -= 1) {
      FileScanTask task = tasks.get(random.nextInt(tasks.size()));
      if (task.file().recordCount() > 0) {
        byPath.put(task.file().location(), task);
        long position = (long) (random.nextDouble() * task.file().recordCount());
        positions.computeIfAbsent(task.file().location(), any -> new TreeSet<>()).add(position);
      }
    }
    RowDelta delta = table.newRowDelta().toBranch(branch);
    List<DeleteFile> files = Steps.version(table) >= 3 ? vectors(positions, byPath, delta) : positionDeletes(positions, byPath);
    files.forEach(delta::addDeletes);
    delta.commit();
    return positions + " in " + files.size() + " files";
  }

  private List<DeleteFile> vectors(Map<String, TreeSet<Long>> positions, Map<String, FileScanTask> tasks, RowDelta delta)
      throws Exception {
    OutputFileFactory outputs = OutputFileFactory.builderFor(table, 1, 1).format(FileFormat.PUFFIN).build();
    BaseDVFileWriter writer = new BaseDVFileWriter(outputs, path -> previous(tasks.get(path)));
    for (Map.Entry<String, TreeSet<Long>> entry : positions.entrySet()) {
      FileScanTask task = tasks.get(entry.getKey());
      for (long position : entry.getValue()) {
        writer.delete(entry.getKey(), position, task.spec(), task.file().partition());
      }
    }
    writer.close();
    writer.result().rewrittenDeleteFiles().forEach(delta::removeDeletes);
    return writer.result().deleteFiles();
  }

  private static PositionDeleteIndex previous(FileScanTask task) {
    List<DeleteFile> deletes = new ArrayList<>();
    for (DeleteFile delete : task.deletes()) {
      if (delete.content() == FileContent.POSITION_DELETES) {
        deletes.add(delete);
      }
    }
    BaseDeleteLoader loader = new BaseDeleteLoader(delete -> Tables.IO.newInputFile(delete.location()));
    return deletes.isEmpty() ? null : loader.loadPositionDeletes(deletes, task.file().location());
  }

  /** One file for each data file, or one for each partition. */
  private List<DeleteFile> positionDeletes(Map<String, TreeSet<Long>> positions, Map<String, FileScanTask> tasks) throws Exception {
    Map<Object, List<String>> groups = new LinkedHashMap<>();
    Map<Object, FileScanTask> places = new HashMap<>();
    for (String path : new TreeSet<>(positions.keySet())) {
      FileScanTask task = tasks.get(path);
      Object key = step.path("scoped").asBoolean() ? path : Pair.of(task.spec().specId(), task.file().partition().toString());
      groups.computeIfAbsent(key, any -> new ArrayList<>()).add(path);
      places.putIfAbsent(key, task);
    }
    List<DeleteFile> files = new ArrayList<>();
    for (Map.Entry<Object, List<String>> group : groups.entrySet()) {
      FileScanTask place = places.get(group.getKey());
      StructLike partition = place.spec().isUnpartitioned() ? null : place.file().partition();
      PositionDeleteWriter<Record> writer =
          new GenericFileWriterFactory.Builder(table)
              .deleteFileFormat(format)
              .build()
              .newPositionDeleteWriter(Files.output(table, format, place.spec(), partition), place.spec(), partition);
      PositionDelete<Record> delete = PositionDelete.create();
      try (writer) {
        for (String path : group.getValue()) {
          positions.get(path).forEach(position -> writer.write(delete.set(path, position)));
        }
      }
      files.add(writer.toDeleteFile());
    }
    return files;
  }

  String byEquality(Random random) throws Exception {
    Schema keys = keys(random);
    int[] ids = step.path("reversed").asBoolean() ? leaves(keys).stream().sorted(Collections.reverseOrder()).mapToInt(id -> id).toArray()
        : leaves(keys).stream().mapToInt(id -> id).toArray();
    List<Record> deleted = new ArrayList<>();
    List<Record> there = table.snapshot(branch) == null ? List.of() : Rows.records(table, table.newScan().useRef(branch).project(keys));
    for (int number = step.path("rows").asInt(3); number > 0; number -= 1) {
      boolean isThere = !there.isEmpty() && random.nextInt(4) > 0;
      deleted.add(isThere ? there.get(random.nextInt(there.size())) : Values.row(keys.asStruct(), random.nextLong(), number));
    }
    List<FileScanTask> tasks = Steps.live(table, branch);
    PartitionSpec spec = table.spec();
    StructLike partition = null;
    for (PartitionSpec each : table.specs().values()) {
      if (each.isUnpartitioned() && random.nextBoolean()) {
        spec = each; // applies to all partitions
      }
    }
    if (!spec.isUnpartitioned()) {
      FileScanTask task = tasks.get(random.nextInt(tasks.size()));
      spec = task.spec();
      partition = spec.isUnpartitioned() ? null : StructLikeUtil.copy(task.file().partition());
    }
    EqualityDeleteWriter<Record> writer =
        new GenericFileWriterFactory.Builder(table)
            .deleteFileFormat(format)
            .equalityFieldIds(ids)
            .equalityDeleteRowSchema(keys)
            .build()
            .newEqualityDeleteWriter(Files.output(table, format, spec, partition), spec, partition);
    try (writer) {
      deleted.forEach(writer::write);
    }
    RowDelta delta = table.newRowDelta().toBranch(branch).addDeletes(writer.toDeleteFile());
    if (step.path("upsert").asInt() > 0) {
      new Files(table, ((com.fasterxml.jackson.databind.node.ObjectNode) step.deepCopy()).put("rows", step.get("upsert").asInt()))
          .rows()
          .forEach(delta::addRows);
    }
    delta.commit();
    return keys.asStruct() + " in " + spec.specId() + " " + partition;
  }

  /** Some of the columns, and fields of structs, that have a value or none in each row. */
  private Schema keys(Random random) {
    List<Integer> fields = new ArrayList<>();
    TypeUtil.indexById(table.schema().asStruct()).forEach((id, field) -> {
      if (field.type().isPrimitiveType() && table.schema().accessorForField(id) != null) {
        fields.add(id);
      }
    });
    Collections.sort(fields);
    List<Integer> nested = new ArrayList<>(fields);
    nested.removeIf(id -> table.schema().columns().stream().anyMatch(column -> column.fieldId() == id));
    Set<Integer> chosen = new TreeSet<>();
    for (int number = step.path("keys").asInt(1); number > 0; number -= 1) {
      List<Integer> from = step.path("nested").asBoolean() && !nested.isEmpty() ? nested : fields;
      chosen.add(from.get(random.nextInt(from.size())));
    }
    return TypeUtil.select(table.schema(), chosen);
  }

  private static Set<Integer> leaves(Schema keys) {
    Set<Integer> ids = new TreeSet<>();
    TypeUtil.indexById(keys.asStruct()).forEach((id, field) -> {
      if (field.type().isPrimitiveType()) {
        ids.add(id);
      }
    });
    return ids;
  }
}
