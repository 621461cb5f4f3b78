"""Writes manifests of data and of delete files, for every format version, with every field an entry can have.

PyIceberg writes manifests of data files up to format version 2 only.
"""

from pyiceberg.avro.codecs import AvroCompressionCodec
from pyiceberg.avro.file import AvroOutputFile
from pyiceberg.io import OutputFile
from pyiceberg.manifest import (
    DATA_FILE_TYPE,
    ManifestContent,
    ManifestEntry,
    ManifestWriterV2,
    data_file_with_partition,
    manifest_entry_schema_with_data_file,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.typedef import TableVersion
from pyiceberg.types import StructType

_REFERENCED_DATA_FILE = 143


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

    def new_writer(self) -> AvroOutputFile[ManifestEntry]:
        partition_type = self._spec.partition_type(self._schema)
        return AvroOutputFile[ManifestEntry](
            output_file=self._output_file,
            file_schema=self._file_schema(partition_type),
            record_schema=manifest_entry_schema_with_data_file(3, data_file_with_partition(partition_type, 3)),
            schema_name="manifest_entry",
            metadata=self._meta,
        )

    def _file_schema(self, partition_type: StructType) -> Schema:
        version = self._format_version
        data_file = data_file_with_partition(partition_type, version)
        if version == 2 and self._content == ManifestContent.DELETES:
            # Version 2 has this field as well, and losing it would make deletes apply to more files than they do.
            extra = next(field for field in DATA_FILE_TYPE[3].fields if field.field_id == _REFERENCED_DATA_FILE)
            data_file = StructType(*data_file.fields, extra)
        return manifest_entry_schema_with_data_file(version, data_file)
