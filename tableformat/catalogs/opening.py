"""The one way to open a catalog: from its typed configuration to a PyIceberg `Catalog`."""

from pyiceberg.catalog import Catalog, load_catalog

from tableformat.catalogs.config import CatalogConfig, ConfigMapConfig, DynamoDbConfig, PyIcebergConfig, SqlConfig
from tableformat.catalogs.configmap import ConfigMapCatalog
from tableformat.catalogs.dynamodb import JavaLayoutDynamoDbCatalog
from tableformat.catalogs.sql import SharedSqlCatalog

_SQL_TYPES = {"sql", "in-memory"}


def open_catalog(config: CatalogConfig) -> Catalog:
    """Opens it. A catalog belongs to the process that opened it, and must be opened anew in a fork."""
    match config:
        case ConfigMapConfig():
            return ConfigMapCatalog(config)
        case SqlConfig():
            return SharedSqlCatalog(config)
        case DynamoDbConfig():
            return JavaLayoutDynamoDbCatalog(config)
        case PyIcebergConfig():
            if config.properties.get("type") in _SQL_TYPES:
                return SharedSqlCatalog(_sql(config))  # the same tables in the same database, committed our way
            return load_catalog(config.name, **config.properties)


def _sql(config: PyIcebergConfig) -> SqlConfig:
    properties = {key: value for key, value in config.properties.items() if key not in ("type", "uri", "warehouse")}
    return SqlConfig(
        name=config.name,
        uri=config.properties.get("uri", "sqlite:///:memory:"),
        warehouse=config.properties["warehouse"],
        properties=properties,
    )
