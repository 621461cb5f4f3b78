"""Which catalog a folder's table lives in: the declared one, or, where none at all is declared, the embedded one.

The embedded catalog is SQLite and a local warehouse in the state folder. It has one name: any other name is that of a
TableCatalog that is missing, and a new and empty catalog must never take its place.
"""

import os
from collections.abc import Collection, Iterable
from pathlib import Path
from urllib.parse import quote, urlsplit

from tableformat.errors import PermanentError
from tablewright.api.catalog import SqlStore, TableCatalog, TableCatalogSpec
from tablewright.api.objects import Metadata
from tablewright.api.table import ManagedTable

EMBEDDED_CATALOG = "lake"


def catalog_of(table: ManagedTable, declared: Iterable[TableCatalog], state_folder: Path) -> TableCatalog:
    """Raises `CatalogNotUsableError` where it is neither declared nor the embedded one."""
    catalogs = {catalog.key: catalog for catalog in declared}
    key = (table.metadata.namespace, table.spec.catalog_ref.name)
    missing = _password_missing(catalogs[key]) if key in catalogs else None
    if key in catalogs and missing is None:
        return catalogs[key]
    if not catalogs and key[1] == EMBEDDED_CATALOG:
        return embedded_catalog(*key, state_folder)
    from tablewright.act.passes import CatalogNotUsableError  # with all of maintenance, which `get` does without

    if missing is not None:
        raise CatalogNotUsableError("SecretNotFound", missing)
    message = f"spec.catalogRef: there is no TableCatalog {key[1]} in namespace {key[0]}: declare it"
    raise CatalogNotUsableError("CatalogNotFound", message)


def _password_missing(catalog: TableCatalog) -> str | None:
    """A folder has no Secrets: the environment has what they hold, for the commands and for their drivers alike."""
    variable = catalog.database_password
    if variable is None or variable.name in os.environ:
        return None
    return (
        f"TableCatalog {catalog.metadata.name}: spec.jobs.env[{variable.name}] comes from a Secret, which a folder "
        f"does not have. Set the environment variable {variable.name}"
    )


def described(catalog: TableCatalog, declared: Collection[TableCatalog]) -> str:
    """The catalog in a few words: its name, its type, and where its tables go."""
    spec = catalog.spec
    place = spec.rest.uri if spec.rest is not None else spec.warehouse
    return f"{catalog.metadata.name} ({spec.type if declared else 'embedded'}, {place})"


def is_embedded_and_unmade(declared: Collection[TableCatalog], state_folder: Path) -> bool:
    """Whether the tables are in the embedded catalog, which the first `apply` makes."""
    return not declared and not database(state_folder).exists()


def database(state_folder: Path) -> Path:
    """Where the embedded catalog keeps its pointers; opening it makes it."""
    return state_folder.resolve() / "catalog.db"


def embedded_catalog(namespace: str, name: str, state_folder: Path) -> TableCatalog:
    # Unchecked: the API's patterns are for addresses that people write, and a state folder may have any name.
    spec = TableCatalogSpec.model_construct(
        sql=SqlStore.model_construct(uri=_sqlite_address(database(state_folder))),
        warehouse=_location(state_folder.resolve() / "warehouse"),
    )
    return TableCatalog(metadata=Metadata(name=name, namespace=namespace), spec=spec)


def _sqlite_address(file: Path) -> str:
    try:
        return f"sqlite:///{quote(str(file))}"
    except UnicodeEncodeError:
        raise PermanentError(
            f"{str(file)!r} is not UTF-8 text, so no table's metadata can name files beside it. Keep the tables in "
            "another folder with --state"
        ) from None


def _location(folder: Path) -> str:
    """A file:// location, or a plain path where PyIceberg would not read that as it is written.

    It reads a location with a scheme as a URL: it cuts at ? and #, and drops tabs and line breaks.
    """
    location = f"file://{folder}"
    return location if urlsplit(location).path == str(folder) else str(folder)
