import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.stream.Collectors;
import org.apache.iceberg.AppendFiles;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.ExpireSnapshots;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.ManageSnapshots;
import org.apache.iceberg.OverwriteFiles;
import org.apache.iceberg.PartitionField;
import org.apache.iceberg.ReplacePartitions;
import org.apache.iceberg.ReplaceSortOrder;
import org.apache.iceberg.Schema;
import org.apache.iceberg.SchemaParser;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SnapshotRef;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableProperties;
import org.apache.iceberg.UpdateProperties;
import org.apache.iceberg.UpdateSchema;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.expressions.Literal;
import org.apache.iceberg.expressions.Term;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.mapping.MappingUtil;
import org.apache.iceberg.mapping.NameMappingParser;
import org.apache.iceberg.types.Type;
import org.apache.iceberg.types.TypeUtil;
import org.apache.iceberg.types.Types;

/**
 * Makes a table from a list of steps, each of which says what to do and a seed for the rest.
 *
 * <p>A step that the table does not take (a delete in version 1, a column that is not there) is left out, with the reason in its note.
 * So every part of a list of steps is a list of steps, and a failure shrinks by leaving steps out.
 */
final class Steps {
  private final JsonNode request;
  private BaseTable table;

  private Steps(JsonNode request) {
    this.request = request;
    this.table = request.hasNonNull("metadata") ? Tables.open(request.get("metadata").asText()) : null;
  }

  /** {"location": of a new table, or "metadata": of one to go on with, "steps": […]} to {"metadata": …, "notes": […]}. */
  static JsonNode run(JsonNode request) {
    Steps steps = new Steps(request);
    ArrayNode notes = Reference.JSON.createArrayNode();
    for (JsonNode step : request.get("steps")) {
      try {
        notes.add(step.get("do").asText() + ": " + steps.take(step));
      } catch (Exception error) {
        notes.add(step.get("do").asText() + " left out: " + error);
        if (steps.table != null) {
          steps.table = Tables.open(Tables.metadataOf(steps.table));
        }
      }
    }
    String metadata = steps.table == null ? null : Tables.metadataOf(steps.table);
    return Reference.JSON.createObjectNode().put("metadata", metadata).set("notes", notes);
  }

  private String take(JsonNode step) throws Exception {
    Random random = new Random(step.path("seed").asLong());
    switch (step.get("do").asText()) {
      case "create":
        return create(step);
      case "append":
        return append(step);
      case "overwrite":
        return overwrite(step, random);
      case "drop files":
        return dropFiles(step, random);
      case "position deletes":
        return new Deletes(table, step).byPosition(random);
      case "equality deletes":
        return new Deletes(table, step).byEquality(random);
      case "evolve":
        return evolve(step, random);
      case "partition":
        return partition(step, random);
      case "order":
        return order(step, random);
      case "upgrade":
        table.updateProperties().set(TableProperties.FORMAT_VERSION, step.get("version").asText()).commit();
        return "to version " + step.get("version");
      case "property":
        return property(step);
      case "name mapping":
        table.updateProperties()
            .set(TableProperties.DEFAULT_NAME_MAPPING, NameMappingParser.toJson(MappingUtil.create(table.schema())))
            .commit();
        return "by the current schema";
      case "ref":
        return ref(step, random);
      case "rollback":
        return rollback(step, random);
      case "cherry-pick":
        return cherryPick(step, random);
      case "expire":
        return expire(step);
      case "statistics":
        return Statistics.put(table, random);
      default:
        throw new IllegalArgumentException("unknown step");
    }
  }

  private String create(JsonNode step) {
    Map<String, String> properties = new LinkedHashMap<>();
    properties.put(TableProperties.FORMAT_VERSION, step.get("version").asText());
    step.path("properties").fields().forEachRemaining(entry -> properties.put(entry.getKey(), placed(entry.getValue().asText())));
    table = Tables.create(SchemaParser.fromJson(step.get("schema")), request.get("location").asText(), properties);
    return table.schema().asStruct().toString();
  }

  /** Paths in properties are given as below the folder of the case. */
  private String placed(String value) {
    return value.replace("FOLDER", request.path("folder").asText());
  }

  private String property(JsonNode step) {
    UpdateProperties update = table.updateProperties();
    step.get("set").fields().forEachRemaining(entry -> update.set(entry.getKey(), placed(entry.getValue().asText())));
    update.commit();
    return step.get("set").toString();
  }

