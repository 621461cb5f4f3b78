"""Writes manifests of data and of delete files and their lists, for every format version and with every field.

PyIceberg writes manifests of data files, and up to format version 2, only.
"""

from collections.abc import Sequence

from pyiceberg.avro.codecs import AvroCompressionCodec
from pyiceberg.avro.file import AvroOutputFile
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
from pyiceberg.typedef import TableVersion
from pyiceberg.types import IntegerType, ListType, NestedField, StructType

from tableformat.inspection import manifest_first_row_id

_REFERENCED_DATA_FILE = 143
# PyIceberg has the ids as long numbers; the specification says int, and Java fails on anything else.
_EQUALITY_IDS = NestedField(
    135, "equality_ids", ListType(element_id=136, element_type=IntegerType(), element_required=True), required=False
)


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
        manifest = super().to_manifest_file()
        return ManifestFile(*(manifest[position] for position in range(len(manifest))), None)  # no first row id yet

    def new_writer(self) -> AvroOutputFile[ManifestEntry]:
        partition_type = self._spec.partition_type(self._schema)
        return AvroOutputFile[ManifestEntry](
            output_file=self._output_file,
            file_schema=self._file_schema(partition_type),
            record_schema=manifest_entry_schema_with_data_file(3, _data_file_type(partition_type, 3)),
            schema_name="manifest_entry",
            metadata=self._meta,
        )

    def _file_schema(self, partition_type: StructType) -> Schema:
        version = self._format_version
        data_file = _data_file_type(partition_type, version)
        if version == 2 and self._content == ManifestContent.DELETES:
            # Version 2 has this field as well, and losing it would make deletes apply to more files than they do.
            extra = next(field for field in DATA_FILE_TYPE[3].fields if field.field_id == _REFERENCED_DATA_FILE)
            data_file = StructType(*data_file.fields, extra)
        return manifest_entry_schema_with_data_file(version, data_file)


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
