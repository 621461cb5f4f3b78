"""Deletes the files of a table that no catalog points to any more.

Files go before what leads to them (data, then manifests, lists, older metadata, the current metadata last), so that a
purge that was cut short can still be understood from what is left. What cannot be deleted is logged and passed over.
"""

import logging
from collections.abc import Iterable

from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestFile
from pyiceberg.table import Table
from pyiceberg.utils.properties import property_as_bool

logger = logging.getLogger(__name__)


def delete_files_of(table: Table) -> None:
    metadata, io = table.metadata, table.io
    manifests = _manifests(table)
    # Data that others may share, as `gc.enabled` = false says, is not ours to delete.
    if property_as_bool(metadata.properties, "gc.enabled", True):
        _delete(io, (path for manifest in manifests.values() for path in _files_of(io, manifest)))
    _delete(io, manifests)
    _delete(io, (snapshot.manifest_list for snapshot in metadata.snapshots if snapshot.manifest_list))
    _delete(io, (statistics.statistics_path for statistics in metadata.statistics))
    _delete(io, (statistics.statistics_path for statistics in metadata.partition_statistics))
    _delete(io, (entry.metadata_file for entry in metadata.metadata_log))
    _delete(io, [table.metadata_location])


def _manifests(table: Table) -> dict[str, ManifestFile]:
    found: dict[str, ManifestFile] = {}
    for snapshot in table.metadata.snapshots:
        try:
            found.update((manifest.manifest_path, manifest) for manifest in snapshot.manifests(table.io))
        except OSError as error:
            logger.warning("manifest list cannot be read: location=%s reason=%s", snapshot.manifest_list, error)
    return found


def _files_of(io: FileIO, manifest: ManifestFile) -> Iterable[str]:
    try:
        entries = manifest.fetch_manifest_entry(io, discard_deleted=False)
    except OSError as error:
        logger.warning("manifest cannot be read: location=%s reason=%s", manifest.manifest_path, error)
        return []
    return [entry.data_file.file_path for entry in entries]


def _delete(io: FileIO, locations: Iterable[str]) -> None:
    for location in dict.fromkeys(locations):
        try:
            io.delete(location)
        except FileNotFoundError:
            continue
        except OSError as error:
            logger.warning("file stays behind: location=%s reason=%s", location, error)
