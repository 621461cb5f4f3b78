"""The files of a snapshot in Arrow are those that PyIceberg reads from its manifests, whatever is in them."""

import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyiceberg.avro.codecs import AvroCompressionCodec
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestContent, ManifestEntryStatus, ManifestFile
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record, TableVersion
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from tableformat.inspection import UnreadableManifest, read_entries, snapshot_files
from tableformat.inspection.avro_columns import parse_avro
from tests.inspecting import assert_same_as_pyiceberg
from tests.unit.inspection.avro import block, field, header, long, text
from tests.unit.inspection.manifests import IO, PATH_FIELD_ID, Folder, data_file

longs = st.integers(-(2**63), 2**63 - 1)
VALUES: list[tuple[IcebergType, st.SearchStrategy[Any]]] = [
    (BooleanType(), st.booleans()),
    (IntegerType(), st.integers(-(2**31), 2**31 - 1)),
    (LongType(), longs),
    (FloatType(), st.sampled_from([0.0, -0.0, float("nan"), 1.5, float("inf")])),
    (DoubleType(), st.sampled_from([0.0, -0.0, float("nan"), 0.1, float("-inf")])),
    (DecimalType(9, 2), st.decimals("-9999999.99", "9999999.99", places=2)),
    (DecimalType(38, 10), st.sampled_from([Decimal("-0.0000000001"), Decimal("9" * 28 + "." + "9" * 10)])),
    (DateType(), st.integers(-(2**31), 2**31 - 1)),
    (TimeType(), st.integers(0, 86_400_000_000 - 1)),
    (TimestampType(), longs),
    (TimestamptzType(), longs),
    (TimestampNanoType(), longs),
    (TimestamptzNanoType(), longs),
    (StringType(), st.text(max_size=4)),
    (UUIDType(), st.uuids()),
    (FixedType(5), st.binary(min_size=5, max_size=5)),
    (BinaryType(), st.binary(max_size=4)),
]
VERSIONS: list[TableVersion] = [1, 2, 3]
CODECS: list[AvroCompressionCodec] = ["null", "deflate", "zstandard"]
paths = st.sampled_from(["file:///a", "s3://bucket/b#c?d=e f", "s3://b/ü"])


@st.composite
def entries(draw: st.DrawFn, partition: st.SearchStrategy[Record], content: ManifestContent) -> DataFile:
    arguments: dict[str, Any] = {
        "partition": draw(partition),
        "record_count": draw(st.integers(0, 2**40)),
        "file_size_in_bytes": draw(st.integers(0, 2**50)),
        "sort_order_id": draw(st.none() | st.integers(0, 3)),
        "key_metadata": draw(st.none() | st.just(b"key")),
        "file_format": draw(st.sampled_from(FileFormat)),
        "split_offsets": draw(st.none() | st.just([4, 400])),
        "value_counts": draw(st.none() | st.just({1: 3, 2: 4})),
    }
    if content == ManifestContent.DELETES:
        bound = st.none() | st.dictionaries(st.sampled_from([1, PATH_FIELD_ID]), st.binary(max_size=3), max_size=2)
        arguments |= {
            "content": draw(st.sampled_from([DataFileContent.POSITION_DELETES, DataFileContent.EQUALITY_DELETES])),
            "equality_ids": draw(st.none() | st.lists(st.integers(1, 5), max_size=3)),
            "lower_bounds": draw(bound),
            "upper_bounds": draw(bound),
            "referenced_data_file": draw(st.none() | paths),
            "content_offset": draw(st.none() | st.integers(0, 2**40)),
            "content_size_in_bytes": draw(st.none() | st.integers(0, 2**40)),
        }
    return data_file(draw(paths), **arguments)


@settings(max_examples=25, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(st.data())
def test_arrow_has_what_pyiceberg_reads(data: st.DataObject) -> None:
    columns = data.draw(st.lists(st.sampled_from(VALUES), max_size=3))
    version = data.draw(st.sampled_from(VERSIONS))
    schema = Schema(*(NestedField(n, f"c{n}", kind, required=False) for n, (kind, _) in enumerate(columns, 1)))
    spec = PartitionSpec(
        *(PartitionField(n, 999 + n, IdentityTransform(), f"c{n}") for n in range(1, len(columns) + 1))
    )
    partition = st.builds(Record, *(st.none() | values for _, values in columns))
    with tempfile.TemporaryDirectory() as folder:
        codec = data.draw(st.sampled_from(CODECS))
        files = Folder(Path(folder), version, schema, spec, codec)
        manifests = []
        for number in range(data.draw(st.integers(1, 3))):
            content = ManifestContent.DELETES if version > 1 and number == 2 else ManifestContent.DATA
            chosen = data.draw(st.lists(entries(partition, content), min_size=1, max_size=5))
            statuses = [data.draw(st.sampled_from(ManifestEntryStatus)) for _ in chosen]
            manifests.append(files.manifest(chosen, content, statuses=statuses, sequence_number=4))
        snapshot = files.snapshot(manifests, first_row_id=1000 if version == 3 else None)

        assert_same_as_pyiceberg(IO, snapshot)


def test_an_equality_delete_is_a_whole_file_whatever_its_entry_says_of_a_range(tmp_path: Path) -> None:
    folder = Folder(tmp_path, format_version=3)
    odd = data_file(
        content=DataFileContent.EQUALITY_DELETES, equality_ids=[1], content_offset=4, content_size_in_bytes=40
    )
    snapshot = folder.snapshot([folder.manifest([odd], ManifestContent.DELETES)], first_row_id=0)
    files = assert_same_as_pyiceberg(IO, snapshot)
    assert files.deletes["content_offset"].to_pylist() == [None]


def test_row_ids_are_inherited_by_files_that_have_none(tmp_path: Path) -> None:
    folder = Folder(tmp_path, format_version=3)
    own = data_file("file:///own", first_row_id=5)
    snapshot = folder.snapshot(
        [
            folder.manifest([data_file("file:///a"), own, data_file("file:///b")]),
            folder.manifest([data_file("file:///c")]),
        ],
        first_row_id=100,
    )
    files = snapshot_files(IO, snapshot)
    assert dict(zip(files.data["path"].to_pylist(), files.data["first_row_id"].to_pylist(), strict=True)) == {
        "file:///a": 100,
        "file:///own": 5,
        "file:///b": 110,
        "file:///c": 130,
    }


def test_a_type_that_was_widened_does_not_divide_a_partition(tmp_path: Path) -> None:
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "id"))
    manifests = [
        Folder(tmp_path, schema=Schema(NestedField(1, "id", kind, required=False)), spec=spec).manifest(
            [data_file(f"file:///{kind}", partition=Record(7))]
        )
        for kind in (IntegerType(), LongType())
    ]
    files = snapshot_files(IO, Folder(tmp_path).snapshot(manifests))
    assert files.data["partition"].to_pylist() == [0, 0]
    assert files.partitions.record(0) == Record(7)


