"""The one way to open a catalog: from its typed configuration to a PyIceberg `Catalog`.

Each kind is imported when it is opened: the clients of Kubernetes, AWS and SQL take seconds to import on a small
machine, and a job needs one of them.
"""

from pyiceberg.catalog import AVAILABLE_CATALOGS, Catalog, CatalogType, load_catalog
from pyiceberg.typedef import Properties

from tableformat.catalogs.config import CatalogConfig, ConfigMapConfig, DynamoDbConfig, PyIcebergConfig, SqlConfig

_DEFAULTS = {
    "sql": {},  # nothing is chosen for a database that is to be kept: in memory, its tables would go with the process
    "in-memory": {"uri": "sqlite:///:memory:"},
}


def open_catalog(config: CatalogConfig) -> Catalog:
    """Opens it. A catalog belongs to the process that opened it, and must be opened anew in a fork."""
    match config:
        case ConfigMapConfig():
            from tableformat.catalogs.configmap import ConfigMapCatalog

            return ConfigMapCatalog(config)
        case SqlConfig():
            return _open_sql(config)
        case DynamoDbConfig():
            from tableformat.catalogs.dynamodb import JavaLayoutDynamoDbCatalog

            return JavaLayoutDynamoDbCatalog(config)
        case PyIcebergConfig():
            if config.properties.get("type") in _DEFAULTS:
                return _open_sql(_sql(config))  # the same tables in the same database, committed our way
            return load_catalog(config.name, **config.properties)


def _load_rest(name: str, properties: Properties) -> Catalog:
    from tableformat.catalogs.bounded_rest import BoundedRestCatalog

    return BoundedRestCatalog(name, **properties)


def _load_hive(name: str, properties: Properties) -> Catalog:
    from tableformat.catalogs.bounded_hive import BoundedHiveCatalog

    return BoundedHiveCatalog(name, **properties)


# PyIceberg puts together what the configuration and the environment say, and then loads by this table.
AVAILABLE_CATALOGS.update({CatalogType.REST: _load_rest, CatalogType.HIVE: _load_hive})


def _open_sql(config: SqlConfig) -> Catalog:
    from tableformat.catalogs.sql import SharedSqlCatalog

    return SharedSqlCatalog(config)


def _sql(config: PyIcebergConfig) -> SqlConfig:
    known = ("type", "uri", "warehouse")
    given = {**_DEFAULTS[config.properties["type"]], **config.properties}
    if missing := [key for key in known if not given.get(key)]:
        raise ValueError(f"catalog {config.name} of type {given['type']} needs the property {' and '.join(missing)}")
    properties = {key: value for key, value in config.properties.items() if key not in known}
    return SqlConfig(name=config.name, uri=given["uri"], warehouse=given["warehouse"], properties=properties)
