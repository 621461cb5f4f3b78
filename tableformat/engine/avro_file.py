"""Reads the rows of an Avro file as Arrow batches, a few of its blocks at a time.

DataFusion's reader does the decoding, but the blocks are not left to it: it takes rows that are missing from one for
no error, and never ends where one has bytes too many. So each block, decompressed here, becomes one record of the
file that it is given: an array of the block's rows, and behind it a marker, which is not found where a block is longer
or shorter than its rows are.
"""

import json
from collections.abc import Iterator
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa

from tableformat.avro_bytes import MAGIC, SYNC_BYTES, data_frame, header, long
from tableformat.avro_codecs import DECOMPRESS
from tableformat.engine.avro_types import AvroTypes
from tableformat.engine.restoring import UnknownForm

_READ_BYTES: Final = 1024 * 1024
_PIECE_BYTES: Final = 8 * 1024 * 1024
_PIECE_ROWS: Final = 64 * 1024


class Readable(Protocol):
    def read(self, size: int = ...) -> bytes: ...


class AvroFile:
    """One file, read once from its beginning to its end."""

    def __init__(self, stream: Readable) -> None:
        self._bytes = _Bytes(stream)
        metadata = self._header()
        self._sync = self._bytes.take(SYNC_BYTES)
        self._codec = metadata.get("avro.codec", b"null").decode()
        if self._codec not in DECOMPRESS:
            raise UnknownForm(f"is compressed by {self._codec!r}, which is not one of Iceberg's codecs")
        try:
            rows = AvroTypes().read(json.loads(metadata["avro.schema"]))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise UnknownForm(f"has no Avro schema that can be read: {error!r}") from error
        if not pa.types.is_struct(rows.form.arrow) or rows.nullable:
            raise UnknownForm("is not made of records")
        self._form = rows.form
        self.schema = pa.schema(list(rows.form.arrow))
        fields = [
            {"name": "rows", "type": {"type": "array", "items": rows.plain}},
            {"name": "end", "type": {"type": "fixed", "name": "marker", "size": SYNC_BYTES}},
        ]
        self._plain_schema = json.dumps({"type": "record", "name": "block", "fields": fields})

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows in their order."""
        piece: list[tuple[int, bytes]] = []
        rows = size = 0
        for number, content in self._blocks():
            piece.append((number, content))
            rows, size = rows + number, size + len(content)
            if rows >= _PIECE_ROWS or size >= _PIECE_BYTES:
                yield self._decoded(piece)
                piece, rows, size = [], 0, 0
        if piece:
            yield self._decoded(piece)

    def _header(self) -> dict[str, bytes]:
        if self._bytes.take(len(MAGIC)) != MAGIC:
            raise UnknownForm("is no Avro file")
        metadata: dict[str, bytes] = {}
        while pairs := self._bytes.long():
            if pairs < 0:  # then the size in bytes follows
                self._bytes.long()
            for _ in range(abs(pairs)):
                key = self._bytes.take(self._bytes.long())
                metadata[key.decode(errors="replace")] = self._bytes.take(self._bytes.long())
        return metadata

    def _blocks(self) -> Iterator[tuple[int, bytes]]:
        """How many rows each block has, and its decompressed content."""
        while not self._bytes.at_end():
            number, compressed = self._bytes.long(), self._bytes.take(self._bytes.long())
            if number < 0 or self._bytes.take(SYNC_BYTES) != self._sync:
                raise UnknownForm("has a block that does not end where it should")
            try:
                content = DECOMPRESS[self._codec](compressed)
            except Exception as error:  # each codec has its own
                raise UnknownForm(f"has a block that cannot be decompressed: {error}") from error
            if number:
                yield number, content

    def _decoded(self, blocks: list[tuple[int, bytes]]) -> pa.RecordBatch:
        records = [long(number) + content + long(0) + self._sync for number, content in blocks]
        size = sum(len(record) for record in records)
        parts = (
            header(self._plain_schema, "null", self._sync),
            long(len(records)) + long(size),
            *records,
            self._sync,
        )
        try:
            with data_frame(parts, batch_rows=len(blocks)) as frame:
                # One batch has them all; it is dangerous to ask for another, because that is where it may never end.
                found: Any = next(iter(frame.execute_stream()), None)
        except Exception as error:  # DataFusion raises the class itself
            raise UnknownForm(f"has a block that cannot be decoded: {error}") from error
        if found is None:
            raise UnknownForm("has a block that cannot be decoded")
        decoded: pa.RecordBatch = found.to_pyarrow()
        rows, ends = decoded.column(0), decoded.column(1)
        counts = np.diff(rows.offsets.to_numpy())
        if counts.tolist() != [number for number, _ in blocks] or ends.unique().to_pylist() != [self._sync]:
            raise UnknownForm("has a block whose content is not the rows that it should have")
        restored = self._form.restored(rows.values)
        return pa.RecordBatch.from_arrays(restored.flatten(), schema=self.schema)


class _Bytes:
    """What comes out of a stream, in pieces of its own size."""

    def __init__(self, stream: Readable) -> None:
        self._stream = stream
        self._buffer = b""
        self._position = 0

    def take(self, size: int) -> bytes:
        if size < 0:
            raise UnknownForm("has a negative length within it")
        self._fill(size)
        taken = self._buffer[self._position : self._position + size]
        if len(taken) != size:
            raise UnknownForm("ends in the midst of its content")
        self._position += size
        return taken

    def long(self) -> int:
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
            shift += 7
            if shift > 63:
                raise UnknownForm("has a number within it that is too long")

    def at_end(self) -> bool:
        self._fill(1)
        return self._position == len(self._buffer)

    def _fill(self, size: int) -> None:
        missing = size - (len(self._buffer) - self._position)
        if missing <= 0:
            return
        parts = [self._buffer[self._position :]]
        while missing > 0:
            part = self._stream.read(min(max(missing, _READ_BYTES), _READ_BYTES * 64))
            if not part:
                break
            parts.append(bytes(part))
            missing -= len(part)
        self._buffer, self._position = b"".join(parts), 0
