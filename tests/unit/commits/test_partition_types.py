"""Partition values in manifests are what Iceberg Java writes and reads, and what other engines may trust."""

import json
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.avro.file import AvroFile
from pyiceberg.manifest import ManifestContent, ManifestEntry, ManifestFile
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform, VoidTransform
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    LongType,
    NestedField,
    TimestampNanoType,
    TimestamptzNanoType,
    UUIDType,
)

from tableformat.avro_bytes import header, long
from tableformat.commits.read_back import NotAsWritten, require_manifest_as_written
from tableformat.inspection import read_entries
from tableformat.inspection.avro_columns import parse_avro
from tableformat.inspection.decoding import INLINE, decode_manifests, parse_manifest
from tests.unit.inspection.manifests import IO, Folder, data_file

# As Iceberg Java 1.12 wrote it for identity partitions, but for `fixed`, which it encodes as `bytes` all the same.
JAVA_TYPES: list[tuple[IcebergType, Any, Any]] = [
    (BooleanType(), "boolean", True),
    (DateType(), {"type": "int", "logicalType": "date"}, -7),
    (
        DecimalType(20, 10),
        {
            "type": "fixed",
            "name": "decimal_20_10",
            "size": 9,
            "logicalType": "decimal",
            "precision": 20,
            "scale": 10,
        },
        Decimal("-1.0000000000"),
    ),
    (UUIDType(), {"type": "fixed", "name": "uuid_fixed", "size": 16, "logicalType": "uuid"}, uuid.UUID(int=5)),
    (FixedType(7), "bytes", b"\xfe" * 7),
    (
        TimestampNanoType(),
        {"type": "long", "logicalType": "timestamp-nanos", "adjust-to-utc": False},
        -1,
    ),
    (
        TimestamptzNanoType(),
        {"type": "long", "logicalType": "timestamp-nanos", "adjust-to-utc": True},
        2**62,
    ),
]


def folder_of(path: Path, kind: IcebergType, transform: Any = None, *, required: bool = True) -> Folder:
    schema = Schema(NestedField(1, "v", kind, required=required))
    spec = PartitionSpec(PartitionField(1, 1000, transform or IdentityTransform(), "v"))
    return Folder(path, 3, schema, spec)


def content_of(manifest: ManifestFile) -> bytes:
    with IO.new_input(manifest.manifest_path).open() as stream:
        return stream.read()


def partition_schema(content: bytes) -> dict[str, Any]:
    entry = json.loads(parse_avro(content, inline=INLINE).schema)
    [file] = [field for field in entry["fields"] if field["name"] == "data_file"]
    [partition] = [field for field in file["type"]["fields"] if field["name"] == "partition"]
    found: dict[str, Any] = partition["type"]
    return found


@pytest.mark.parametrize(("kind", "avro", "value"), JAVA_TYPES, ids=lambda each: str(each)[:30])
def test_partition_schema_is_that_of_iceberg_java(tmp_path: Path, kind: IcebergType, avro: Any, value: Any) -> None:
    manifest = folder_of(tmp_path, kind).manifest([data_file(partition=Record(value))])
    assert partition_schema(content_of(manifest)) == {
        "type": "record",
        "name": "r102",
        "fields": [{"name": "v", "field-id": 1000, "type": ["null", avro], "default": None}],
    }
    [entry] = read_entries(IO, manifest)
    assert entry.data_file.partition[0] == value


@pytest.mark.parametrize("kind", [LongType(), DecimalType(9, 2), FixedType(4)], ids=str)
def test_void_field_on_required_column_has_no_value(tmp_path: Path, kind: IcebergType) -> None:
    manifest = folder_of(tmp_path, kind, VoidTransform()).manifest([data_file(partition=Record(None))])
    [entry] = read_entries(IO, manifest)
    assert entry.data_file.partition == Record(None)


def test_void_field_whose_column_is_in_no_schema_takes_no_bytes(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, LongType(), VoidTransform())
    folder.schema = Schema(NestedField(2, "other", LongType(), required=False))
    manifest = folder.manifest([data_file(partition=Record(None))])
    assert partition_schema(content_of(manifest))["fields"][0]["type"] == "null"
    [entry] = read_entries(IO, manifest)
    assert entry.data_file.partition == Record(None)


def as_java_writes_fixed(manifest: ManifestFile, size: int) -> bytes:
    """The same records under a schema that says `fixed`."""
    avro = parse_avro(content_of(manifest), inline=INLINE)
    schema = json.loads(avro.schema)
    [file] = [field for field in schema["fields"] if field["name"] == "data_file"]
    [partition] = [field for field in file["type"]["fields"] if field["name"] == "partition"]
    partition["type"]["fields"][0]["type"][1] = {"type": "fixed", "name": f"fixed_{size}", "size": size}
    return header(json.dumps(schema), avro.codec, avro.sync) + avro.content[avro.blocks_at :]


