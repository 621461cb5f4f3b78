"""PyIceberg's SQL catalog, made safe for many processes on one database, a file of SQLite above all.

Namespaces and rename stay PyIceberg's, whose single statements are atomic. Ours is what a crowd needs: writers wait
for SQLite's lock instead of failing, a lost race is told from a lost connection, and tables are committed by the one
commit of all our catalogs. The version of a pointer is the location itself, which is never used twice.
"""

import os
import sqlite3
import time
from pathlib import Path

from pyiceberg.catalog import PropertiesUpdateSummary
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog, SqlCatalogBaseTable
from pyiceberg.exceptions import (
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
)
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import EMPTY_DICT, Identifier, Properties
from sqlalchemy import (
    URL,
    ColumnElement,
    Delete,
    Engine,
    Insert,
    MetaData,
    Update,
    create_engine,
    delete,
    event,
    insert,
    inspect,
    make_url,
    select,
    update,
)
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import (
    DBAPIError,
    IntegrityError,
    InterfaceError,
    InternalError,
    NoSuchModuleError,
    OperationalError,
)
from sqlalchemy.orm import Session
from sqlalchemy.schema import CreateTable
from typing_extensions import override

from tableformat.catalogs.commit import Pointer
from tableformat.catalogs.config import PASSWORD_VARIABLES, URI, WAREHOUSE, required
from tableformat.catalogs.namespace_properties import as_text
from tableformat.catalogs.outcomes import (
    CatalogDriverMissingError,
    CatalogUnavailableError,
    CorruptCatalogEntryError,
    LostRace,
    NotApplied,
    OutcomeUnknown,
)
from tableformat.catalogs.pointer_catalog import PointerCatalog
from tableformat.suggestions import nearest

