"""TableCatalog: where pointers live, where files are kept, and how both are reached."""

from typing import Annotated, Any, ClassVar, Self
from urllib.parse import quote

from pydantic import Field, model_validator

from tableformat.catalogs import CatalogConfig, ConfigMapConfig, DynamoDbConfig, PyIcebergConfig, SqlConfig
from tableformat.catalogs.config import password_variable
from tablewright.api.conditions import Condition
from tablewright.api.jobs import JobFields, Variable
from tablewright.api.objects import ApiModel, KubernetesResource, StatusModel
from tablewright.api.policy import MaintenanceDefaults, leaves
from tablewright.api.texts import ObjectName, Region, StorageLocation, WebAddress, Written

# The keys of a credentials Secret: what AWS' own tools read from the environment.
ACCESS_KEY, SECRET_KEY, SESSION_TOKEN = "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"
# The keys of a REST catalog's Secret, and the PyIceberg properties that they stand for.
REST_CREDENTIALS = {"ICEBERG_CREDENTIAL": "credential", "ICEBERG_TOKEN": "token"}
_FILE_IO_NAMES = {
    ACCESS_KEY: "s3.access-key-id",
    SECRET_KEY: "s3.secret-access-key",
    SESSION_TOKEN: "s3.session-token",
}
_GLUE_NAMES = {
    ACCESS_KEY: "glue.access-key-id",
    SECRET_KEY: "glue.secret-access-key",
    SESSION_TOKEN: "glue.session-token",
}
_DYNAMODB_NAMES = {
    ACCESS_KEY: "dynamodb.access-key-id",
    SECRET_KEY: "dynamodb.secret-access-key",
    SESSION_TOKEN: "dynamodb.session-token",
}


class SecretReference(ApiModel):
    name: ObjectName


class ConfigMapStore(ApiModel):
    pass


DynamoDbTableName = Annotated[
    str,
    Written(
        r"^[a-zA-Z0-9_.-]+$",
        255,
        "a DynamoDB table name",
        "3 or more letters, digits, _, . and -, for example iceberg",
        shortest=3,
    ),
]


class DynamoDbStore(ApiModel):
    table_name: DynamoDbTableName = "iceberg"
    region: Region | None = None
    endpoint: WebAddress | None = None
    create_table: bool = False


class RestStore(ApiModel):
    uri: WebAddress
    warehouse: str | None = Field(default=None, min_length=1, max_length=1024)
    credentials_secret_ref: SecretReference | None = None


class GlueStore(ApiModel):
    catalog_id: str | None = Field(default=None, min_length=1, max_length=255)
    region: Region | None = None
    endpoint: WebAddress | None = None


class HiveStore(ApiModel):
    uri: Annotated[
        str,
        Written(
            r"^thrift://[^\s/@,]+(,thrift://[^\s/@,]+)*$",
            1024,
            "a Hive metastore address",
            "one such as thrift://host:9083, or several with commas between them",
        ),
    ]


class SqlStore(ApiModel):
    uri: Annotated[
        str,
        Written(
            r"^[a-z0-9+]+://(/[^\x00-\x1f\x7f]*|([^\s:@/]*@)?[^\s@/]*(/[^\x00-\x1f\x7f@]*)?)$",
            1024,
            "a database address without a password",
            "one such as postgresql+psycopg2://user@host/database",
            shortest=1,
            is_secret=True,
        ),
    ]
    catalog_name: (
        Annotated[
            str,
            Written(
                r"^[^\x00-\x1f\x7f]+$",
                253,
                "a catalog name",
                "one without control characters, for example prod_lake",
                shortest=1,
            ),
        ]
        | None
    ) = None


class Storage(ApiModel):
    endpoint: WebAddress | None = None
    region: Region | None = None
    credentials_secret_ref: SecretReference | None = None


class TableCatalogSpec(ApiModel):
    config_map: ConfigMapStore | None = None
    dynamo_db: DynamoDbStore | None = Field(default=None, alias="dynamoDB")
    rest: RestStore | None = None
    glue: GlueStore | None = None
    hive: HiveStore | None = None
    sql: SqlStore | None = None
    warehouse: StorageLocation | None = None
    storage: Storage = Storage()
    max_concurrent_runs: int = Field(default=5, ge=1, le=1000)
    maintenance: MaintenanceDefaults = MaintenanceDefaults()
    jobs: JobFields = JobFields()
    suspend: bool = False

    @model_validator(mode="after")
    def _is_one_kind_of_catalog(self) -> Self:
        if len(self._types()) != 1:
            raise ValueError("name exactly one kind of catalog: configMap, dynamoDB, rest, glue, hive or sql")
        if (self.rest is None) != (self.warehouse is not None):
            raise ValueError(
                "give warehouse with every kind of catalog but rest, whose server says itself where files are kept"
            )
        return self

    @property
    def type(self) -> str:
        """The field that says where pointers live."""
        return self._types()[0]

    def _types(self) -> list[str]:
        stores = {
            "configMap": self.config_map,
            "dynamoDB": self.dynamo_db,
            "rest": self.rest,
            "glue": self.glue,
            "hive": self.hive,
            "sql": self.sql,
        }
        return [name for name, store in stores.items() if store is not None]

    def said(self) -> dict[str, Any]:
        """What the catalog says of its tables' maintenance, as dotted names and values."""
        said = leaves(self.maintenance, MaintenanceDefaults) | leaves(self.jobs, JobFields, "jobs.")
        return said | ({"suspend": True} if self.suspend else {})