  private String append(JsonNode step) throws Exception {
    List<DataFile> files = new Files(table, step).rows();
    AppendFiles append = step.path("fast").asBoolean() ? table.newFastAppend() : table.newAppend();
    files.forEach(append::appendFile);
    if (step.hasNonNull("wap")) {
      append.set("wap.id", step.get("wap").asText()).stageOnly();
    } else {
      append.toBranch(Tables.text(step, "branch", SnapshotRef.MAIN_BRANCH));
    }
    append.commit();
    return files.size() + " files";
  }

  private String overwrite(JsonNode step, Random random) throws Exception {
    List<DataFile> files = new Files(table, step).rows();
    String branch = Tables.text(step, "branch", SnapshotRef.MAIN_BRANCH);
    if (step.path("partitions").asBoolean()) {
      ReplacePartitions replace = table.newReplacePartitions();
      files.forEach(replace::addFile);
      if (step.hasNonNull("wap")) {
        replace.set("wap.id", step.get("wap").asText()).stageOnly();
      } else {
        replace.toBranch(branch);
      }
      replace.commit();
      return "partitions of " + files.size() + " files";
    }
    OverwriteFiles overwrite = table.newOverwrite().toBranch(branch);
    List<FileScanTask> there = live(table, branch);
    for (FileScanTask task : there) {
      if (random.nextInt(3) == 0) {
        overwrite.deleteFile(task.file());
      }
    }
    files.forEach(overwrite::addFile);
    overwrite.commit();
    return "with " + files.size() + " files";
  }

  private String dropFiles(JsonNode step, Random random) throws Exception {
    String branch = Tables.text(step, "branch", SnapshotRef.MAIN_BRANCH);
    List<FileScanTask> there = live(table, branch);
    DataFile file = there.get(random.nextInt(there.size())).file();
    table.newDelete().deleteFile(file).toBranch(branch).commit();
    return file.location();
  }

  static List<FileScanTask> live(BaseTable table, String branch) throws Exception {
    List<FileScanTask> tasks = new ArrayList<>();
    if (table.snapshot(branch) != null) {
      try (CloseableIterable<FileScanTask> planned = table.newScan().useRef(branch).planFiles()) {
        planned.forEach(tasks::add);
      }
    }
    tasks.sort(java.util.Comparator.comparing(task -> task.file().location()));
    return tasks;
  }

  private String evolve(JsonNode step, Random random) {
    UpdateSchema update = table.updateSchema();
    List<String> names = new ArrayList<>(TypeUtil.indexByName(table.schema().asStruct()).keySet());
    names.sort(null);
    String name = names.get(random.nextInt(names.size()));
    Types.NestedField field = table.schema().findField(name);
    String change = step.get("change").asText();
    switch (change) {
      case "add":
        List<String> parents =
            names.stream().filter(each -> table.schema().findType(each).isStructType()).collect(Collectors.toList());
        String parent = parents.isEmpty() || random.nextBoolean() ? null : parents.get(random.nextInt(parents.size()));
        add(update, parent, step, random);
        change += parent == null ? " at the top" : " to " + parent;
        break;
      case "drop":
        update.deleteColumn(name);
        break;
      case "rename":
        update.renameColumn(name, step.get("name").asText());
        break;
      case "widen":
        List<String> narrow = names.stream().filter(each -> wider(table.schema().findType(each)) != null).collect(Collectors.toList());
        name = narrow.get(random.nextInt(narrow.size()));
        update.updateColumn(name, wider(table.schema().findType(name)));
        break;
      case "optional":
        List<String> required = names.stream().filter(each -> table.schema().findField(each).isRequired()).collect(Collectors.toList());
        name = required.get(random.nextInt(required.size()));
        update.makeColumnOptional(name);
        break;
      case "first":
        update.moveFirst(name);
        break;
      case "require":
        update.allowIncompatibleChanges().requireColumn(name);
        break;
      default:
        throw new IllegalArgumentException("unknown change " + field);
    }
    update.commit();
    return change + " " + name;
  }

  private static void add(UpdateSchema update, String parent, JsonNode step, Random random) {
    Schema made = SchemaParser.fromJson(step.get("column"));
    Types.NestedField column = made.columns().get(0);
    Literal<?> defaultValue = column.initialDefaultLiteral();
    if (column.isRequired()) {
      update.allowIncompatibleChanges().addRequiredColumn(parent, column.name(), column.type(), null, defaultValue);
    } else {
      update.addColumn(parent, column.name(), column.type(), null, defaultValue);
    }
  }

  private static Type.PrimitiveType wider(Type type) {
    switch (type.typeId()) {
      case INTEGER:
        return Types.LongType.get();
      case FLOAT:
        return Types.DoubleType.get();
      case DECIMAL:
        Types.DecimalType decimal = (Types.DecimalType) type;
        int precision = decimal.precision() <= 9 ? 12 : decimal.precision() <= 18 ? 25 : 38;
        return precision > decimal.precision() ? Types.DecimalType.of(precision, decimal.scale()) : null;
      default:
        return null;
    }
  }

