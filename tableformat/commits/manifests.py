"""Writes manifests of data and of delete files and their lists, for every format version and with every field.

PyIceberg writes manifests of data files, and up to format version 2, only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from types import TracebackType
from typing import Final, cast

from pyiceberg.avro.codecs import AvroCompressionCodec
from pyiceberg.avro.encoder import BinaryEncoder
from pyiceberg.avro.file import AvroOutputFile
from pyiceberg.avro.resolver import resolve_writer
from pyiceberg.avro.writer import Writer
from pyiceberg.io import OutputFile
from pyiceberg.manifest import (
    DATA_FILE_TYPE,
    MANIFEST_LIST_FILE_SCHEMAS,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
    ManifestListWriterV2,
    ManifestWriterV2,
    data_file_with_partition,
    manifest_entry_schema_with_data_file,
)
from pyiceberg.manifest import write_manifest_list as write_older_manifest_list
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import TableProperties
from pyiceberg.typedef import Record, TableVersion
from pyiceberg.types import BinaryType, FixedType, IntegerType, ListType, NestedField, StructType, UnknownType

from tableformat.commits.partition_summaries import partition_summaries
from tableformat.commits.read_back import require_list_as_written, require_manifest_as_written
from tableformat.inspection import manifest_first_row_id, partition_type

_BLOCK_BYTES = 64 * 1024
_REFERENCED_DATA_FILE = 143
_SUMMARIES: Final = 13
"""The position of the partition summaries in a `ManifestFile`."""
# PyIceberg has the ids as long numbers; the specification says int, and Java fails on anything else.
_EQUALITY_IDS = NestedField(
    135, "equality_ids", ListType(element_id=136, element_type=IntegerType(), element_required=True), required=False
)
# Iceberg's names, in Avro's words. Java's manifests do not follow the property, so a table works with any.
_CODECS: Final[Mapping[str, AvroCompressionCodec]] = {
    "gzip": "deflate",
    "deflate": "deflate",
    "zstd": "zstandard",
    "zstandard": "zstandard",
    "bzip2": "bzip2",
    "uncompressed": "null",
    "null": "null",
}


def manifest_codec(properties: Mapping[str, str]) -> AvroCompressionCodec:
    """As the table asks, as far as it can be had: by gzip where it asks for Snappy, or for what nobody knows."""
    return _CODECS.get(properties.get(TableProperties.WRITE_AVRO_COMPRESSION, "").lower(), "deflate")


class FullManifestWriter(ManifestWriterV2):
    """Takes entries as `inspection.manifests.read_entries` gives them, which have every field of version 3."""

    def __init__(
        self,
        format_version: TableVersion,
        content: ManifestContent,
        spec: PartitionSpec,
        schema: Schema,
        output_file: OutputFile,
        snapshot_id: int,
        avro_compression: AvroCompressionCodec,
    ) -> None:
        super().__init__(spec, schema, output_file, snapshot_id, avro_compression)
        self._format_version = format_version
        self._content = content

    def __enter__(self) -> "FullManifestWriter":
        super().__enter__()
        return self

    def content(self) -> ManifestContent:
        return self._content

    @property
    def version(self) -> TableVersion:
        return self._format_version

    @property
    def _meta(self) -> dict[str, str]:
        meta = {**super()._meta, "content": "deletes" if self._content == ManifestContent.DELETES else "data"}
        if self._format_version == 1:
            del meta["content"]
        return meta

    def to_manifest_file(self) -> ManifestFile:
        """Raises `NotAsWritten` if what was written cannot be read."""
        manifest = super().to_manifest_file()
        fields = [manifest[position] for position in range(len(manifest))]
        fields[_SUMMARIES] = partition_summaries(partition_type(self._spec, self._schema), self._partitions)
        complete = ManifestFile(*fields, None)  # no first row id yet
        written = self._output_file.to_input_file()
        require_manifest_as_written(written, complete, self._partitions, self._format_version)
        return complete

    def new_writer(self) -> "_EntryFile":
        return _EntryFile(
            output_file=self._output_file,
            file_schema=entry_schema(self._format_version, self._content, self._spec, self._schema),
            record_schema=_read_schema(self._spec, self._schema),
            schema_name="manifest_entry",
            metadata=self._meta,
        )

    def write_encoded(self, entries: "EncodedEntries") -> None:
        """Entries in the schema of this manifest, with their status."""
        writer = cast("_EntryFile", self._writer)
        for record in entries.records:
            writer.write_record(record)
        self._existing_files += len(entries.records) - entries.deleted
        self._existing_rows += entries.rows
        self._deleted_files += entries.deleted
        self._deleted_rows += entries.deleted_rows
        self._partitions += entries.partitions
        known = [n for n in (self._min_sequence_number, entries.min_sequence_number) if n is not None]
        self._min_sequence_number = min(known, default=None)


@dataclass(frozen=True)
class EncodedEntries:
    """Entries as bytes, `EXISTING` or `DELETED`, and what the list says of a manifest that has them."""

    records: Sequence[bytes]
    rows: int
    """Of the existing ones."""
    partitions: Sequence[Record]
    """Each once."""
    min_sequence_number: int | None
    """Of the existing ones."""
    deleted: int = 0
    deleted_rows: int = 0


class _EntryFile(AvroOutputFile[ManifestEntry]):
    """PyIceberg makes a block of each entry, which is slow to read and compresses badly."""

    def __enter__(self) -> "_EntryFile":
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        super().__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._write_pending()
        super().__exit__(kind, error, trace)

    def write_block(self, objects: list[ManifestEntry]) -> None:
        for entry in objects:
            self.write_record(encoded(self.writer, entry))

    def write_record(self, record: bytes) -> None:
        self._pending.append(record)
        self._pending_bytes += len(record)
        if self._pending_bytes >= _BLOCK_BYTES:
            self._write_pending()

    def _write_pending(self) -> None:
        if not self._pending:
            return
        content, codec = b"".join(self._pending), self.compression_codec()
        if codec is not None:
            content, _ = codec.compress(content)
        self.encoder.write_int(len(self._pending))
        self.encoder.write_int(len(content))
        self.encoder.write(content)
        self.encoder.write(self.sync_bytes)
        self._pending, self._pending_bytes = [], 0


def encoded(writer: Writer, entry: ManifestEntry) -> bytes:
    stream = BytesIO()
    writer.write(BinaryEncoder(stream), entry)
    return stream.getvalue()


def entry_schema(version: TableVersion, content: ManifestContent, spec: PartitionSpec, schema: Schema) -> Schema:
    """Of the entries of a manifest."""
    data_file = _data_file_type(_stored(partition_type(spec, schema)), version)
    if version == 2 and content == ManifestContent.DELETES:
        # Version 2 has this field as well, and losing it would make deletes apply to more files than they do.
        extra = next(field for field in DATA_FILE_TYPE[3].fields if field.field_id == _REFERENCED_DATA_FILE)
        data_file = StructType(*data_file.fields, extra)
    return manifest_entry_schema_with_data_file(version, data_file)


def entry_writer(version: TableVersion, content: ManifestContent, spec: PartitionSpec, schema: Schema) -> Writer:
    """Encodes entries that have every field of version 3."""
    return resolve_writer(
        record_schema=_read_schema(spec, schema), file_schema=entry_schema(version, content, spec, schema)
    )


def _read_schema(spec: PartitionSpec, schema: Schema) -> Schema:
    return manifest_entry_schema_with_data_file(3, _data_file_type(_stored(partition_type(spec, schema)), 3))


def _stored(partitions: StructType) -> StructType:
    """The type of partitions as manifests store it."""
    return StructType(*(_stored_field(field) for field in partitions.fields))


def _stored_field(field: NestedField) -> NestedField:
    if isinstance(field.field_type, FixedType):
        # Iceberg Java writes `fixed` into the schema and reads and writes values with their length nevertheless. As
        # `bytes`, they are what the schema says, and Java reads them as well.
        return field.model_copy(update={"field_type": BinaryType()})
    if isinstance(field.field_type, UnknownType):
        return field.model_copy(update={"required": True})  # Avro has no choice between null and null
    return field


def _data_file_type(partition_type: StructType, version: TableVersion) -> StructType:
    fields = data_file_with_partition(partition_type, version).fields
    return StructType(*(_EQUALITY_IDS if field.field_id == _EQUALITY_IDS.field_id else field for field in fields))


def write_manifest_list(
    output: OutputFile,
    manifests: Sequence[ManifestFile],
    *,
    format_version: TableVersion,
    snapshot_id: int,
    parent_snapshot_id: int | None,
    sequence_number: int,
    first_row_id: int | None,
    avro_compression: AvroCompressionCodec,
) -> int:
    """Write the list, and return how many row ids it gave to manifests that had none."""
    if format_version < 3 or first_row_id is None:
        with write_older_manifest_list(
            format_version, output, snapshot_id, parent_snapshot_id, sequence_number, avro_compression
        ) as writer:
            writer.add_manifests(list(manifests))
        require_list_as_written(output.to_input_file(), manifests, format_version, sequence_number)
        return 0
    numbered, next_row_id = [], first_row_id
    for manifest in manifests:
        if manifest.content == ManifestContent.DATA and manifest_first_row_id(manifest) is None:
            fields = [manifest[position] for position in range(len(manifest) - 1)]
            numbered.append(ManifestFile(*fields, next_row_id))
            next_row_id += (manifest.added_rows_count or 0) + (manifest.existing_rows_count or 0)
        else:
            numbered.append(manifest)
    with _ManifestListWriterV3(output, snapshot_id, parent_snapshot_id, sequence_number, avro_compression) as writer:
        writer.add_manifests(numbered)
    require_list_as_written(output.to_input_file(), numbered, format_version, sequence_number)
    return next_row_id - first_row_id


class _ManifestListWriterV3(ManifestListWriterV2):
    def __enter__(self) -> "_ManifestListWriterV3":
        self._writer = AvroOutputFile[ManifestFile](
            output_file=self._output_file,
            record_schema=MANIFEST_LIST_FILE_SCHEMAS[3],
            file_schema=MANIFEST_LIST_FILE_SCHEMAS[3],
            schema_name="manifest_file",
            metadata={**self._meta, "format-version": "3"},
        )
        self._writer.__enter__()
        return self