_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_PASSING = (OperationalError, InterfaceError, InternalError)  # the others are about what was asked, not the server
_LOCK_WAIT_SECONDS = 60.0
_PRE_PING = "pool_pre_ping"
# Names differ by case and by accents, and may be of any script; a server's own default compares otherwise.
_EXACT_NAMES = {"mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}
# By SQLAlchemy's names of databases and drivers, the packages that bring them.
_PACKAGES = {
    "postgresql": "psycopg2-binary",
    "postgresql+psycopg2": "psycopg2-binary",
    "postgresql+psycopg": "psycopg[binary]",
    "mysql": "mysqlclient",
    "mysql+mysqldb": "mysqlclient",
    "mysql+pymysql": "PyMySQL",
    "mariadb": "mysqlclient",
    "mariadb+pymysql": "PyMySQL",
    "mssql+pyodbc": "pyodbc",
    "oracle+oracledb": "oracledb",
}
_EXISTS = "exists"  # the row by which a namespace without properties exists; also Iceberg Java's


class SharedSqlCatalog(PointerCatalog, SqlCatalog):
    def __init__(self, name: str, **properties: str) -> None:
        uri, _ = required(name, properties, URI, WAREHOUSE)
        url = make_url(uri)
        require_driver(url)
        if url.get_backend_name() != "sqlite":  # a server that was restarted meanwhile has closed what the pool holds
            properties = {_PRE_PING: "true", **properties}
        super().__init__(name, **properties)

    @override
    def _init_catalog(self) -> None:
        _take_password_from_environment(self.engine)
        event.listen(self.engine, "handle_error", _say_that_it_is_locked, retval=True)
        if self.engine.dialect.name == "sqlite":
            event.listen(self.engine, "connect", _share)
        super()._init_catalog()
        # Not before: by the plain errors PyIceberg tells that its tables have yet to be made, and a database that
        # cannot even be opened may well be a wrong address, for which it is no use to try again.
        event.listen(self.engine, "handle_error", _say_that_it_is_away, retval=True)

    @override
    def create_tables(self) -> None:
        """Several processes may open a new database at once, and each table is made by one of them."""
        for table in SqlCatalogBaseTable.metadata.sorted_tables:
            try:
                with self.engine.begin() as connection:
                    made = table.to_metadata(MetaData())
                    made.kwargs.update(_EXACT_NAMES)
                    connection.execute(CreateTable(made, if_not_exists=True))
            except DBAPIError:  # PostgreSQL can lose this race in spite of IF NOT EXISTS
                if not inspect(self.engine).has_table(table.name):
                    raise

    # --- pointers

    @override
    def read_pointer(self, identifier: Identifier) -> Pointer | None:
        statement = select(IcebergTables.metadata_location, IcebergTables.previous_metadata_location).where(
            *self._is(identifier)
        )
        kind = self._iceberg_type_filter()
        with Session(self.engine) as session:
            row = session.execute(statement if kind is None else statement.where(kind)).one_or_none()
        if row is None:
            return None
        holder = f"the row of {'.'.join(identifier)} in {IcebergTables.__tablename__}"
        if not row.metadata_location:
            raise CorruptCatalogEntryError(
                f"{holder} has no metadata_location: put back the location of the table's current metadata. "
                "Nothing was changed"
            )
        return Pointer(
            location=row.metadata_location,
            version=row.metadata_location,
            holder=holder,
            previous=row.previous_metadata_location or None,
        )

    @override
    def create_pointer(self, identifier: Identifier, location: str, metadata: TableMetadata) -> None:
        namespace = self.namespace_to_string(identifier[:-1])
        self._write(insert(IcebergTables).values(**self._create_table_row(namespace, identifier[-1], location)))

    @override
    def swap_pointer(self, identifier: Identifier, expected: Pointer, location: str, metadata: TableMetadata) -> None:
        # A registration may lead to metadata that knows nothing of what was there before, another table's even.
        is_known = any(entry.metadata_file == expected.location for entry in metadata.metadata_log)
        self._write(
            update(IcebergTables)
            .where(*self._is(identifier), IcebergTables.metadata_location == expected.version)
            .values(metadata_location=location, previous_metadata_location=expected.location if is_known else None)
        )

    @override
    def delete_pointer(self, identifier: Identifier, expected: Pointer) -> None:
        self._write(
            delete(IcebergTables).where(*self._is(identifier), IcebergTables.metadata_location == expected.version)
        )

    @override
    def rename_table(self, from_identifier: str | Identifier, to_identifier: str | Identifier) -> Table:
        source, target = self.rename_identifiers(from_identifier, to_identifier)
        SqlCatalog.rename_table(self, source, target)
        return self.load_table(target)

    def _write(self, statement: Insert | Update | Delete) -> None:
        committing = False
        with Session(self.engine) as session:
            try:
                done = session.execute(statement)
                # PostgreSQL counts no rows of an insert; one that finds the row there fails by its key.
                if not isinstance(statement, Insert) and done.rowcount < 1:  # type: ignore[attr-defined]
                    raise LostRace("the row has changed")
                committing = True
                session.commit()
            except IntegrityError as error:
                raise LostRace("the row exists") from error
            except (CatalogUnavailableError, DBAPIError) as error:
                # Before the transaction's end was asked for, a lost connection ends it without effect; so does a lock.
                unsure = committing and not _is_busy(error.__cause__)
                raise (OutcomeUnknown if unsure else NotApplied)(str(error)) from error

    def _is(self, identifier: Identifier) -> tuple[ColumnElement[bool], ...]:
        return (
            IcebergTables.catalog_name == self.name,
            IcebergTables.table_namespace == self.namespace_to_string(identifier[:-1]),
            IcebergTables.table_name == identifier[-1],
        )

    # --- namespaces

    @override
    def namespace_identifier(self, namespace: str | Identifier, error: type[Exception] | None = None) -> Identifier:
        """The database holds a namespace as one string, so its parts may not look like several."""
        parts = super().namespace_identifier(namespace, error)
        for part in parts:
            if "." in part or part != part.strip():
                raise (error or ValueError)(
                    f"A SQL catalog cannot hold the namespace part {part!r}: it has a dot or outer spaces"
                )
        return parts

    @override
    def has_namespace(self, name: Identifier) -> bool:
        return SqlCatalog.namespace_exists(self, name)

    @override
    def create_namespace(self, namespace: str | Identifier, properties: Properties = EMPTY_DICT) -> None:
        name, text = self.namespace_identifier(namespace), as_text(properties)
        if name[:-1]:
            self._require_namespace(name[:-1])
        try:
            super().create_namespace(name, {**text, _EXISTS: "true"})
        except (IntegrityError, NamespaceAlreadyExistsError) as error:  # PyIceberg's shows the name as a tuple
            raise NamespaceAlreadyExistsError(f"Namespace {'.'.join(name)} already exists") from error

    @override
    def drop_namespace(self, namespace: str | Identifier) -> None:
        name = self.namespace_identifier(namespace, NoSuchNamespaceError)
        self._require_namespace(name)
        if self.list_namespaces(name):
            raise NamespaceNotEmptyError(f"Namespace {'.'.join(name)} is not empty")
        super().drop_namespace(name)

    @override
    def list_tables(self, namespace: str | Identifier) -> list[Identifier]:
        name = self.namespace_identifier(namespace, NoSuchNamespaceError)
        self._require_namespace(name)
        return sorted(super().list_tables(name))

    @override
    def list_namespaces(self, namespace: str | Identifier = ()) -> list[Identifier]:
        if not namespace:
            return sorted(super().list_namespaces())
        name = self.namespace_identifier(namespace, NoSuchNamespaceError)
        self._require_namespace(name)
        return sorted(super().list_namespaces(name))

    @override
    def load_namespace_properties(self, namespace: str | Identifier) -> Properties:
        name = self.namespace_identifier(namespace, NoSuchNamespaceError)
        self._require_namespace(name)
        found = super().load_namespace_properties(name)
        return {key: value for key, value in found.items() if key != _EXISTS}

    @override
    def update_namespace_properties(
        self, namespace: str | Identifier, removals: set[str] | None = None, updates: Properties = EMPTY_DICT
    ) -> PropertiesUpdateSummary:
        name, text = self.namespace_identifier(namespace, NoSuchNamespaceError), as_text(updates)
        self._require_namespace(name)
        return super().update_namespace_properties(name, (removals or set()) - {_EXISTS}, text)


def is_made(uri: str) -> bool:
    """Whether the database and its tables are there. Opening the catalog makes them, SQLite's file included."""
    url = make_url(uri)
    if url.get_backend_name() == "sqlite" and url.database:
        file = Path(url.database)
        if not file.exists() and file.parent.is_dir():
            return False
    require_driver(url)
    engine = create_engine(url)
    _take_password_from_environment(engine)
    try:
        return inspect(engine).has_table(IcebergTables.__tablename__)
    finally:
        engine.dispose()


def require_driver(url: URL) -> None:
    """Raises `CatalogDriverMissingError` where SQLAlchemy cannot speak to such a database here."""
    try:
        url.get_dialect().import_dbapi()
    except NoSuchModuleError:
        meant = nearest(url.drivername, _PACKAGES)
        hint = f"did you mean {meant}?" if meant else "use an address such as postgresql+psycopg://user@host/database"
        raise CatalogDriverMissingError(f"SQLAlchemy knows no databases of {url.drivername!r}; {hint}") from None
    except ImportError as error:
        package = _PACKAGES.get(url.drivername, (error.name or url.drivername).partition(".")[0])
        raise CatalogDriverMissingError(
            f"the driver for databases of {url.drivername} is not installed; install the Python package {package}, in "
            "a cluster into the images of operator and jobs"
        ) from error


def _take_password_from_environment(engine: Engine) -> None:
    """Not into the address: properties travel with a table's storage, to executors, too."""
    variable = PASSWORD_VARIABLES.get(engine.dialect.name)
    password = os.environ.get(variable) if variable else None
    if password is None or engine.url.password is not None:
        return

    def add_password(_dialect: object, _record: object, _arguments: object, parameters: dict[str, object]) -> None:
        parameters["password"] = password

    event.listen(engine, "do_connect", add_password)


def _share(connection: sqlite3.Connection, _: object) -> None:
    """Readers do not wait for a writer (write-ahead log), and writers wait for each other."""
    connection.execute(f"PRAGMA busy_timeout = {int(_LOCK_WAIT_SECONDS * 1000)}")
    deadline = time.monotonic() + _LOCK_WAIT_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").close()
            return
        except sqlite3.OperationalError as error:
            # The change of mode does not wait for the lock by itself.
            if not _is_busy(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def _say_that_it_is_locked(context: ExceptionContext) -> Exception | None:
    """The error to raise instead of SQLAlchemy's, for PyIceberg's statements as for ours; None: leave it."""
    if _is_busy(context.original_exception):
        return CatalogUnavailableError(
            f"the SQLite database stayed locked by another process for {_LOCK_WAIT_SECONDS:g} s: try again later"
        )
    return None


def _say_that_it_is_away(context: ExceptionContext) -> Exception | None:
    if context.is_pre_ping:
        return None  # the pool opens another connection
    if isinstance(context.sqlalchemy_exception, _PASSING) and not _is_busy(context.original_exception):
        return CatalogUnavailableError(
            f"the database of the catalog does not answer ({context.original_exception}): try again later"
        )
    return None


def _is_busy(error: BaseException | None) -> bool:
    # The low byte is the kind, the rest says which lock.
    return isinstance(error, sqlite3.OperationalError) and getattr(error, "sqlite_errorcode", 0) & 0xFF in _BUSY
