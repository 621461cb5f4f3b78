"""Removes a table, as its object's deletion policy says."""

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError


def drop_table(catalog: Catalog, identifier: tuple[str, str], *, purge: bool) -> None:
    """Idempotent: a table that is gone already was dropped by an earlier attempt."""
    try:
        if purge:
            catalog.purge_table(identifier)
        else:
            catalog.drop_table(identifier)
    except NoSuchTableError:
        return
