"""Avro files cut into records and fields: at the right bytes, or not at all."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tableformat.inspection.avro_columns import BrokenAvro, parse_avro
from tableformat.inspection.avro_records import UnusualAvro, raw_records
from tests.unit.inspection.avro import SYNC, block, field, header, long, text

PAIR = {
    "type": "record",
    "name": "pair",
    "fields": [{"name": "key", "type": "int"}, {"name": "value", "type": "bytes"}],
}
numbers = st.one_of(st.integers(-(2**63), 2**63 - 1), st.sampled_from([0, -1, 63, 64, -64, -65, 8191, 8192]))
texts = st.text(max_size=70)
fixed = st.binary(min_size=3, max_size=3)
pairs = st.builds(lambda key, value: long(key) + text(value), st.integers(-(2**31), 2**31 - 1), st.binary(max_size=70))


def array(items: Sequence[bytes]) -> bytes:
    return (long(len(items)) + b"".join(items) if items else b"") + long(0)


def optional(values: st.SearchStrategy[bytes], null: int = 0) -> st.SearchStrategy[bytes]:
    return st.just(long(null)) | values.map(lambda value: long(1 - null) + value)


TYPES: list[tuple[Any, st.SearchStrategy[bytes]]] = [
    ("long", numbers.map(long)),
    ("int", st.integers(-(2**31), 2**31 - 1).map(long)),
    ("boolean", st.sampled_from([b"\x00", b"\x01"])),
    ("float", st.just(b"\x00\x00\xc0\x3f")),
    ("double", st.just(b"\x00" * 6 + b"\xf8\x7f")),
    ("string", texts.map(text)),
    ("bytes", st.binary(max_size=200).map(text)),
    ("null", st.just(b"")),
    ({"type": "fixed", "name": "three", "size": 3}, fixed),
    (["null", "long"], optional(numbers.map(long))),
    (["string", "null"], optional(texts.map(text), null=1)),
    (["null", {"type": "array", "items": "long"}], optional(st.lists(numbers.map(long), max_size=70).map(array))),
    ({"type": "array", "items": PAIR}, st.lists(pairs, max_size=5).map(array)),
    (["null", {"type": "array", "items": PAIR}], optional(st.lists(pairs, max_size=70).map(array))),
]


def named(avro_type: Any, name: str) -> Any:
    """A type may be defined once only under its name."""
    if isinstance(avro_type, list):
        return [named(choice, name) for choice in avro_type]
    if isinstance(avro_type, dict):
        fresh = {key: named(value, name) if key == "items" else value for key, value in avro_type.items()}
        return fresh | ({"name": name} if "name" in avro_type else {})
    return avro_type


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_every_field_is_cut_where_it_was_written(data: st.DataObject) -> None:
    types = data.draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=5))
    fields = [field(number, named(avro_type, f"t{number}")) for number, (avro_type, _) in enumerate(types)]
    if all(avro_type == "null" for avro_type, _ in types):
        fields.append(field(99, "long"))
        types = [*types, TYPES[0]]
    files, expected = [], []
    for number in range(data.draw(st.integers(1, 2))):
        sync = bytes([number]) * 16
        content = header(fields, "deflate", sync)
        for _ in range(data.draw(st.integers(0, 2))):
            records = data.draw(st.lists(st.tuples(*(values for _, values in types)), max_size=4))
            expected += records
            content += block([b"".join(record) for record in records], "deflate", sync)
        files.append(parse_avro(content))

    raw = raw_records(files, cuts=range(len(fields) + 1))

    bounds = list(zip(*(raw.starts[place].tolist() for place in range(len(fields) + 1)), strict=True))
    cut = [tuple(raw.content[start:stop] for start, stop in pairwise(places)) for places in bounds]
    assert cut == expected


def test_columns_that_are_kept_come_with_the_records() -> None:
    content = header([field(1, "long"), field(2, "string")]) + block([long(n) + text("x" * n) for n in range(20_000)])
    raw = raw_records([parse_avro(content)], cuts=[1, 2], keep=[0])
    assert raw.columns[0].to_pylist() == list(range(20_000))
    assert raw.content[raw.starts[1][19_000] : raw.starts[2][19_000]] == text("x" * 19_000)


@pytest.mark.parametrize(
    "unusual",
    [
        pytest.param(b"\x82\x00" + long(0), id="a number with a leading zero"),
        pytest.param(long(1) + long(-1) + long(1) + long(7) + long(0), id="a list that says its size"),
        pytest.param(long(1) + long(1) + long(7) + long(1) + long(7) + long(0), id="a list in two parts"),
    ],
)
def test_what_takes_more_bytes_than_it_needs_is_refused(unusual: bytes) -> None:
    """Here the cuts would be wrong, though the record can be read."""
    fields = [field(1, "long"), field(2, {"type": "array", "items": "long"})]
    usual = long(1) + array([long(7)])
    with pytest.raises(UnusualAvro):
        raw_records([parse_avro(header(fields) + block([usual, unusual, usual]))], cuts=[0, 1, 2])
    assert raw_records([parse_avro(header(fields) + block([usual, usual]))], cuts=[2]).starts[2].tolist() == [4, 8]


@pytest.mark.timeout(60)  # DataFusion alone would never end
def test_a_block_with_more_bytes_than_its_records_is_refused() -> None:
    content = header([field(1, "long")]) + long(2) + text(long(1) + long(2) + b"\0\0") + SYNC
    with pytest.raises(UnusualAvro):
        raw_records([parse_avro(content)], cuts=[0])


def test_types_that_no_manifest_has_are_refused() -> None:
    content = header([field(1, {"type": "map", "values": "long"})]) + block([long(0)])
    with pytest.raises(UnusualAvro):
        raw_records([parse_avro(content)], cuts=[0])


def test_a_block_that_cannot_be_unpacked_is_broken() -> None:
    content = header([field(1, "long")], "deflate") + long(1) + text(b"no deflated bytes") + SYNC
    with pytest.raises(BrokenAvro):
        raw_records([parse_avro(content)], cuts=[0])
