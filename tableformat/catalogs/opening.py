"""The one way to open a catalog: from its typed configuration to a PyIceberg `Catalog`.

Each kind is imported when it is opened: the clients of Kubernetes, AWS and SQL take seconds to import on a small
machine, and a job needs one of them.

A configuration is all that there is to a catalog, but for what the environment says of it by its name, which is how a
job's pod gets the keys of a REST catalog (`act.pods`). PyIceberg by itself would also add what a file .pyiceberg.yaml
has under the same name: the token of one catalog would go to the address of another.
"""

import os

from pyiceberg.catalog import AVAILABLE_CATALOGS, Catalog, CatalogType, infer_catalog_type, load_catalog

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
            return _open_pyiceberg(config)


def open_existing(config: CatalogConfig) -> Catalog | None:
    """For whoever only looks: opens what is there and makes nothing. None where opening would have to make the place
    of the pointers first, a database or a DynamoDB table; then no table is there either."""
    if isinstance(config, PyIcebergConfig) and config.properties.get("type") in _DEFAULTS:
        config = _sql(config)
    if isinstance(config, SqlConfig):
        from tableformat.catalogs.sql import is_made

        return open_catalog(config) if is_made(config) else None
    if isinstance(config, DynamoDbConfig) and config.create_table:
        from tableformat.catalogs.dynamodb import JavaLayoutDynamoDbCatalog

        opened = JavaLayoutDynamoDbCatalog(config.model_copy(update={"create_table": False}))
        if opened.table_exists_in_dynamodb():
            return opened
        opened.close()
        return None
    return open_catalog(config)


def _open_pyiceberg(config: PyIcebergConfig) -> Catalog:
    if "py-catalog-impl" in config.properties:
        return load_catalog(config.name, **config.properties)  # PyIceberg adds nothing to these
    properties = {**_said_by_environment(config.name), **config.properties}
    said = properties.get("type")
    kind = CatalogType(said.lower()) if said else infer_catalog_type(config.name, {**properties})
    if kind in (CatalogType.REST, CatalogType.HIVE) and not properties.get("uri"):
        raise ValueError("it has no uri")
    match kind:
        case CatalogType.REST:
            from tableformat.catalogs.bounded_rest import BoundedRestCatalog

            return BoundedRestCatalog(config.name, **properties)
        case CatalogType.HIVE:
            from tableformat.catalogs.bounded_hive import BoundedHiveCatalog

            return BoundedHiveCatalog(config.name, **properties)
        case None:
            raise ValueError("it has neither a type nor a uri that tells one")
        case _:
            return AVAILABLE_CATALOGS[kind](config.name, properties)


def _said_by_environment(name: str) -> dict[str, str]:
    """As PyIceberg reads PYICEBERG_CATALOG__NAME__KEY: case does not matter, _ stands for -, and __ for a dot."""
    found = {}
    for variable, value in os.environ.items():
        start, _, rest = variable.lower().partition("pyiceberg_catalog__")
        catalog, _, key = rest.partition("__")
        if not start and key and catalog.replace("_", "-") == name.lower():
            found[key.replace("__", ".").replace("_", "-")] = value
    return found


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
