"""Reads a few fields of an Avro file and skips the rest, which makes a manifest with many statistics cheap to read.

PyIceberg's decoder can skip, and its resolver cannot: it refuses lists and maps that the reader does not ask for. This
gives the decoder readers that were resolved more leniently, and nothing else.
"""

import io
import json
from collections.abc import Iterator

from pyiceberg.avro.decoder import new_decoder
from pyiceberg.avro.file import AvroFile
from pyiceberg.avro.reader import Reader
from pyiceberg.avro.resolver import ReadSchemaResolver, SchemaPartnerAccessor
from pyiceberg.io import InputFile, InputStream
from pyiceberg.schema import Schema, visit_with_partner
from pyiceberg.typedef import Record
from pyiceberg.types import IcebergType
from pyiceberg.utils.schema_conversion import AvroSchemaConversion
from typing_extensions import override

_SCHEMA_KEY = "avro.schema"
_MAX_READERS = 256


class Projection:
    """Files of one writer have one schema: its readers are made once, hold no state of a file, and are kept."""

    def __init__(self, wanted: Schema) -> None:
        self._wanted = wanted
        self._readers: dict[str, Reader] = {}

    def read(self, location: str, content: bytes) -> Iterator[Record]:
        """Each record with the wanted fields alone, in their order."""
        with _ProjectedFile(location, content, self) as file:
            yield from file

    def reader_of(self, written: str) -> Reader:
        reader = self._readers.get(written)
        if reader is None:
            schema = AvroSchemaConversion().avro_to_iceberg(json.loads(written))
            # PyIceberg's own call, whose types its annotations do not admit either.
            reader = visit_with_partner(schema, self._wanted, ReadSchemaResolver(), _Lenient())  # type: ignore
            if len(self._readers) >= _MAX_READERS:
                self._readers.clear()
            self._readers[written] = reader
        return reader


class _ProjectedFile(AvroFile[Record]):
    def __init__(self, location: str, content: bytes, projection: Projection) -> None:
        super().__init__(_Content(location, content))
        self._bytes = content
        self._projection = projection

    @override
    def __enter__(self) -> "_ProjectedFile":
        self.decoder = new_decoder(self._bytes)
        self.header = self._read_header()
        self.reader = self._projection.reader_of(self.header.meta[_SCHEMA_KEY])
        return self


class _Lenient(SchemaPartnerAccessor):
    """What is inside a field that nobody asks for is not asked for either."""

    @override
    def field_partner(self, partner: IcebergType | None, field_id: int, field_name: str) -> IcebergType | None:
        return None if partner is None else super().field_partner(partner, field_id, field_name)

    @override
    def list_element_partner(self, partner_list: IcebergType | None) -> IcebergType | None:
        return None if partner_list is None else super().list_element_partner(partner_list)

    @override
    def map_key_partner(self, partner_map: IcebergType | None) -> IcebergType | None:
        return None if partner_map is None else super().map_key_partner(partner_map)

    @override
    def map_value_partner(self, partner_map: IcebergType | None) -> IcebergType | None:
        return None if partner_map is None else super().map_value_partner(partner_map)


class _Content(InputFile):
    """A file whose bytes are already here."""

    def __init__(self, location: str, content: bytes) -> None:
        super().__init__(location)
        self._content = content

    @override
    def __len__(self) -> int:
        return len(self._content)

    @override
    def exists(self) -> bool:
        return True

    @override
    def open(self, seekable: bool = True) -> InputStream:
        return io.BytesIO(self._content)