  private String partition(JsonNode step, Random random) {
    if (step.path("remove").asBoolean()) {
      List<PartitionField> fields =
          table.spec().fields().stream().filter(field -> !field.transform().isVoid()).collect(Collectors.toList());
      PartitionField field = fields.get(random.nextInt(fields.size()));
      table.updateSpec().removeField(field.name()).commit();
      return "without " + field.name();
    }
    Term term = term(step.get("transform").asText(), Tables.text(step, "column", null), random);
    table.updateSpec().addField(term).commit();
    return table.spec().toString();
  }

  /** By the column that is named, or any other one that there is. */
  private Term term(String transform, String column, Random random) {
    String name = column;
    if (name == null || table.schema().findField(name) == null) {
      List<String> names = new ArrayList<>();
      TypeUtil.indexByName(table.schema().asStruct()).forEach((each, id) -> {
        if (table.schema().findType(id).isPrimitiveType() && table.schema().accessorForField(id) != null) {
          names.add(each);
        }
      });
      names.sort(null);
      name = names.get(random.nextInt(names.size()));
    }
    switch (transform) {
      case "identity":
        return Expressions.ref(name);
      case "bucket":
        return Expressions.bucket(name, 1 + random.nextInt(4));
      case "truncate":
        return Expressions.truncate(name, Values.pick(random, 1, 2, 10));
      case "year":
        return Expressions.year(name);
      case "month":
        return Expressions.month(name);
      case "day":
        return Expressions.day(name);
      default:
        return Expressions.hour(name);
    }
  }

  private String order(JsonNode step, Random random) {
    ReplaceSortOrder order = table.replaceSortOrder();
    for (JsonNode transform : step.get("by")) {
      Term term = term(transform.asText(), null, random);
      org.apache.iceberg.NullOrder nulls = Values.pick(random, org.apache.iceberg.NullOrder.values());
      if (random.nextBoolean()) {
        order.asc(term, nulls);
      } else {
        order.desc(term, nulls);
      }
    }
    order.commit();
    return table.sortOrder().toString();
  }

  private String ref(JsonNode step, Random random) {
    List<Snapshot> snapshots = new ArrayList<>();
    table.snapshots().forEach(snapshots::add);
    long id = snapshots.get(random.nextInt(snapshots.size())).snapshotId();
    String name = step.get("name").asText();
    ManageSnapshots manage = table.manageSnapshots();
    if (step.path("tag").asBoolean()) {
      manage.createTag(name, id);
    } else {
      manage.createBranch(name, id);
      if (step.hasNonNull("keep")) {
        manage.setMinSnapshotsToKeep(name, step.get("keep").asInt());
      }
      if (step.hasNonNull("snapshotAge")) {
        manage.setMaxSnapshotAgeMs(name, step.get("snapshotAge").asLong());
      }
    }
    if (step.hasNonNull("age")) {
      manage.setMaxRefAgeMs(name, step.get("age").asLong());
    }
    manage.commit();
    return name + " at " + id;
  }

  private String rollback(JsonNode step, Random random) {
    List<Long> ancestors = org.apache.iceberg.util.SnapshotUtil.currentAncestorIds(table);
    long id = step.path("snapshot").asLong(ancestors.get(random.nextInt(ancestors.size())));
    table.manageSnapshots().setCurrentSnapshot(id).commit();
    return "to " + id;
  }

  private String cherryPick(JsonNode step, Random random) {
    List<Snapshot> staged = new ArrayList<>();
    table.snapshots().forEach(snapshot -> {
      if (snapshot.summary().containsKey("wap.id")) {
        staged.add(snapshot);
      }
    });
    long id = step.path("snapshot").asLong(staged.get(random.nextInt(staged.size())).snapshotId());
    table.manageSnapshots().cherrypick(id).commit();
    return "of " + id;
  }

  private String expire(JsonNode step) {
    ExpireSnapshots expire = table.expireSnapshots().cleanExpiredFiles(step.path("clean").asBoolean());
    expire.expireOlderThan(step.path("before").asLong(System.currentTimeMillis() + 1000));
    if (step.hasNonNull("keep")) {
      expire.retainLast(step.get("keep").asInt());
    }
    expire.commit();
    return "down to " + step.get("keep");
  }

  static int version(BaseTable table) {
    TableMetadata metadata = table.operations().current();
    return metadata.formatVersion();
  }
}
