"""Avro files as columns: every form that a writer may choose, and nothing taken for whole that is not."""

import binascii
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.avro.codecs.bzip2 import BZip2Codec
from pyiceberg.avro.codecs.deflate import DeflateCodec
from pyiceberg.avro.codecs.zstandard_codec import ZStandardCodec

from tableformat.inspection.avro_columns import BrokenAvro, parse_avro, read_columns
from tests.unit.inspection.avro import SYNC, block, field, header, long, text

PLAIN = [field(1, "long"), field(2, "string")]


def columns(content: bytes, *places: int, inline: frozenset[int] = frozenset()) -> list[list[Any]]:
    [table] = read_columns([parse_avro(content, inline=inline)], places)
    return [column.to_pylist() for column in table.columns]


def record(number: int) -> bytes:
    return long(number) + text(f"text {number}")


def test_blocks_of_any_size_give_their_records_in_order() -> None:
    content = (
        header(PLAIN) + block([record(n) for n in range(3)]) + block([]) + block([record(n) for n in range(3, 10)])
    )
    assert columns(content, 0, 1) == [list(range(10)), [f"text {n}" for n in range(10)]]


def snappy(content: bytes) -> bytes:
    compressed: bytes = pa.compress(content, codec="snappy", asbytes=True)
    return compressed + binascii.crc32(content).to_bytes(4, "big")


CODECS: dict[str | None, Callable[[bytes], bytes]] = {
    None: bytes,
    "null": bytes,
    "deflate": lambda content: DeflateCodec.compress(content)[0],
    "zstandard": lambda content: ZStandardCodec.compress(content)[0],
    "bzip2": lambda content: BZip2Codec.compress(content)[0],
    "snappy": snappy,
}


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_of_iceberg_is_read(codec: str | None) -> None:
    written = CODECS[codec](b"".join(record(number) for number in range(500)))
    content = header(PLAIN, codec) + long(500) + text(written) + SYNC
    assert columns(content, 0)[0] == list(range(500))


def test_a_file_without_records_has_columns_without_values() -> None:
    assert columns(header(PLAIN), 0, 1) == [[], []]


def test_files_that_were_written_alike_are_read_together_and_kept_apart() -> None:
    contents = [
        header(PLAIN, sync=bytes([number] * 16)) + block([record(number)] * number, sync=bytes([number] * 16))
        for number in (3, 0, 2)
    ]
    tables = read_columns([parse_avro(content) for content in contents], [0])
    assert [table.columns[0].to_pylist() for table in tables] == [[3, 3, 3], [], [2, 2]]


@pytest.mark.parametrize("cut", [1, 15, 16, 17, 25])
def test_a_file_that_was_cut_off_is_not_taken_for_a_shorter_one(cut: int) -> None:
    content = header(PLAIN) + block([record(1)]) + block([record(2)])
    with pytest.raises(BrokenAvro):
        parse_avro(content[:-cut])


def test_a_file_whose_records_are_not_as_many_as_it_says_is_refused() -> None:
    content = header(PLAIN) + long(2) + text(record(1)) + SYNC
    with pytest.raises(BrokenAvro, match=r"decoded|records"):
        columns(content, 0)


@pytest.mark.timeout(60)  # DataFusion alone would never end
@pytest.mark.parametrize("records", [1, 3, 8191, 8192, 8193, 20_000])
@pytest.mark.parametrize("behind", [b"\0", b"\x80", b"\0" * 40, record(7), record(7) * 9000])
def test_a_block_with_more_bytes_than_its_records_is_refused(records: int, behind: bytes) -> None:
    whole = b"".join(record(number) for number in range(records))
    content = header(PLAIN) + block([record(0)]) + long(records) + text(whole + behind) + SYNC
    with pytest.raises(BrokenAvro, match=r"decoded|records"):
        columns(content, 0)


@pytest.mark.parametrize("records", [8191, 8192, 8193, 20_000])
def test_records_are_as_many_as_were_written(records: int) -> None:
    content = header(PLAIN) + block([record(number) for number in range(records)])
    assert columns(content, 0)[0] == list(range(records))


@pytest.mark.parametrize(
    "content",
    [b"", b"PAR1 and more", header(PLAIN)[:20], header([{"name": "x", "type": "long"}]), header([field(1, "odd")])],
)
def test_what_is_no_avro_file_with_field_ids_is_refused(content: bytes) -> None:
    with pytest.raises(BrokenAvro):
        parse_avro(content)


def test_inner_records_become_columns_even_empty_ones() -> None:
    inner = {"type": "record", "name": "inner", "fields": [field(100, "string"), field(102, empty("r102"))]}
    content = header([field(2, inner), field(3, "int")]) + block([text("a") + long(5), text("b") + long(-6)])
    assert columns(content, 0, 1, inline=frozenset({2, 102})) == [["a", "b"], [5, -6]]


def test_null_may_come_first_or_last_or_alone() -> None:
    fields = [field(1, ["null", "long"]), field(2, ["long", "null"]), field(3, "null"), field(4, ["null"])]
    content = header(fields[:2]) + block([long(0) + long(0) + long(7), long(1) + long(8) + long(1)])
    assert columns(content, 0, 1) == [[None, 8], [7, None]]
    assert [column.is_always_null for column in parse_avro(header(fields)).columns] == [False, False, True, True]


def test_a_type_may_be_defined_once_and_named_again() -> None:
    uuid = {"type": "fixed", "name": "uuid_fixed", "size": 2, "logicalType": "uuid"}
    file = parse_avro(
        header([field(1, ["null", uuid]), field(2, ["null", "uuid_fixed"])])
        + block([long(1) + b"ab" + long(1) + b"cd"])
    )
    [table] = read_columns([file], [0, 1])
    assert table.to_pylist() == [{"c0": b"ab", "c1": b"cd"}]
    assert file.columns[1].avro_type["logicalType"] == "uuid"


def test_logical_types_are_read_as_what_they_are_made_of() -> None:
    fields = [
        field(1, {"type": "int", "logicalType": "date"}),
        field(2, {"type": "long", "logicalType": "timestamp-nanos"}),
        field(3, {"type": "array", "logicalType": "map", "items": pair()}),
        field(4, {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}),
    ]
    entry = long(-3) + long(2**62) + long(1) + long(9) + text(b"\x01") + long(0) + text(b"\xff")
    first, second, third, fourth = columns(header(fields) + block([entry]), 0, 1, 2, 3)
    assert (first, second, fourth) == ([-3], [2**62], [b"\xff"])
    assert third == [[{"f0": 9, "f1": b"\x01"}]]


def empty(name: str) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": []}


def pair() -> dict[str, Any]:
    return {"type": "record", "name": "k1_v2", "fields": [field(117, "int"), field(118, "bytes")]}
