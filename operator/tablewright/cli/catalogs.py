"""How a table is addressed: by a catalog that PyIceberg's own configuration names, by a catalog's address, or by a
folder's declaration. Whatever cannot be found is named, with the nearest name that can.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from pyiceberg.catalog import Catalog
from pyiceberg.catalog import infer_catalog_type as inferred_type
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError, NotInstalledError, RESTError
from pyiceberg.table import Table
from pyiceberg.utils.config import Config

from tableformat.catalogs import CatalogConfig, PyIcebergConfig, open_existing
from tableformat.errors import TablewrightError
from tableformat.secrets import KNOWN
from tablewright.api.admission.problems import did_you_mean
from tablewright.api.catalog import TableCatalog
from tablewright.api.table import ManagedTable
from tablewright.cli.exits import InputError
from tablewright.cli.places import state_folder
from tablewright.decide.policy import EffectivePolicy
from tablewright.embedded.apply import policy_of
from tablewright.embedded.catalogs import (
    EMBEDDED_CATALOG,
    catalog_of,
    database,
    embedded_catalog,
    is_embedded_and_unmade,
)
from tablewright.embedded.folder import Declarations, read_folder
from tablewright.embedded.state import EmbeddedState, refuse_a_copy
from tablewright.observe.tables import CatalogFailedError

# The name of a catalog that is given by its address alone: one that no configuration and no environment can have, or
# what they say of another catalog, its token above all, would be sent to that address.
BY_ADDRESS = "of --catalog-uri"
NO_WAREHOUSE = "file:///nowhere"


@dataclass(frozen=True)
class AddressOptions:
    """What was typed, as it was typed."""

    catalog: str | None = None
    uri: str | None = None
    properties: Sequence[str] = ()
    folders: Sequence[Path] = ()
    state: Path | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """To be typed again."""
        given = [("--catalog", self.catalog), ("--catalog-uri", self.uri)]
        given += [("--property", text) for text in self.properties]
        given += [("-f", str(folder)) for folder in self.folders]
        given += [("--state", None if self.state is None else str(self.state))]
        return tuple(word for option, value in given if value is not None for word in (option, value))


@dataclass(frozen=True)
class AddressedTable:
    config: CatalogConfig
    catalog: Catalog
    identifier: tuple[str, ...]
    declared: ManagedTable | None = None
    """With what is remembered of it, where it is a folder's."""
    declared_catalog: TableCatalog | None = None
    policy: EffectivePolicy | None = None
    state: Path | None = None
    """Of the folder, where it is a folder's."""
    words: tuple[str, ...] = ()
    """How it was addressed, to be typed again."""

    @property
    def name(self) -> str:
        return ".".join(self.identifier)

    def load(self) -> Table:
        return load(self.catalog, self.identifier)


