"""The one way to open a catalog: from its typed configuration to a PyIceberg `Catalog`.

Each kind is imported when it is opened: the clients of Kubernetes, AWS and SQL take seconds to import on a small
machine, and a job needs one of them.

A configuration is all that there is to a catalog, but for what the environment says of it by its name, which is how a
job's pod gets the keys of a REST catalog (`act.pods`). PyIceberg by itself would also add what a file .pyiceberg.yaml
has under the same name: the token of one catalog would go to the address of another.
"""

import os

from pyiceberg.catalog import (
    AVAILABLE_CATALOGS,
    PY_CATALOG_IMPL,
    TYPE,
    Catalog,
    CatalogType,
    infer_catalog_type,
    load_catalog,
)
from pyiceberg.utils.properties import property_as_bool

from tableformat.catalogs.config import (
    DYNAMODB_CREATE_TABLE,
    URI,
    WAREHOUSE,
    CatalogConfig,
    ConfigMapConfig,
    DynamoDbConfig,
    SqlConfig,
    required,
)

_CONFIG_MAP = "tableformat.catalogs.configmap.ConfigMapCatalog"
_DYNAMODB = "tableformat.catalogs.dynamodb.JavaLayoutDynamoDbCatalog"
_SQL = "tableformat.catalogs.sql.SharedSqlCatalog"
_OURS_BY_TYPE = {  # the same items and rows as PyIceberg's own, committed our way
    CatalogType.DYNAMODB: _DYNAMODB,
    CatalogType.SQL: _SQL,
    CatalogType.IN_MEMORY: _SQL,
}


def open_catalog(config: CatalogConfig) -> Catalog:
    """Opens it. A catalog belongs to the process that opened it, and must be opened anew in a fork."""
    kind, properties = _resolved(config)
    return _open(kind, config.name, properties)


def open_existing(config: CatalogConfig) -> Catalog | None:
    """For whoever only looks: opens what is there and makes nothing. None where opening would have to make the place
    of the pointers first, a database or a DynamoDB table; then no table is there either."""
    kind, properties = _resolved(config)
    if kind == _SQL:
        from tableformat.catalogs.sql import is_made

        uri, _ = required(config.name, properties, URI, WAREHOUSE)
        return _open(kind, config.name, properties) if is_made(uri) else None
    if kind == _DYNAMODB and property_as_bool(properties, DYNAMODB_CREATE_TABLE, False):
        from tableformat.catalogs.dynamodb import JavaLayoutDynamoDbCatalog

        opened = JavaLayoutDynamoDbCatalog(config.name, **{**properties, DYNAMODB_CREATE_TABLE: "false"})
        if opened.table_exists_in_dynamodb():
            return opened
        opened.close()
        return None
    return _open(kind, config.name, properties)


def _resolved(config: CatalogConfig) -> tuple[str | CatalogType, dict[str, str]]:
    """Which class opens the catalog, ours by its full name or PyIceberg's by its type, and with which properties."""
    match config:
        case ConfigMapConfig():
            return _CONFIG_MAP, config.as_properties()
        case DynamoDbConfig():
            return _DYNAMODB, config.as_properties()
        case SqlConfig():
            return _SQL, config.as_properties()
    if PY_CATALOG_IMPL in config.properties:
        return config.properties[PY_CATALOG_IMPL], config.properties  # PyIceberg adds nothing to these
    properties = {**_said_by_environment(config.name), **config.properties}
    said = properties.get(TYPE)
    kind = CatalogType(said.lower()) if said else infer_catalog_type(config.name, {**properties})
    if kind is None:
        raise ValueError("it has neither a type nor a uri that tells one")
    if kind == CatalogType.IN_MEMORY:  # for no other database: in memory, its tables would go with the process
        properties = {URI: "sqlite:///:memory:", **properties}
    return _OURS_BY_TYPE.get(kind, kind), properties


def _open(kind: str | CatalogType, name: str, properties: dict[str, str]) -> Catalog:
    match kind:
        case _ if kind == _CONFIG_MAP:
            from tableformat.catalogs.configmap import ConfigMapCatalog

            return ConfigMapCatalog(name, **properties)
        case _ if kind == _DYNAMODB:
            from tableformat.catalogs.dynamodb import JavaLayoutDynamoDbCatalog

            return JavaLayoutDynamoDbCatalog(name, **properties)
        case _ if kind == _SQL:
            from tableformat.catalogs.sql import SharedSqlCatalog

            return SharedSqlCatalog(name, **properties)
        case CatalogType.REST:
            from tableformat.catalogs.bounded_rest import BoundedRestCatalog

            required(name, properties, URI)
            return BoundedRestCatalog(name, **properties)
        case CatalogType.HIVE:
            from tableformat.catalogs.bounded_hive import BoundedHiveCatalog

            required(name, properties, URI)
            return BoundedHiveCatalog(name, **properties)
        case CatalogType():
            return AVAILABLE_CATALOGS[kind](name, properties)
        case _:
            return load_catalog(name, **properties)


def _said_by_environment(name: str) -> dict[str, str]:
    """As PyIceberg reads PYICEBERG_CATALOG__NAME__KEY: case does not matter, _ stands for -, and __ for a dot."""
    found = {}
    for variable, value in os.environ.items():
        start, _, rest = variable.lower().partition("pyiceberg_catalog__")
        catalog, _, key = rest.partition("__")
        if not start and key and catalog.replace("_", "-") == name.lower():
            found[key.replace("__", ".").replace("_", "-")] = value
    return found
