"""Reads a few fields of many Avro files at once: files of one writer are decoded together, straight into Arrow.

A call of the decoder has its price, whatever it decodes, and a long history has thousands of small files.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import pyarrow as pa

from tableformat.inspection.avro_columns import AvroContent, BrokenAvro, parse_avro, read_columns


class BrokenFile(Exception):
    """One of the files cannot be decoded."""

    def __init__(self, location: str, reason: str) -> None:
        super().__init__(reason)
        self.location = location


class AvroFields:
    """Fields by their ids, and the ids of the inner records that have them."""

    def __init__(
        self,
        required: Mapping[int, pa.DataType],
        optional: Mapping[int, pa.DataType] | None = None,
        *,
        inline: frozenset[int] = frozenset(),
    ) -> None:
        self._required = required
        self._fields = {**required, **(optional or {})}
        self._inline = inline

    def read(self, files: Sequence[tuple[str, bytes]]) -> list[list[pa.Array]]:
        """The fields of each file, in their order, those that are optional last.

        An optional field that a file does not have is null in every record. A required one is never null: to take a
        record without a status for one of a dead file would cost a live one.
        """
        parsed = [self._parse(*file) for file in files]
        alike: dict[str, list[int]] = defaultdict(list)
        for number, content in enumerate(parsed):
            alike[content.form].append(number)
        found: dict[int, list[pa.Array]] = {}
        for numbers in alike.values():
            try:
                found.update(zip(numbers, self._decode([parsed[number] for number in numbers]), strict=True))
            except (BrokenAvro, pa.ArrowInvalid) as error:
                if len(numbers) == 1:
                    raise BrokenFile(files[numbers[0]][0], str(error)) from error
                for number in numbers:  # to know which one it is
                    found[number] = self.read([files[number]])[0]
        return [found[number] for number in range(len(files))]

    def _parse(self, location: str, content: bytes) -> AvroContent:
        try:
            return parse_avro(content, inline=self._inline)
        except BrokenAvro as error:
            raise BrokenFile(location, str(error)) from error

    def _decode(self, files: Sequence[AvroContent]) -> list[list[pa.Array]]:
        places = {
            column.field_id: place
            for place, column in enumerate(files[0].columns)
            if column.field_id in self._fields and not column.is_always_null
        }
        if missing := self._required.keys() - places.keys():
            raise BrokenAvro(f"it lacks the fields {sorted(missing)}")
        found = [
            [
                rows[f"c{places[field_id]}"].combine_chunks().cast(kind)
                if field_id in places
                else pa.nulls(rows.num_rows, kind)
                for field_id, kind in self._fields.items()
            ]
            for rows in read_columns(files, list(places.values()))
        ]
        if any(column.null_count for columns in found for column in columns[: len(self._required)]):
            raise BrokenAvro("a record lacks a value that it must have")
        return found
