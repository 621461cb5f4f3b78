"""Opens the catalog that a TableCatalog declares, in a cluster as from a folder. One that cannot be opened is a reason
that its tables tell; it never ends a pass over the tables of others.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from pyiceberg.catalog import Catalog

from tableformat.catalogs import CatalogConfig, open_catalog, open_existing
from tableformat.errors import PermanentError, TablewrightError
from tablewright.act.passes import CatalogNotUsableError


def open_declared(name: str, config: CatalogConfig) -> Catalog:
    """Raises `CatalogNotUsableError`, or a `TransientError` of the table library's own."""
    with _reasons_named(name):
        return open_catalog(config)


def look_into_declared(name: str, config: CatalogConfig) -> Catalog | None:
    """As above, and makes nothing: None where the catalog itself is still to be made."""
    with _reasons_named(name):
        return open_existing(config)


@contextmanager
def _reasons_named(name: str) -> Iterator[None]:
    try:
        yield
    except PermanentError as error:  # until somebody changes something: the keys, a right, the declaration
        raise CatalogNotUsableError("CatalogNotOpened", f"TableCatalog {name}: {error}") from error
    except TablewrightError:
        raise
    except Exception as error:  # PyIceberg's own catalogs raise what their clients do
        said = " ".join(str(error).split())  # SQLAlchemy's errors have several lines
        message = f"TableCatalog {name}: it cannot be opened ({type(error).__name__}): {said}"
        raise CatalogNotUsableError("CatalogUnreachable", message) from error
