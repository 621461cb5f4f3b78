"""Reads manifests with every field of the newest format version.

PyIceberg reads them in the shape of version 2, without the file that a delete names, the place of a deletion vector
or first row ids; these are needed to know which deletes apply to which file, and to write an entry back complete.
"""

from pyiceberg.avro.decoder import StreamingBinaryDecoder
from pyiceberg.avro.file import SYNC_SIZE, AvroFile, AvroFileHeader, Block
from pyiceberg.io import FileIO, InputFile
from pyiceberg.manifest import (
    MANIFEST_ENTRY_SCHEMAS,
    MANIFEST_LIST_FILE_SCHEMAS,
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    PartitionFieldSummary,
    _inherit_from_manifest,
)
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.types import DoubleType
from typing_extensions import override

from tableformat.inspection.avro_columns import parse_avro
from tableformat.inspection.avro_schemas import with_lengths, without_nanoseconds
from tableformat.inspection.decoding import INLINE, UnreadableManifest
from tableformat.inspection.manifest_lists import ListedManifests, what_is_missing

_FIRST_ROW_ID, _REFERENCED_DATA_FILE, _CONTENT_OFFSET, _CONTENT_SIZE = 16, 17, 18, 19
_MANIFEST_FIRST_ROW_ID = 15
_PATH_FIELD_ID = 2147483546
_SCHEMA_KEY, _HEADER_META = "avro.schema", 1


def read_manifests(io: FileIO, snapshot: Snapshot) -> list[ManifestFile]:
    """The manifests of a snapshot. Raises `UnreadableManifest` if the list of them is broken, or not whole."""
    manifests = listed_manifests(io.new_input(snapshot.manifest_list))
    missing = what_is_missing(snapshot, ListedManifests.of(manifests), lambda: _content(io, snapshot.manifest_list))
    if missing is not None:
        raise UnreadableManifest(snapshot.manifest_list, missing, kind="manifest list")
    return manifests


def _content(io: FileIO, location: str) -> bytes:
    with io.new_input(location).open() as stream:
        return stream.read()


def listed_manifests(manifest_list: InputFile) -> list[ManifestFile]:
    """What the list has, whole or not. Raises `UnreadableManifest` if it is broken."""
    try:
        with AvroFile[ManifestFile](
            manifest_list,
            MANIFEST_LIST_FILE_SCHEMAS[3],
            read_types={-1: ManifestFile, 508: PartitionFieldSummary},
            read_enums={517: ManifestContent},
        ) as reader:
            return list(reader)
    except OSError:
        raise  # of the storage
    except Exception as error:  # PyIceberg's decoder has no error of its own
        reason = f"{type(error).__name__}: {error}"
        raise UnreadableManifest(manifest_list.location, reason, kind="manifest list") from error


def read_entries(io: FileIO, manifest: ManifestFile) -> list[ManifestEntry]:
    """The live entries of a manifest, with what they inherit from it. Raises `UnreadableManifest` if it is broken."""
    entries = [entry for entry in _all_entries(io, manifest) if entry.status != ManifestEntryStatus.DELETED]
    listed = (manifest.added_files_count or 0) + (manifest.existing_files_count or 0)
    if len(entries) < listed:  # one that was cut off between two blocks can be read
        raise UnreadableManifest(manifest.manifest_path, f"it has {len(entries)} files, and {listed} by its list")
    _inherit_row_ids(entries, manifest)
    return entries


def read_removed_entries(io: FileIO, manifest: ManifestFile) -> list[ManifestEntry]:
    """The entries of files that the manifest's snapshot removed."""
    return [entry for entry in _all_entries(io, manifest) if entry.status == ManifestEntryStatus.DELETED]


def _all_entries(io: FileIO, manifest: ManifestFile) -> list[ManifestEntry]:
    try:
        with _EntryFile(
            io.new_input(manifest.manifest_path),
            MANIFEST_ENTRY_SCHEMAS[3],
            read_types={-1: ManifestEntry, 2: DataFile},
            read_enums={0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent},
        ) as reader:
            return [_inherit_from_manifest(entry, manifest) for entry in reader]
    except OSError:
        raise  # of the storage
    except Exception as error:  # PyIceberg's decoder has no error of its own
        raise UnreadableManifest(manifest.manifest_path, repr(error)) from error


class _EntryFile(AvroFile[ManifestEntry]):
    """Reads partition values that PyIceberg's own reader does not read, or not exactly."""

    @override
    def _read_header(self) -> AvroFileHeader:
        header = super()._read_header()
        schema = header.meta[_SCHEMA_KEY]
        if with_lengths(schema) is not None:  # only its records tell whether it is a manifest of Java's
            with self.input_file.open() as stream:
                schema = parse_avro(stream.read(), inline=INLINE).schema
        header[_HEADER_META] = {**header.meta, _SCHEMA_KEY: without_nanoseconds(schema)}
        return header

    @override
    def _read_block(self) -> int:
        # PyIceberg's compiled decoder rounds double numbers; its plain one does not.
        if not any(isinstance(field.field_type, DoubleType) for field in self.schema._lazy_id_to_field.values()):
            return super()._read_block()
        if self.block is not None and self.decoder.read(SYNC_SIZE) != self.header.sync:
            raise ValueError("a block does not end where it should")
        records, content = self.decoder.read_int(), self.decoder.read_bytes()
        if codec := self.header.compression_codec():
            content = codec.decompress(content)
        self.block = Block(self.reader, records, StreamingBinaryDecoder(content))
        return records


def _inherit_row_ids(entries: list[ManifestEntry], manifest: ManifestFile) -> None:
    """Files without row ids of their own take the next ones of their manifest, in its order."""
    next_row_id = manifest_first_row_id(manifest)
    if next_row_id is None or manifest.content != ManifestContent.DATA:
        return
    for entry in entries:
        if first_row_id(entry.data_file) is None:
            entry.data_file[_FIRST_ROW_ID] = next_row_id
            next_row_id += entry.data_file.record_count


def manifest_first_row_id(manifest: ManifestFile) -> int | None:
    value: int | None = manifest[_MANIFEST_FIRST_ROW_ID]
    return value


def first_row_id(file: DataFile) -> int | None:
    value: int | None = file[_FIRST_ROW_ID]
    return value


def forget_first_row_id(file: DataFile) -> None:
    """For a file that is added anew, to which its snapshot will give row ids."""
    file[_FIRST_ROW_ID] = None


def content_range(file: DataFile) -> tuple[int, int] | None:
    """Where a deletion vector is in its Puffin file: offset and length."""
    offset, size = file[_CONTENT_OFFSET], file[_CONTENT_SIZE]
    return None if offset is None or size is None else (offset, size)


def path_bounds(deletes: DataFile) -> tuple[bytes, bytes] | None:
    """The least and the greatest path that a position delete file names; equal if it names one file only."""
    referenced: str | None = deletes[_REFERENCED_DATA_FILE]
    if referenced is not None:
        return referenced.encode(), referenced.encode()
    lower = (deletes.lower_bounds or {}).get(_PATH_FIELD_ID)
    upper = (deletes.upper_bounds or {}).get(_PATH_FIELD_ID)
    return None if lower is None or upper is None else (lower, upper)
