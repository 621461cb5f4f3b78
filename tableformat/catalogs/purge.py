"""Deletes the files of a table that no catalog points to any more.

Files go before what leads to them (data, then manifests, lists, older metadata, the current metadata last), so a purge
that was cut short goes on from its metadata file, and is over when that one is gone. Where some file cannot be deleted,
what leads to it stays as well; and so it does where a file cannot be read that leads to others.
"""

import logging
from collections.abc import Iterable, Iterator
from itertools import islice

from pyiceberg.catalog import Catalog
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.manifest import ManifestFile
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import Table
from pyiceberg.typedef import Identifier

from tableformat.properties import may_delete_files
from tableformat.storage import open_store

logger = logging.getLogger(__name__)

_DELETED_AT_A_TIME = 10_000


def dropped_table(catalog: Catalog, identifier: Identifier, metadata_location: str) -> Table | None:
    """A table that its catalog does not have any more, as its metadata file tells of it; None if that is gone, too."""
    io = load_file_io(catalog.properties, metadata_location)
    try:
        metadata = FromInputFile.table_metadata(io.new_input(metadata_location))
    except FileNotFoundError:
        return None
    return Table(identifier, metadata, metadata_location, io, catalog)


def delete_files_of(table: Table) -> dict[str, str]:
    """What stays behind, by location, and why: it is there for the next attempt, with all that leads to it."""
    store, seen = open_store(table.io), set[str]()
    try:
        for files in _in_order(table):
            remaining = (location for location in files if location not in seen and not seen.add(location))  # type: ignore[func-returns-value]
            while batch := list(islice(remaining, _DELETED_AT_A_TIME)):
                failed = store.delete(batch).failed
                for location, reason in failed.items():
                    logger.warning("file stays behind: location=%s reason=%s", location, reason)
                if failed:
                    return failed
    except _UnreadableError as error:
        logger.warning("files stay behind: location=%s reason=%s", error.location, error)
        return {error.location: str(error)}
    return {}


class _UnreadableError(Exception):
    """What a file leads to cannot be told for now: were it deleted, nothing would lead there any more."""

    def __init__(self, location: str, cause: Exception) -> None:
        super().__init__(f"it cannot be read, and so what it leads to stays ({cause})")
        self.location = location


def _in_order(table: Table) -> Iterator[Iterable[str]]:
    metadata, io = table.metadata, table.io
    manifests = _manifests(table)
    # Data that others may share, as `gc.enabled` = false says, is not ours to delete.
    if may_delete_files(metadata.properties):
        yield (path for manifest in manifests.values() for path in _files_of(io, manifest))
    yield manifests
    yield (snapshot.manifest_list for snapshot in metadata.snapshots if snapshot.manifest_list)
    yield (statistics.statistics_path for statistics in (*metadata.statistics, *metadata.partition_statistics))
    yield (entry.metadata_file for entry in metadata.metadata_log)
    yield [table.metadata_location]


def _manifests(table: Table) -> dict[str, ManifestFile]:
    found: dict[str, ManifestFile] = {}
    for snapshot in table.metadata.snapshots:
        try:
            found.update((manifest.manifest_path, manifest) for manifest in snapshot.manifests(table.io))
        except FileNotFoundError:
            continue  # an earlier attempt came that far
        except Exception as error:
            raise _UnreadableError(snapshot.manifest_list, error) from error
    return found


def _files_of(io: FileIO, manifest: ManifestFile) -> Iterable[str]:
    try:
        entries = manifest.fetch_manifest_entry(io, discard_deleted=False)
    except FileNotFoundError:
        return []
    except Exception as error:  # PyIceberg's decoder has no error of its own
        raise _UnreadableError(manifest.manifest_path, error) from error
    return [entry.data_file.file_path for entry in entries]