def broken(manifest: ManifestFile, content: bytes) -> None:
    Path(manifest.manifest_path.removeprefix("file://")).write_bytes(content)


@pytest.mark.parametrize("content", [b"", b"Obj\x01 and nothing of use"])
def test_a_broken_manifest_is_named_even_among_others(tmp_path: Path, content: bytes) -> None:
    folder = Folder(tmp_path)
    manifests = [folder.manifest([data_file()]) for _ in range(3)]
    snapshot = folder.snapshot(manifests)
    broken(manifests[1], content)
    with pytest.raises(UnreadableManifest, match="cannot be read") as failure:
        snapshot_files(IO, snapshot)
    assert failure.value.path == manifests[1].manifest_path


@pytest.mark.parametrize("content", [b"", b"Obj\x01 and nothing of use", b"junk" * 50])
def test_a_broken_manifest_list_is_named(tmp_path: Path, content: bytes) -> None:
    folder = Folder(tmp_path)
    snapshot = folder.snapshot([folder.manifest([data_file()])])
    Path(snapshot.manifest_list.removeprefix("file://")).write_bytes(content)
    with pytest.raises(UnreadableManifest, match=r"manifest list .* cannot be read") as failure:
        snapshot_files(IO, snapshot)
    assert failure.value.path == snapshot.manifest_list


def test_a_manifest_whose_entries_make_no_sense_is_named_even_among_others(tmp_path: Path) -> None:
    folder = Folder(tmp_path, codec="null")
    manifests = [folder.manifest([data_file()]) for _ in range(3)]
    snapshot = folder.snapshot(manifests)
    path = Path(manifests[2].manifest_path.removeprefix("file://"))
    path.write_bytes(path.read_bytes().replace(b"PARQUET", b"SCROLLS"))
    with pytest.raises(UnreadableManifest, match="unknown format 'SCROLLS'") as failure:
        snapshot_files(IO, snapshot)
    assert failure.value.path == manifests[2].manifest_path


def test_a_manifest_whose_entries_have_no_status_is_refused(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    manifest = folder.manifest([data_file()])
    fields = {"type": "record", "name": "r2", "fields": [field(100, "string"), field(101, "string"), *sizes()]}
    entry = text("file:///a") + text("PARQUET") + long(10) + long(100)
    content = header([field(0, ["null", "int"]), field(2, fields)]) + block([long(0) + entry])
    broken(manifest, content)
    manifest[1] = len(content)
    with pytest.raises(UnreadableManifest, match="entries without a status"):
        snapshot_files(IO, folder.snapshot([manifest]))


def test_a_manifest_that_is_shorter_than_its_list_says_is_refused(tmp_path: Path) -> None:
    """What is left of it can be decoded, and lacks a file."""
    folder = Folder(tmp_path)
    manifest = folder.manifest([data_file()])
    snapshot = folder.snapshot([manifest])
    content = Path(manifest.manifest_path.removeprefix("file://")).read_bytes()
    broken(manifest, content[: parse_avro(content).blocks_at])
    with pytest.raises(UnreadableManifest, match="by its list"):
        snapshot_files(IO, snapshot)
    with pytest.raises(UnreadableManifest, match="by its list"):
        read_entries(IO, manifest)


def sizes() -> list[dict[str, Any]]:
    return [field(103, "long"), field(104, "long")]


def test_a_missing_manifest_is_named(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    manifest = folder.manifest([data_file()])
    snapshot = folder.snapshot([manifest])
    Path(manifest.manifest_path.removeprefix("file://")).unlink()
    with pytest.raises(UnreadableManifest, match="does not exist"):
        snapshot_files(IO, snapshot)


def test_uuids_are_values_of_their_own(tmp_path: Path) -> None:
    schema = Schema(NestedField(1, "id", UUIDType(), required=False))
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "id"))
    value = UUID(int=7)
    folder = Folder(tmp_path, schema=schema, spec=spec)
    files = snapshot_files(IO, folder.snapshot([folder.manifest([data_file(partition=Record(value))])]))
    assert files.partitions.record(0) == Record(value)
