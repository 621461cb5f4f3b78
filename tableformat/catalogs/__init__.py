"""Catalogs: where a table's one mutable pointer lives, and how it is swapped.

`open_catalog` takes a typed configuration and returns a PyIceberg `Catalog`, `open_existing` one to look into. The
pointer is swapped in `commit`, and nowhere else.
"""

import tableformat.pyiceberg_private  # noqa: F401 - before anything of PyIceberg's is used
from tableformat.catalogs.config import CatalogConfig, ConfigMapConfig, DynamoDbConfig, PyIcebergConfig, SqlConfig
from tableformat.catalogs.locations import UnusableLocationError
from tableformat.catalogs.opening import open_catalog, open_existing
from tableformat.catalogs.outcomes import (
    CatalogAccessError,
    CatalogUnavailableError,
    CorruptCatalogEntryError,
    DeletionPendingError,
    UnreadableMetadataError,
)

__all__ = [
    "CatalogAccessError",
    "CatalogConfig",
    "CatalogUnavailableError",
    "ConfigMapConfig",
    "CorruptCatalogEntryError",
    "DeletionPendingError",
    "DynamoDbConfig",
    "PyIcebergConfig",
    "SqlConfig",
    "UnreadableMetadataError",
    "UnusableLocationError",
    "open_catalog",
    "open_existing",
]
