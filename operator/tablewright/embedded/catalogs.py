"""Which catalog a folder's table lives in: the declared one, or SQLite and a local warehouse where none is declared."""

from collections.abc import Collection, Iterable
from pathlib import Path

from tablewright.api.catalog import SqlStore, TableCatalog, TableCatalogSpec
from tablewright.api.objects import Metadata
from tablewright.api.table import ManagedTable


def catalog_of(table: ManagedTable, declared: Iterable[TableCatalog], state_folder: Path) -> TableCatalog:
    """Raises `CatalogNotUsableError` where others are declared and this one is not."""
    catalogs = {catalog.key: catalog for catalog in declared}
    key = (table.metadata.namespace, table.spec.catalog_ref.name)
    if key in catalogs:
        return catalogs[key]
    if catalogs:
        from tablewright.act.passes import CatalogNotUsableError  # with all of maintenance, which `get` does without

        message = f"spec.catalogRef: there is no TableCatalog {key[1]} in namespace {key[0]}: declare it"
        raise CatalogNotUsableError("CatalogNotFound", message)
    return _embedded(*key, state_folder)


def is_embedded_and_unmade(declared: Collection[TableCatalog], state_folder: Path) -> bool:
    """Whether the tables are in the embedded catalog, which the first `apply` makes."""
    return not declared and not database(state_folder).exists()


def database(state_folder: Path) -> Path:
    """Where the embedded catalog keeps its pointers; opening it makes it."""
    return state_folder.resolve() / "catalog.db"


def _embedded(namespace: str, name: str, state_folder: Path) -> TableCatalog:
    spec = TableCatalogSpec(
        sql=SqlStore(uri=f"sqlite:///{database(state_folder)}"), warehouse=f"file://{state_folder.resolve()}/warehouse"
    )
    return TableCatalog(metadata=Metadata(name=name, namespace=namespace), spec=spec)
