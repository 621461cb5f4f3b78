"""TableCatalog: where pointers live, where files are kept, and how both are reached."""

from typing import ClassVar

from pydantic import Field

from tableformat.catalogs import CatalogConfig, ConfigMapConfig, DynamoDbConfig, SqlConfig
from tablewright.api.objects import ApiModel, KubernetesResource

# The keys of a credentials Secret: what AWS' own tools read from the environment.
ACCESS_KEY, SECRET_KEY, SESSION_TOKEN = "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"
_FILE_IO_NAMES = {
    ACCESS_KEY: "s3.access-key-id",
    SECRET_KEY: "s3.secret-access-key",
    SESSION_TOKEN: "s3.session-token",
}


class SecretReference(ApiModel):
    name: str


class ConfigMapStore(ApiModel):
    pass


class DynamoDbStore(ApiModel):
    table_name: str = "iceberg"
    region: str | None = None
    endpoint: str | None = None
    create_table: bool = False


class SqlStore(ApiModel):
    uri: str


class Storage(ApiModel):
    endpoint: str | None = None
    region: str | None = None
    credentials_secret_ref: SecretReference | None = None


class JobDefaults(ApiModel):
    image: str | None = None
    service_account_name: str | None = None


class TableCatalogSpec(ApiModel):
    config_map: ConfigMapStore | None = None
    dynamo_db: DynamoDbStore | None = Field(default=None, alias="dynamoDB")
    sql: SqlStore | None = None
    warehouse: str
    storage: Storage = Storage()
    jobs: JobDefaults = JobDefaults()


class TableCatalog(KubernetesResource):
    kind_name: ClassVar[str] = "TableCatalog"
    plural: ClassVar[str] = "tablecatalogs"

    spec: TableCatalogSpec

    def config(self, credentials: dict[str, str], *, kubeconfig: str | None = None) -> CatalogConfig:
        """What the table library opens. Without credentials, the environment of whoever opens it supplies them."""
        name, spec, properties = self.metadata.name, self.spec, self._file_io_properties(credentials)
        if spec.dynamo_db is not None:
            return DynamoDbConfig(
                name=name,
                warehouse=spec.warehouse,
                table_name=spec.dynamo_db.table_name,
                region=spec.dynamo_db.region or spec.storage.region,
                endpoint=spec.dynamo_db.endpoint,
                create_table=spec.dynamo_db.create_table,
                properties=properties,
            )
        if spec.sql is not None:
            return SqlConfig(name=name, uri=spec.sql.uri, warehouse=spec.warehouse, properties=properties)
        return ConfigMapConfig(
            name=name,
            warehouse=spec.warehouse,
            namespace=self.metadata.namespace,
            kubeconfig=kubeconfig,
            properties=properties,
        )

    def _file_io_properties(self, credentials: dict[str, str]) -> dict[str, str]:
        storage = self.spec.storage
        properties = {_FILE_IO_NAMES[key]: value for key, value in credentials.items() if key in _FILE_IO_NAMES}
        if storage.endpoint:
            properties |= {"s3.endpoint": storage.endpoint, "s3.force-virtual-addressing": "false"}
        if storage.region:
            properties["s3.region"] = storage.region
        return properties