def test_fixed_values_with_lengths_are_read_as_iceberg_java_means_them(tmp_path: Path) -> None:
    values = [b"\x00" * 7, b"\xfe" * 7, b"\x0e" * 7, None]
    folder = folder_of(tmp_path, FixedType(7), required=False)
    manifest = folder.manifest([data_file(f"file:///{n}", partition=Record(value)) for n, value in enumerate(values)])
    content = as_java_writes_fixed(manifest, 7)
    [decoded] = decode_manifests([parse_manifest("java", ManifestContent.DATA, content)])
    assert decoded.entries["partition.0"].to_pylist() == values
    Path(manifest.manifest_path.removeprefix("file://")).write_bytes(content)
    assert [entry.data_file.partition[0] for entry in read_entries(IO, manifest)] == values


def test_fixed_values_without_lengths_are_read_as_their_schema_says(tmp_path: Path) -> None:
    values = [b"\x00" * 7, b"\xfe" * 7, b"\x0e" * 7, None]
    folder = folder_of(tmp_path, FixedType(7), required=False)
    manifest = folder.manifest([data_file(f"file:///{n}", partition=Record(value)) for n, value in enumerate(values)])
    avro = parse_avro(as_java_writes_fixed(manifest, 7), inline=INLINE)
    [(number, block)] = avro.unpacked_blocks()
    for value in values:
        if value is not None:
            block = block.replace(b"\x02\x0e" + value, b"\x02" + value, 1)
    head = as_java_writes_fixed(manifest, 7)
    strict = parse_avro(head, inline=INLINE)
    schema = head[: head.index(strict.sync)]
    plain = schema.replace(b"avro.codec\x0edeflate", b"avro.codec\x08null")
    content = plain + strict.sync + long(number) + long(len(block)) + block + strict.sync
    [decoded] = decode_manifests([parse_manifest("strict", ManifestContent.DATA, content)])
    assert decoded.entries["partition.0"].to_pylist() == values


@pytest.mark.parametrize("kind", [FloatType(), DoubleType()], ids=str)
@pytest.mark.parametrize("values", [(0.0, -0.0), (-0.0, 0.0)])
def test_bounds_of_zeros_have_negative_zero_below_zero(
    tmp_path: Path, kind: IcebergType, values: tuple[float, ...]
) -> None:
    manifest = folder_of(tmp_path, kind).manifest([data_file(partition=Record(value)) for value in values])
    [summary] = manifest.partitions or []
    assert (summary.lower_bound[-1], summary.upper_bound[-1]) == (0x80, 0)  # type: ignore[index]


def test_uuids_that_engines_order_differently_have_no_bounds(tmp_path: Path) -> None:
    positive, negative = uuid.UUID(int=1), uuid.UUID(int=2**128 - 1)
    folder = folder_of(tmp_path, UUIDType())
    mixed = folder.manifest([data_file(partition=Record(value)) for value in (positive, negative)])
    assert mixed.partitions is None
    alike = folder.manifest([data_file(partition=Record(value)) for value in (positive, uuid.UUID(int=9))])
    [summary] = alike.partitions or []
    assert (summary.lower_bound, summary.upper_bound) == (positive.bytes, uuid.UUID(int=9).bytes)


@pytest.mark.parametrize("position", [2, 1, 7, 8, 10, 11, 5], ids=str)
def test_manifest_that_is_not_what_its_list_says_is_refused(tmp_path: Path, position: int) -> None:
    manifest = folder_of(tmp_path, LongType()).manifest([data_file(partition=Record(7))])
    wrong = ManifestFile(*(manifest[place] for place in range(len(manifest))))
    if position == 2:  # a spec id is no claim about entries
        partitions = [Record(8)]
    else:
        partitions = [Record(7)]
        wrong[position] += 1
    with pytest.raises(NotAsWritten, match="Nothing was committed"):
        require_manifest_as_written(IO.new_input(manifest.manifest_path), wrong, partitions, 3)


def test_manifest_that_cannot_be_decoded_is_refused(tmp_path: Path) -> None:
    manifest = folder_of(tmp_path, LongType()).manifest([data_file(partition=Record(7))])
    path = Path(manifest.manifest_path.removeprefix("file://"))
    path.write_bytes(path.read_bytes()[:-20] + bytes(20))
    with pytest.raises(NotAsWritten, match="cannot be read"):
        require_manifest_as_written(IO.new_input(manifest.manifest_path), manifest, [Record(7)], 3)


def test_entries_are_plain_avro_to_pyiceberg(tmp_path: Path) -> None:
    manifest = folder_of(tmp_path, FixedType(3)).manifest([data_file(partition=Record(b"abc"))])
    with AvroFile[ManifestEntry](IO.new_input(manifest.manifest_path)) as reader:
        assert len(list(reader)) == 1
