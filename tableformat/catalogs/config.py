"""What it takes to open a catalog, as values that travel: from a custom resource or a file into a job's specification.

A configuration is frozen, refuses unknown fields, and survives a round trip through JSON. `properties` go to
PyIceberg as they are (storage access, for one) and may hold secrets, so they are left out of every `repr`, and whatever
was given out of every error. A model that holds a configuration has to say the same of its own errors.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field


class _Config(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    name: str = Field(min_length=1, max_length=253)
    properties: dict[str, str] = Field(default_factory=dict, repr=False)


class ConfigMapConfig(_Config):
    """Pointers in the ConfigMaps of one Kubernetes namespace.

    Without `kubeconfig` and `context` a pod uses its own service account, and everything else the default kubeconfig.
    """

    type: Literal["configMap"] = "configMap"
    warehouse: str = Field(min_length=1)
    namespace: str = Field(min_length=1)
    kubeconfig: str | None = None
    context: str | None = None


class DynamoDbConfig(_Config):
    """Pointers in a DynamoDB table, in the layout of Iceberg's own Java `DynamoDbCatalog`."""

    type: Literal["dynamoDB"] = "dynamoDB"
    warehouse: str = Field(min_length=1)
    table_name: str = Field(default="iceberg", min_length=3)
    region: str | None = None
    endpoint: str | None = None
    create_table: bool = False


class SqlConfig(_Config):
    """Pointers in a SQL database, by its SQLAlchemy address; a file of SQLite is the embedded default."""

    type: Literal["sql"] = "sql"
    uri: str = Field(min_length=1, repr=False)  # may hold a password
    warehouse: str = Field(min_length=1)


class PyIcebergConfig(_Config):
    """A catalog that PyIceberg brings (rest, glue, hive, in-memory), by PyIceberg's own properties."""

    type: Literal["pyiceberg"] = "pyiceberg"


CatalogConfig = Annotated[
    ConfigMapConfig | DynamoDbConfig | SqlConfig | PyIcebergConfig,
    Field(discriminator="type"),
]