@dataclass(frozen=True)
class AddressedCatalog:
    config: CatalogConfig
    catalog: Catalog
    declared: TableCatalog | None = None
    """Where it is a folder's; of the embedded one, what it is as a TableCatalog."""
    tables: Mapping[tuple[str, ...], str] = field(default_factory=dict)
    """Those that the folder declares: the object's key by the table's identifier."""

    def load(self, identifier: tuple[str, ...]) -> Table:
        return load(self.catalog, identifier)

    def identifiers(self, namespace: tuple[str, ...] | None = None) -> list[tuple[str, ...]]:
        """All tables of the catalog, or of a namespace and those inside it, in order."""
        with _failures_named(self.config.name):
            if namespace is not None and not self.has_namespace(namespace):
                there = [".".join(found) for found in self._namespaces()]
                meant = did_you_mean(".".join(namespace), there) if there else "the catalog has none"
                raise InputError(f"there is no namespace {'.'.join(namespace)!r}: {meant}")
            found: set[tuple[str, ...]] = set()
            for inner in ([] if namespace is None else [namespace], self._namespaces(namespace or ())):
                for each in inner:
                    with suppress(NoSuchNamespaceError):  # one that only others are inside of
                        found |= {tuple(identifier) for identifier in self.catalog.list_tables(each)}
            return sorted(found)

    def has_table(self, identifier: tuple[str, ...]) -> bool:
        with _failures_named(self.config.name):
            return self.catalog.table_exists(identifier)

    def has_namespace(self, namespace: tuple[str, ...]) -> bool:
        return self.catalog.namespace_exists(namespace) or any(self._namespaces(namespace))

    def _namespaces(self, parent: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
        try:
            inner = self.catalog.list_namespaces(parent) if parent else self.catalog.list_namespaces()
        except NoSuchNamespaceError:
            return
        for namespace in inner:
            if len(namespace) > len(parent) and namespace[: len(parent)] == parent:
                yield tuple(namespace)
                yield from self._namespaces(tuple(namespace))


def catalogs(options: AddressOptions) -> list[AddressedCatalog]:
    """The catalog that was named, or all that a folder's tables may be in."""
    if not options.folders:
        config = catalog_config(options)
        opened = _open(config)
        if opened is None:
            raise InputError(f"the catalog {config.name} is still to be made: it has no tables")
        return [AddressedCatalog(config, opened)]
    _refuse_both(options)
    declarations, own = read_folder(*options.folders), state_folder(options.folders, options.state)
    declared = declarations.catalogs
    if not declared:
        if is_embedded_and_unmade(declared, own):
            raise InputError(f"the folder declares no TableCatalog, and its own is still to be made: {_apply(options)}")
        namespaces = sorted({table.metadata.namespace for table in declarations.tables}) or ["default"]
        declared = (embedded_catalog(namespaces[0], EMBEDDED_CATALOG, own),)
    found = []
    for catalog in declared:
        opened = _open(catalog.config({}))
        if opened is None:
            raise InputError(f"the catalog {'/'.join(catalog.key)} is still to be made: {_apply(options)}")
        known: dict[tuple[str, ...], str] = {
            table.identifier: "/".join(table.key)
            for table in declarations.tables
            if not declarations.catalogs or (table.metadata.namespace, table.spec.catalog_ref.name) == catalog.key
        }
        found.append(AddressedCatalog(catalog.config({}), opened, catalog, known))
    return found


def _refuse_both(options: AddressOptions) -> None:
    if options.catalog is not None or options.uri is not None:
        raise InputError("give a folder with -f, or a catalog with --catalog or --catalog-uri, not both")


def _apply(options: AddressOptions) -> str:
    words = (word for each in options.folders for word in ("-f", str(each)))
    return f"run `{shlex.join(['tablewright', 'apply', *words])}`"


def address(name: str, options: AddressOptions) -> AddressedTable:
    """The table of this name, which is there: `namespace.table`, or in a folder also the declaration's own name."""
    found = place(name, options)
    found.load()
    return found


def place(name: str, options: AddressOptions) -> AddressedTable:
    """Where a table of this name is or would be; its catalog is there."""
    if options.folders:
        _refuse_both(options)
        declarations = read_folder(*options.folders)
        found = _place_declared(find_declared(name, declarations), declarations, options.folders, options.state)
        return replace(found, words=(name, *options.words))
    config = catalog_config(options)
    identifier = _identifier(name)
    opened = _open(config)
    if opened is None:
        raise InputError(f"there is no table {name}: the catalog {config.name} is still to be made")
    return AddressedTable(config, opened, identifier, words=(name, *options.words))


def catalog_config(options: AddressOptions) -> PyIcebergConfig:
    extra = _properties(options.properties)
    if options.uri is not None:
        return _by_uri(options.uri, options.catalog, extra)
    known = Config()
    name = options.catalog or known.get_default_catalog_name()
    properties = _configured(known, name)
    if properties is None:
        names = known.get_known_catalogs()
        if options.catalog is None:
            raise InputError(
                "which catalog? Give --catalog NAME (of PyIceberg's configuration), --catalog-uri URI, or -f FOLDER "
                "(of declarations)"
            )
        meant = did_you_mean(name, names) if names else "it names none at all"
        raise InputError(f"--catalog: PyIceberg's configuration has no catalog {name!r}: {meant}")
    properties |= extra
    if "type" not in properties and "py-catalog-impl" not in properties:
        properties["type"] = _type_of(name, properties)
    return _checked(PyIcebergConfig(name=name, properties=_with_warehouse(properties)))


def load(catalog: Catalog, identifier: tuple[str, ...]) -> Table:
    with _failures_named(catalog.name):
        try:
            return catalog.load_table(identifier)
        except (NoSuchTableError, NoSuchNamespaceError):
            raise InputError(f"there is no table {'.'.join(identifier)}: {_nearest(catalog, identifier)}") from None


def find_declared(name: str, declarations: Declarations) -> ManagedTable:
    """By the object's name, with or without its namespace, or by the table's own."""
    wanted = [
        table
        for table in declarations.tables
        if name in (table.metadata.name, "/".join(table.key), ".".join(table.identifier))
    ]
    if len(wanted) > 1:
        choices = ", ".join("/".join(table.key) for table in wanted)
        raise InputError(f"{name!r} may be each of {choices}: give the namespace, too")
    if not wanted:
        names = ["/".join(table.key) for table in declarations.tables] + [t.metadata.name for t in declarations.tables]
        raise InputError(f"no table {name!r} is declared: {did_you_mean(name, names)}")
    return wanted[0]


def address_declared(
    table: ManagedTable, declarations: Declarations, folders: Sequence[Path], state: Path | None
) -> AddressedTable:
    """A table of a folder that is read already, which is there."""
    found = _place_declared(table, declarations, folders, state)
    found.load()
    return found


def _place_declared(
    table: ManagedTable, declarations: Declarations, folders: Sequence[Path], state: Path | None
) -> AddressedTable:
    own = state_folder(folders, state)
    catalog = catalog_of(table, declarations.catalogs, own)
    config = catalog.config({})
    state_of_folder = EmbeddedState(own)
    state_of_folder.look()
    known = state_of_folder.remembered(table)
    policy = policy_of(table, declarations)
    opened = None if is_embedded_and_unmade(declarations.catalogs, own) else _open(config)
    if opened is None:
        command = shlex.join(["tablewright", "apply", *(word for each in folders for word in ("-f", str(each)))])
        raise InputError(f"{'/'.join(table.key)} is declared and not there yet: run `{command}`")
    return AddressedTable(config, opened, table.identifier, known, catalog, policy, own)


def _identifier(name: str) -> tuple[str, ...]:
    parts = tuple(name.split("."))
    if len(parts) < 2 or not all(parts):
        raise InputError(f"{name!r} is no table's name: write namespace.table")
    return parts


def _properties(given: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise InputError("--property: write key=value, such as s3.region=ap-south-1")  # the text may be a secret
        if key in found:
            raise InputError(f"--property {key} is given twice")
        found[key] = value
    KNOWN.learn(found)
    return found


def _configured(known: Config, name: str) -> dict[str, str] | None:
    try:
        found = known.get_catalog_config(name)
    except ValueError as error:
        raise InputError(f"PyIceberg's configuration: {error}") from None
    if found is None:
        return None
    properties = {key: str(value) for key, value in found.items()}
    KNOWN.learn(properties)
    return properties


def _by_uri(uri: str, name: str | None, properties: Mapping[str, str]) -> PyIcebergConfig:
    """What is configured of a catalog is used where somebody named that catalog."""
    known = {"uri": uri, **properties}
    KNOWN.learn(known)
    if "type" not in known:
        known["type"] = _type_of(name or BY_ADDRESS, known)
    if known["type"] != "sql":
        configured = (_configured(Config(), name) or {}) if name else {}
        return PyIcebergConfig(name=name or BY_ADDRESS, properties={**configured, **known})
    config = _checked(PyIcebergConfig(name=name or BY_ADDRESS, properties=_with_warehouse(known)))
    return config if name else config.model_copy(update={"name": _only_catalog(uri)})


def _with_warehouse(properties: Mapping[str, str]) -> dict[str, str]:
    """The warehouse is where new tables go; a table that is there knows its own place."""
    chooses_itself = properties.get("type", "").lower() in ("sql", "dynamodb")
    return {"warehouse": NO_WAREHOUSE, **properties} if chooses_itself else dict(properties)


def _only_catalog(uri: str) -> str:
    """A SQL database keeps the tables of several catalogs, each by the catalog's name; most have one."""
    from sqlalchemy import create_engine, make_url, text
    from sqlalchemy.exc import SQLAlchemyError

    from tableformat.catalogs.sql import require_driver

    try:
        require_driver(make_url(uri))
        engine = create_engine(uri)
    except (SQLAlchemyError, ValueError) as error:
        raise InputError(f"the database of --catalog-uri cannot be opened: {error}") from None
    try:
        with engine.connect() as connection:
            found = connection.execute(text("SELECT DISTINCT catalog_name FROM iceberg_tables ORDER BY 1"))
            names = [str(name) for (name,) in found]
    except SQLAlchemyError as error:
        raise InputError(f"{engine.url!r} has no Iceberg catalog: {str(error).splitlines()[0]}") from None
    finally:
        engine.dispose()
    if len(names) > 1:
        raise InputError(f"the database has the catalogs {', '.join(names)}: say which with --catalog")
    return names[0] if names else BY_ADDRESS


def _type_of(name: str, properties: Mapping[str, str]) -> str:
    try:
        kind = inferred_type(name, dict(properties))
    except ValueError:
        uri = properties.get("uri")
        if uri and re.match(r"(mysql|mariadb|mssql|oracle)(\+\w+)?://", uri):  # PyIceberg tells two databases by it
            return "sql"
        what = f"what kind of catalog {uri!r} is cannot be told from it" if uri else "it has no uri"
        raise InputError(f"catalog {name}: {what}: give --property type=rest|sql|hive|glue|dynamodb") from None
    return kind.value if kind is not None else "rest"


def _checked(config: PyIcebergConfig) -> PyIcebergConfig:
    """Opening a file of SQLite would create it; somebody who mistyped its name wants to know."""
    from sqlalchemy import make_url

    uri = config.properties.get("uri", "")
    file = make_url(uri).database if re.match(r"sqlite(\+\w+)?:///", uri) else None
    if not file or file == ":memory:":
        return config
    path = Path(file)
    if not path.is_file():
        raise InputError(f"there is no file {path}, which {uri} names")
    if path.resolve() == database(path.parent):  # a folder's own, addressed without its declarations
        refuse_a_copy(path.parent)
    return config


def _open(config: CatalogConfig) -> Catalog | None:
    """Whatever is done with a table, the table is there: a catalog that would have to be made has none."""
    with _failures_named(config.name):
        try:
            return open_existing(config)
        except (ValueError, KeyError, ImportError, NotInstalledError) as error:
            raise InputError(f"the catalog {config.name} cannot be opened: {error}") from error


@contextmanager
def _failures_named(catalog: str) -> Iterator[None]:
    """PyIceberg's own catalogs raise what their clients do; whoever asks for a table gets a line of it, not a trace."""
    try:
        yield
    except (TablewrightError, RESTError, OSError):
        raise
    except Exception as error:
        said = " ".join(str(error).split())  # SQLAlchemy's errors have several lines
        raise CatalogFailedError(f"the catalog {catalog} failed ({type(error).__name__}): {said}") from error


def _nearest(catalog: Catalog, identifier: tuple[str, ...]) -> str:
    *namespace, name = identifier
    try:
        there = catalog.list_tables(tuple(namespace))
    except NoSuchNamespaceError:
        spaces = [".".join(found) for found in catalog.list_namespaces()]
        return f"there is no namespace {'.'.join(namespace)!r}" + (
            f"; {did_you_mean(namespace[0], spaces)}" if spaces else ""
        )
    return did_you_mean(name, [found[-1] for found in there]) if there else "the namespace has no tables"
