"""Reads a few fields of an Avro file and skips the rest, which makes a manifest with many statistics cheap to read.

PyIceberg's decoder can skip, and its resolver cannot: it refuses lists and maps that the reader does not ask for. This
gives the decoder readers that were resolved more leniently, and nothing else.
"""

import io
from collections.abc import Iterator

from pyiceberg.avro.file import AvroFile
from pyiceberg.avro.reader import Reader
from pyiceberg.avro.resolver import ReadSchemaResolver, SchemaPartnerAccessor
from pyiceberg.io import InputFile, InputStream
from pyiceberg.schema import Schema, visit_with_partner
from pyiceberg.typedef import Record
from pyiceberg.types import IcebergType
from typing_extensions import override


def read_projected(location: str, content: bytes, wanted: Schema) -> Iterator[Record]:
    """Each record with the wanted fields alone, in their order."""
    with AvroFile[Record](_Content(location, content)) as file:
        file.reader = _resolved(file.schema, wanted)
        yield from file


def _resolved(written: Schema, wanted: Schema) -> Reader:
    # PyIceberg's own call, whose types its annotations do not admit either.
    return visit_with_partner(written, wanted, ReadSchemaResolver(), _Lenient())  # type: ignore


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
