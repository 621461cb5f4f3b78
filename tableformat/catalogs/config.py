"""What it takes to open a catalog, as values that travel: from a custom resource or a file into a job's specification.

A configuration is frozen, refuses unknown fields, and survives a round trip through JSON. `properties` go to
PyIceberg as they are (storage access, for one) and may hold secrets, so they are left out of every `repr`, and whatever
was given out of every error. A model that holds a configuration has to say the same of its own errors.

A catalog's class takes properties alone, as PyIceberg's do: so it can also be named in PyIceberg's configuration.
`as_properties` is what a configuration says by their names.
"""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

# By the names that PyIceberg has for them, where it has any. Its own constants take a second to import.
WAREHOUSE = "warehouse"
URI = "uri"
CONFIGMAP_NAMESPACE = "configmap.namespace"
CONFIGMAP_KUBECONFIG = "configmap.kubeconfig"
CONFIGMAP_CONTEXT = "configmap.context"
DYNAMODB_TABLE = "table-name"
DYNAMODB_REGION = "dynamodb.region"
DYNAMODB_ENDPOINT = "dynamodb.endpoint"
DYNAMODB_CREATE_TABLE = "dynamodb.create-table"
# By these variables the databases' own clients know a password, which an address does not have.
PASSWORD_VARIABLES = {"postgresql": "PGPASSWORD", "mysql": "MYSQL_PWD", "mariadb": "MYSQL_PWD"}


def password_variable(uri: str) -> str | None:
    """The environment variable that has the password of this database; None where there is no such variable."""
    return PASSWORD_VARIABLES.get(uri.partition("://")[0].partition("+")[0])


def required(catalog: str, properties: Mapping[str, str], *keys: str) -> tuple[str, ...]:
    """The values of these properties; `ValueError` names those that are missing."""
    if missing := [key for key in keys if not properties.get(key)]:
        raise ValueError(f"catalog {catalog} needs the property {' and '.join(missing)}")
    return tuple(properties[key] for key in keys)


class _Config(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    name: str = Field(min_length=1, max_length=253)
    properties: dict[str, str] = Field(default_factory=dict, repr=False)

    def _and(self, given: Mapping[str, str | None]) -> dict[str, str]:
        return {**self.properties, **{key: value for key, value in given.items() if value is not None}}


class ConfigMapConfig(_Config):
    """Pointers in the ConfigMaps of one Kubernetes namespace.

    Without `kubeconfig` and `context` a pod uses its own service account, and everything else the default kubeconfig.
    """

    type: Literal["configMap"] = "configMap"
    warehouse: str = Field(min_length=1)
    namespace: str = Field(min_length=1)
    kubeconfig: str | None = None
    context: str | None = None

    def as_properties(self) -> dict[str, str]:
        return self._and(
            {
                WAREHOUSE: self.warehouse,
                CONFIGMAP_NAMESPACE: self.namespace,
                CONFIGMAP_KUBECONFIG: self.kubeconfig,
                CONFIGMAP_CONTEXT: self.context,
            }
        )


class DynamoDbConfig(_Config):
    """Pointers in a DynamoDB table, in the layout of Iceberg's own Java `DynamoDbCatalog`."""

    type: Literal["dynamoDB"] = "dynamoDB"
    warehouse: str = Field(min_length=1)
    table_name: str = Field(default="iceberg", min_length=3)
    region: str | None = None
    endpoint: str | None = None
    create_table: bool = False

    def as_properties(self) -> dict[str, str]:
        return self._and(
            {
                WAREHOUSE: self.warehouse,
                DYNAMODB_TABLE: self.table_name,
                DYNAMODB_REGION: self.region,
                DYNAMODB_ENDPOINT: self.endpoint,
                DYNAMODB_CREATE_TABLE: str(self.create_table).lower(),
            }
        )


class SqlConfig(_Config):
    """Pointers in a SQL database, by its SQLAlchemy address; a file of SQLite is the embedded default.

    Without a password in the address, the environment of whoever opens it has it: PGPASSWORD or MYSQL_PWD.
    """

    type: Literal["sql"] = "sql"
    uri: str = Field(min_length=1, repr=False)  # may hold a password
    warehouse: str = Field(min_length=1)

    def as_properties(self) -> dict[str, str]:
        return self._and({WAREHOUSE: self.warehouse, URI: self.uri})


class PyIcebergConfig(_Config):
    """A catalog by PyIceberg's own properties: one that PyIceberg brings, or one of ours in PyIceberg's terms."""

    type: Literal["pyiceberg"] = "pyiceberg"


CatalogConfig = Annotated[
    ConfigMapConfig | DynamoDbConfig | SqlConfig | PyIcebergConfig,
    Field(discriminator="type"),
]
