import com.fasterxml.jackson.databind.JsonNode;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.BaseMetastoreTableOperations;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.Schema;
import org.apache.iceberg.SortOrder;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableProperties;
import org.apache.iceberg.hadoop.HadoopFileIO;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.mapping.NameMapping;
import org.apache.iceberg.mapping.NameMappingParser;

/** Tables on local disk that no catalog knows: whoever asks names a metadata file, and is told the next one. */
final class Tables {
  static final Configuration HADOOP = new Configuration();
  static final FileIO IO;

  static {
    HADOOP.set("fs.file.impl", "org.apache.hadoop.fs.RawLocalFileSystem"); // without a checksum file beside each file
    HADOOP.setBoolean("fs.file.impl.disable.cache", false);
    IO = new HadoopFileIO(HADOOP);
  }

  private Tables() {}

  static BaseTable open(String metadata) {
    return new BaseTable(new Operations(metadata), "t");
  }

  static BaseTable create(Schema schema, String location, Map<String, String> properties) {
    Operations operations = new Operations(null);
    TableMetadata metadata =
        TableMetadata.newTableMetadata(schema, PartitionSpec.unpartitioned(), SortOrder.unsorted(), location, properties);
    operations.commit(null, metadata);
    return new BaseTable(operations, "t");
  }

  static String metadataOf(BaseTable table) {
    return table.operations().current().metadataFileLocation();
  }

  static NameMapping nameMapping(BaseTable table) {
    String mapping = table.properties().get(TableProperties.DEFAULT_NAME_MAPPING);
    return mapping == null ? null : NameMappingParser.fromJson(mapping);
  }

  static String text(JsonNode node, String name, String otherwise) {
    return node.hasNonNull(name) ? node.get(name).asText() : otherwise;
  }

  private static final class Operations extends BaseMetastoreTableOperations {
    private String location;

    Operations(String location) {
      this.location = location;
      if (location == null) {
        disableRefresh();
      }
    }

    @Override
    protected void doRefresh() {
      if (location == null) {
        disableRefresh();
      } else {
        refreshFromMetadataLocation(location, 0);
      }
    }

    @Override
    protected void doCommit(TableMetadata base, TableMetadata metadata) {
      location = writeNewMetadataIfRequired(base == null, metadata);
    }

    @Override
    public FileIO io() {
      return IO;
    }

    @Override
    protected String tableName() {
      return "t";
    }
  }
}
