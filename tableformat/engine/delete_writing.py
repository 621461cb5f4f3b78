"""Writes row-level deletes: position delete files of format version 2, and deletion vectors of version 3.

A position delete file here names rows of one data file, and its manifest entry says so: a reader of other files need
not look into it. Vectors of one commit share one Puffin file. Both are as Iceberg's specification has them; PyIceberg
writes neither.
"""

import io
import json
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyroaring import BitMap

Positions = np.ndarray[Any, np.dtype[np.int64]]

PATH_ID, POSITION_ID = 2147483546, 2147483545
_ROW_POSITION_ID = 2147483645  # the metadata column that the specification names for a vector's blob
_POSITION_SCHEMA = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": str(PATH_ID)}),
        pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": str(POSITION_ID)}),
    ]
)
_PUFFIN_MAGIC = b"PFA1"
_VECTOR_MAGIC = b"\xd1\xd3\x39\x64"


@dataclass(frozen=True)
class WrittenDeletes:
    """The deleted rows of one data file, where they were written to."""

    data_file: str
    path: str
    size_bytes: int
    """Of the whole file."""
    records: int
    content_range: tuple[int, int] | None = None
    """Offset and length of a vector in its file."""


def write_position_deletes(io: FileIO, location: str, data_file: str, positions: Positions) -> WrittenDeletes:
    """A Parquet file with the positions, which must be in order."""
    paths = pa.array([data_file]).take(pa.array(np.zeros(len(positions), np.int64)))
    buffer = pa.BufferOutputStream()
    pq.write_table(
        pa.table([paths, pa.array(positions)], schema=_POSITION_SCHEMA), buffer, compression="zstd", store_schema=False
    )
    content = buffer.getvalue()
    _write(io, location, content)
    return WrittenDeletes(data_file, location, content.size, len(positions))


def write_deletion_vectors(io: FileIO, location: str, vectors: Mapping[str, Positions]) -> list[WrittenDeletes]:
    """One Puffin file with the vectors of several data files."""
    content, blobs = puffin_file(vectors)
    _write(io, location, content)
    return [
        WrittenDeletes(data_file, location, len(content), len(vectors[data_file]), blobs[data_file])
        for data_file in vectors
    ]


def puffin_file(vectors: Mapping[str, Positions]) -> tuple[bytes, dict[str, tuple[int, int]]]:
    """The file's bytes, and where in them each vector is."""
    stream = io.BytesIO()
    stream.write(_PUFFIN_MAGIC)
    places: dict[str, tuple[int, int]] = {}
    blobs: list[dict[str, object]] = []
    for data_file, positions in vectors.items():
        blob = _vector_blob(positions)
        places[data_file] = (stream.tell(), len(blob))
        blobs.append(
            {
                "type": "deletion-vector-v1",
                "fields": [_ROW_POSITION_ID],
                "snapshot-id": -1,  # both are inherited from the manifest entry
                "sequence-number": -1,
                "offset": stream.tell(),
                "length": len(blob),
                "properties": {"referenced-data-file": data_file, "cardinality": str(len(positions))},
            }
        )
        stream.write(blob)
    footer = json.dumps({"blobs": blobs, "properties": {"created-by": "Tablewright"}}).encode()
    stream.write(_PUFFIN_MAGIC + footer + struct.pack("<i", len(footer)) + bytes(4) + _PUFFIN_MAGIC)
    return stream.getvalue(), places


def _vector_blob(positions: Positions) -> bytes:
    """Length, magic, a 64-bit Roaring bitmap in its portable form, and a checksum of the last two."""
    keys = positions >> 32
    bitmaps = [(int(key), BitMap((positions[keys == key] & 0xFFFFFFFF).astype(np.uint32))) for key in np.unique(keys)]
    content = bytearray(_VECTOR_MAGIC + struct.pack("<q", len(bitmaps)))
    for key, bitmap in bitmaps:
        bitmap.run_optimize()
        content += struct.pack("<I", key) + bitmap.serialize()
    return struct.pack(">I", len(content)) + bytes(content) + struct.pack(">I", zlib.crc32(content))


def _write(io: FileIO, location: str, content: "bytes | pa.Buffer") -> None:
    with io.new_output(location).create() as stream:
        stream.write(content)
