"""How the blocks of Avro files are decompressed, for each codec that Iceberg's writers may choose."""

import zlib
from collections.abc import Callable, Mapping
from typing import Final

import pyarrow as pa
from pyiceberg.avro.codecs.bzip2 import BZip2Codec
from pyiceberg.avro.codecs.deflate import DeflateCodec
from pyiceberg.avro.codecs.zstandard_codec import ZStandardCodec

_CRC_BYTES: Final = 4


def _snappy(content: bytes) -> bytes:
    """By PyArrow: PyIceberg's needs a library that is not installed with it."""
    compressed, crc = content[:-_CRC_BYTES], content[-_CRC_BYTES:]
    found: bytes = pa.decompress(compressed, decompressed_size=_length(compressed), codec="snappy", asbytes=True)
    if zlib.crc32(found).to_bytes(_CRC_BYTES, "big") != crc:
        raise ValueError("its checksum is another")
    return found


def _length(compressed: bytes) -> int:
    """Of what Snappy compressed, which it writes first: seven bits to a byte, the last of which has no eighth."""
    size = 0
    for place, byte in enumerate(compressed):
        size |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return size
    raise ValueError("it ends before its length does")


DECOMPRESS: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "null": bytes,
    "deflate": DeflateCodec.decompress,
    "bzip2": BZip2Codec.decompress,
    "zstandard": ZStandardCodec.decompress,
    "snappy": _snappy,
}
"""By the name that a file's header gives. Each raises errors of its own for what it cannot decompress."""
