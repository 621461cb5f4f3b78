"""What is written and read of Avro's container format, and how DataFusion is given such a file from memory.

Whoever reads Avro here gives DataFusion a header of its own making, so that it meets only what it is known to decode
exactly.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from datafusion import DataFrame

MAGIC: Final = b"Obj\x01"
SYNC_BYTES: Final = 16


def header(schema: str, codec: str, sync: bytes) -> bytes:
    pairs = (("avro.schema", schema), ("avro.codec", codec))
    encoded = b"".join(_text(word) for pair in pairs for word in pair)
    return MAGIC + long(len(pairs)) + encoded + long(0) + sync


def long(value: int) -> bytes:
    """Of a number that is not negative."""
    value, encoded = value << 1, bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def _text(text: str) -> bytes:
    encoded = text.encode()
    return long(len(encoded)) + encoded


@contextmanager
def data_frame(parts: Iterable[bytes | bytearray | memoryview], *, batch_rows: int) -> Iterator["DataFrame"]:
    """The parts, one after the other, as one Avro file."""
    from datafusion import SessionConfig, SessionContext  # a large library, which only some processes need

    # A file in memory leaves nothing behind when the process is killed, and its name needs no quoting.
    descriptor = os.memfd_create("avro")
    try:
        with open(descriptor, "wb", closefd=False) as target:
            for part in parts:
                target.write(part)
        # A context of its own, because descriptors are used again: nothing may be remembered by their names. One
        # partition keeps the records in their order.
        context = SessionContext(SessionConfig().with_target_partitions(1).with_batch_size(batch_rows))
        yield context.read_avro(f"/proc/self/fd/{descriptor}", file_extension="")
    finally:
        os.close(descriptor)