class TableCatalogStatus(StatusModel):
    observed_generation: int = -1
    conditions: tuple[Condition, ...] = Field(default=(), max_length=16)


class TableCatalog(KubernetesResource):
    kind_name: ClassVar[str] = "TableCatalog"
    plural: ClassVar[str] = "tablecatalogs"

    spec: TableCatalogSpec
    status: TableCatalogStatus = TableCatalogStatus()

    @model_validator(mode="after")
    def _jobs_find_its_credentials(self) -> Self:
        if self.spec.rest is not None and "." in self.metadata.name:
            raise ValueError("the name of a REST catalog has no dots: its jobs find their credentials by it")
        password = self.database_password
        if password is not None and password.value_from is not None and password.value_from.secret_key_ref is None:
            raise ValueError(f"spec.jobs.env[{password.name}]: a password is kept in a Secret: use secretKeyRef")
        return self

    def config(self, credentials: dict[str, str], *, kubeconfig: str | None = None) -> CatalogConfig:
        """What the table library opens. Without credentials, the environment of whoever opens it supplies them."""
        name, spec = self.metadata.name, self.spec
        properties, warehouse = self._file_io_properties(credentials), spec.warehouse or ""
        if spec.dynamo_db is not None:
            return DynamoDbConfig(
                name=name,
                warehouse=warehouse,
                table_name=spec.dynamo_db.table_name,
                region=spec.dynamo_db.region or spec.storage.region,
                endpoint=spec.dynamo_db.endpoint,
                create_table=spec.dynamo_db.create_table,
                properties=properties
                | {_DYNAMODB_NAMES[key]: value for key, value in credentials.items() if key in _DYNAMODB_NAMES},
            )
        if spec.sql is not None:
            # The database knows its tables by their catalog's name, which may be none to Kubernetes.
            own, password = spec.sql.catalog_name or name, credentials.get(password_variable(spec.sql.uri) or "")
            uri = spec.sql.uri if password is None else _with_password(spec.sql.uri, password)
            return SqlConfig(name=own, uri=uri, warehouse=warehouse, properties=properties)
        if spec.config_map is not None:
            return ConfigMapConfig(
                name=name,
                warehouse=warehouse,
                namespace=self.metadata.namespace,
                kubeconfig=kubeconfig,
                properties=properties,
            )
        return PyIcebergConfig(name=name, properties=properties | self._pyiceberg_properties(credentials))

    @property
    def database_password(self) -> Variable | None:
        """The variable of spec.jobs.env that has the password of a SQL catalog's database, if one has."""
        variable = None if self.spec.sql is None else password_variable(self.spec.sql.uri)
        return next((each for each in self.spec.jobs.env or () if each.name == variable), None)

    @property
    def secret_references(self) -> list[tuple[str, SecretReference]]:
        """The Secrets that it takes to open the catalog, each with the field that names it."""
        found = [("spec.storage.credentialsSecretRef", self.spec.storage.credentials_secret_ref)]
        if self.spec.rest is not None:
            found.append(("spec.rest.credentialsSecretRef", self.spec.rest.credentials_secret_ref))
        return [(field, reference) for field, reference in found if reference is not None]

    @property
    def secret_names(self) -> set[str]:
        """The Secrets that it takes to open the catalog."""
        password = self.database_password
        source = None if password is None or password.value_from is None else password.value_from.secret_key_ref
        names = {reference.name for _, reference in self.secret_references}
        return names if source is None else names | {source.name}

    def _pyiceberg_properties(self, credentials: dict[str, str]) -> dict[str, str]:
        """Of a catalog that PyIceberg brings, by PyIceberg's own names."""
        spec = self.spec
        if spec.rest is not None:
            given = {"type": "rest", "uri": spec.rest.uri, "warehouse": spec.rest.warehouse}
            given |= {REST_CREDENTIALS[key]: value for key, value in credentials.items() if key in REST_CREDENTIALS}
        elif spec.glue is not None:
            given = {
                "type": "glue",
                "warehouse": spec.warehouse,
                "glue.id": spec.glue.catalog_id,
                "glue.region": spec.glue.region or spec.storage.region,
                "glue.endpoint": spec.glue.endpoint,
            }
            given |= {_GLUE_NAMES[key]: value for key, value in credentials.items() if key in _GLUE_NAMES}
        else:
            given = {"type": "hive", "warehouse": spec.warehouse, "uri": spec.hive.uri if spec.hive else None}
        return {key: value for key, value in given.items() if value is not None}

    def _file_io_properties(self, credentials: dict[str, str]) -> dict[str, str]:
        storage = self.spec.storage
        properties = {_FILE_IO_NAMES[key]: value for key, value in credentials.items() if key in _FILE_IO_NAMES}
        if storage.endpoint:
            properties |= {"s3.endpoint": storage.endpoint, "s3.force-virtual-addressing": "false"}
        if storage.region:
            properties["s3.region"] = storage.region
        return properties


def _with_password(uri: str, password: str) -> str:
    """Of an address as `SqlStore` takes it, which has at most one @."""
    scheme, _, rest = uri.partition("://")
    user, _, host = rest.rpartition("@")
    return f"{scheme}://{user}:{quote(password, safe='')}@{host}"
