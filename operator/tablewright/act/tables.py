"""Removes a table, as its object's deletion policy says.

A purge can be cut short at any moment. So it is noted, with the metadata file that leads to everything else, before the
pointer goes; whoever finds that note and no table goes on from there.
"""

from collections.abc import Callable, Sequence

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError

from tableformat.catalogs.locations import places_of
from tableformat.catalogs.pointer_catalog import PointerCatalog
from tableformat.catalogs.purge import delete_files_of, dropped_table
from tableformat.declaration import TableLocation
from tableformat.errors import PermanentError, TransientError
from tableformat.plurals import plural


class PurgeIncompleteError(TransientError):
    """Some of the table's files are still there."""

    def __init__(self, left: dict[str, str]) -> None:
        location, reason = next(iter(left.items()))
        super().__init__(f"could not delete {plural(len(left), 'file')}, such as {location}: {reason}")


class FilesOfAnotherError(PermanentError):
    """Another table is where the purged one was."""


def drop_table(catalog: Catalog, identifier: tuple[str, str]) -> None:
    """Idempotent: a table that is gone already was dropped by an earlier attempt."""
    try:
        catalog.drop_table(identifier)
    except NoSuchTableError:
        return


def purge_table(catalog: Catalog, identifier: tuple[str, str], uuid: str, note: Callable[[str], None]) -> None:
    """`note` is told of the table's metadata file before anything goes. A table of another uuid is another table."""
    from pyiceberg.catalog.rest import RestCatalog  # where there is one, it was loaded long ago

    if isinstance(catalog, RestCatalog):
        catalog.purge_table(identifier)  # the server's to do, and to resume
        return
    table = catalog.load_table(identifier)
    if str(table.metadata.table_uuid) != uuid:  # made since it was looked at
        raise FilesOfAnotherError(f"the catalog has another table under the name {'.'.join(identifier)}")
    note(table.metadata_location)
    if isinstance(catalog, PointerCatalog):
        catalog.drop_version(table)
    else:
        catalog.drop_table(identifier)
    _complete(delete_files_of(table))


def finish_purge(
    catalog: Catalog,
    identifier: tuple[str, str],
    metadata_location: str,
    overlapping: Callable[[Sequence[str]], TableLocation | None],
) -> None:
    """Deletes what a purge that was cut short has left. `overlapping` is asked for another table at the same place: one
    that somebody renamed before it could be dropped must not lose its files."""
    table = dropped_table(catalog, identifier, metadata_location)
    if table is None:
        return
    other = overlapping(places_of(table.metadata.location, table.metadata.properties))
    if other is not None:
        raise FilesOfAnotherError(f"its files are left alone: {'.'.join(other.identifier)} is at {other.location}")
    _complete(delete_files_of(table))


def _complete(left: dict[str, str]) -> None:
    if left:
        raise PurgeIncompleteError(left)
