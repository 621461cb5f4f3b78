"""Entries that are carried from manifest to manifest as bytes are those that PyIceberg reads, in every field."""

import tempfile
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyiceberg.manifest import DataFile, ManifestContent, ManifestEntry, ManifestEntryStatus, ManifestFile
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import DecimalType, IcebergType, IntegerType, LongType, NestedField

from tableformat.commits import entries as carrying
from tableformat.commits.entries import CarriedEntries, carried_entries, filtered_entries
from tableformat.commits.manifests import FullManifestWriter
from tableformat.inspection import UnreadableManifest, partition_key, read_entries, read_manifests
from tableformat.inspection.avro_columns import parse_avro
from tests.unit.inspection.avro import block, field, header, long, text
from tests.unit.inspection.manifests import IO, Folder, data_file
from tests.unit.inspection.test_snapshot_files import CODECS, VALUES, VERSIONS, entries

Comparable = tuple[object, ...]
statistics = st.none() | st.dictionaries(st.integers(1, 2**31 - 1), st.integers(0, 2**40), max_size=4)
EMPTY: st.SearchStrategy[frozenset[int]] = st.just(frozenset())
bounds = st.none() | st.dictionaries(st.integers(1, 2**31 - 1), st.binary(max_size=70), max_size=4)


@st.composite
def files_of_a_manifest(draw: st.DrawFn, partition: st.SearchStrategy[Record], content: ManifestContent) -> DataFile:
    file = draw(entries(partition, content))
    for position in range(6, 10):  # column sizes, and counts of values, nulls and NaN
        file[position] = draw(statistics)
    for position in (10, 11):  # lower and upper bounds
        file[position] = draw(bounds)
    if content == ManifestContent.DATA:
        file[16] = draw(st.none() | st.integers(0, 2**50))  # the first row id
    return file


def rewritten(folder: Folder, carried: CarriedEntries, content: ManifestContent) -> ManifestFile:
    output = IO.new_output(f"file://{folder.path}/{uuid.uuid4()}.avro")
    with FullManifestWriter(
        folder.format_version, content, folder.spec, folder.schema, output, 99, folder.codec
    ) as writer:
        writer.write_encoded(carried.part(0, len(carried.records)))
    return writer.to_manifest_file()


def carry(
    folder: Folder, manifests: Sequence[ManifestFile], content: ManifestContent = ManifestContent.DATA
) -> CarriedEntries:
    return carried_entries(
        IO,
        manifests,
        format_version=folder.format_version,
        content=content,
        spec=folder.spec,
        schema=folder.schema,
        order=lambda partition: str(partition_key(0, partition)),
    )


def comparable(entry: ManifestEntry) -> Comparable:
    file = entry.data_file
    rest = [file[position] for position in range(len(file)) if position not in (0, 3)]
    return (
        int(file.content),  # which is no more than a number if the manifest does not say it
        entry.snapshot_id,
        entry.sequence_number,
        entry.file_sequence_number,
        partition_key(file.spec_id, file.partition),
        *(repr(dict(value)) if isinstance(value, Mapping) else repr(value) for value in rest),
    )


def assert_same_entries(
    folder: Folder, manifests: Sequence[ManifestFile], content: ManifestContent = ManifestContent.DATA
) -> None:
    expected = [entry for manifest in manifests for entry in read_entries(IO, manifest)]
    carried = carry(folder, manifests, content)
    assert len(carried.records) == len(expected)
    if not expected:
        return
    written = rewritten(folder, carried, content)
    said = listed(written)
    snapshot = replace(folder, snapshot_id=99).snapshot(
        [written], sequence_number=50, first_row_id=7 if folder.format_version == 3 else None
    )
    (in_its_list,) = read_manifests(IO, snapshot)
    found = read_entries(IO, in_its_list)
    assert {entry.status for entry in found} == {ManifestEntryStatus.EXISTING}
    assert sorted(map(comparable, found), key=repr) == sorted(map(comparable, expected), key=repr)
    keys = [str(partition_key(0, entry.data_file.partition)) for entry in found]
    assert keys == sorted(keys)

    by_pyiceberg = IO.new_output(f"file://{folder.path}/{uuid.uuid4()}.avro")
    with FullManifestWriter(
        folder.format_version, content, folder.spec, folder.schema, by_pyiceberg, 99, folder.codec
    ) as writer:
        for entry in expected:
            writer.existing(entry)
    assert said == listed(writer.to_manifest_file())


def assert_same_but_for_what_leaves(
    folder: Folder,
    manifests: Sequence[ManifestFile],
    content: ManifestContent,
    removed: Mapping[str, frozenset[int]],
) -> None:
    """As PyIceberg would have written them, entry by entry."""
    filtered = filtered_entries(
        IO,
        manifests,
        removed,
        snapshot_id=99,
        format_version=folder.format_version,
        content=content,
        spec=folder.spec,
        schema=folder.schema,
    )
    ours, theirs = (IO.new_output(f"file://{folder.path}/{uuid.uuid4()}.avro") for _ in range(2))
    kind = (folder.format_version, content, folder.spec, folder.schema)
    with FullManifestWriter(*kind, ours, 99, folder.codec) as writer:
        writer.write_encoded(filtered)
    with FullManifestWriter(*kind, theirs, 99, folder.codec) as reference:
        for manifest in manifests:
            for place, entry in enumerate(read_entries(IO, manifest)):
                leaves = place in removed.get(manifest.manifest_path, ())
                (reference.delete if leaves else reference.existing)(entry)
    found, expected = writer.to_manifest_file(), reference.to_manifest_file()
    assert listed(found) == listed(expected)
    assert bytes_of_entries(found) == bytes_of_entries(expected)


def first_of_each(manifests: Sequence[ManifestFile]) -> dict[str, frozenset[int]]:
    return {manifest.manifest_path: frozenset({0}) for manifest in manifests}


def bytes_of_entries(manifest: ManifestFile) -> bytes:
    """In their order, with those of files that have left."""
    with IO.new_input(manifest.manifest_path).open() as stream:
        return b"".join(content for _, content in parse_avro(stream.read()).unpacked_blocks())


def listed(manifest: ManifestFile) -> Comparable:
    """What a manifest list says of it, but for where it is."""
    return tuple(repr(manifest[position]) for position in range(2, len(manifest)))


@pytest.fixture
def only_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is decoded and encoded by PyIceberg."""

    def refuse(*_: object) -> None:
        raise AssertionError("an entry was decoded")

    monkeypatch.setattr(carrying, "read_entries", refuse)


@pytest.mark.usefixtures("only_bytes")
@settings(max_examples=60, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(st.data())
def test_carried_entries_are_what_pyiceberg_reads(data: st.DataObject) -> None:
    """Also those of the format version before, as in a table that was upgraded."""
    columns = data.draw(st.lists(st.sampled_from(VALUES), max_size=3))
    version = data.draw(st.sampled_from(VERSIONS))
    content = data.draw(st.sampled_from(ManifestContent)) if version > 1 else ManifestContent.DATA
    schema = Schema(*(NestedField(n, f"c{n}", kind, required=False) for n, (kind, _) in enumerate(columns, 1)))
    spec = PartitionSpec(
        *(PartitionField(n, 999 + n, IdentityTransform(), f"c{n}") for n in range(1, len(columns) + 1))
    )
    partition = st.builds(Record, *(st.none() | values for _, values in columns))
    with tempfile.TemporaryDirectory() as folder:
        codec = data.draw(st.sampled_from(CODECS))
        target = Folder(Path(folder), version, schema, spec, codec)
        sources = [target, Folder(Path(folder), 2, schema, spec, "deflate")] if version == 3 else [target]
        manifests = []
        for _ in range(data.draw(st.integers(1, 3))):
            chosen = data.draw(st.lists(files_of_a_manifest(partition, content), min_size=1, max_size=5))
            statuses = [data.draw(st.sampled_from(ManifestEntryStatus)) for _ in chosen]
            source = data.draw(st.sampled_from(sources))
            manifests.append(source.manifest(chosen, content, statuses=statuses, sequence_number=4))
        snapshot = target.snapshot(manifests, first_row_id=1000 if version == 3 else None)

        listed_manifests = read_manifests(IO, snapshot)
        assert_same_entries(target, listed_manifests, content)
        live = {each.manifest_path: len(read_entries(IO, each)) for each in listed_manifests}
        if any(live.values()):
            places = {path: st.frozensets(st.sampled_from(range(n))) if n else EMPTY for path, n in live.items()}
            removed = data.draw(st.fixed_dictionaries(places))
            assert_same_but_for_what_leaves(target, listed_manifests, content, removed)


@pytest.mark.parametrize(
    ("before", "after", "is_copied"),
    [(IntegerType(), LongType(), True), (DecimalType(9, 2), DecimalType(20, 2), False)],
)
def test_a_partition_type_may_have_been_widened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: IcebergType, after: IcebergType, is_copied: bool
) -> None:
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "id"))
    value = 7 if is_copied else Decimal("7.25")
    old, new = (
        Folder(tmp_path, 2, Schema(NestedField(1, "id", kind, required=False)), spec) for kind in (before, after)
    )
    made = [
        old.manifest([data_file("file:///old", partition=Record(value))]),
        new.manifest([data_file("file:///new", partition=Record(value))]),
    ]
    manifests = read_manifests(IO, new.snapshot(made))
    decoded: list[str] = []

    def noting(io: Any, manifest: ManifestFile) -> list[ManifestEntry]:
        decoded.append(manifest.manifest_path)
        return read_entries(io, manifest)

    monkeypatch.setattr(carrying, "read_entries", noting)

    assert_same_entries(new, manifests)
    assert_same_but_for_what_leaves(new, manifests, ManifestContent.DATA, first_of_each(manifests))
    assert set(decoded) == (set() if is_copied else {made[0].manifest_path})


def test_a_version_1_manifest_in_a_version_2_table_is_decoded(tmp_path: Path) -> None:
    """It does not say which content its files have, and a manifest of version 2 must."""
    made = [Folder(tmp_path, 1).manifest([data_file("file:///old")]), Folder(tmp_path, 2).manifest([data_file()])]
    manifests = read_manifests(IO, Folder(tmp_path, 2).snapshot(made))
    assert_same_entries(Folder(tmp_path, 2), manifests)
    assert_same_but_for_what_leaves(Folder(tmp_path, 2), manifests, ManifestContent.DATA, first_of_each(manifests[:1]))


def test_an_unusual_manifest_among_others_is_decoded(tmp_path: Path) -> None:
    """Its list of offsets says how many bytes it has, which a writer may do."""
    of_one, with_its_size = long(1) + long(4), long(-1) + long(1) + long(4)
    made = [
        handmade(tmp_path / f"made-{number}.avro", ManifestEntryStatus.ADDED, long(1) + offsets + long(0))
        for number, offsets in enumerate([of_one, with_its_size, of_one])
    ]
    manifests = read_manifests(IO, Folder(tmp_path).snapshot(made))
    assert [entry.data_file.split_offsets for each in manifests for entry in read_entries(IO, each)] == [[4]] * 3
    assert_same_entries(Folder(tmp_path), manifests)


def test_an_existing_entry_without_a_sequence_number_is_refused(tmp_path: Path) -> None:
    made = [handmade(tmp_path / "made.avro", ManifestEntryStatus.EXISTING, long(0))]
    with pytest.raises(UnreadableManifest, match=r"made\.avro"):
        carry(Folder(tmp_path), read_manifests(IO, Folder(tmp_path).snapshot(made)))


def handmade(path: Path, status: ManifestEntryStatus, offsets: bytes) -> ManifestFile:
    """A manifest with one entry, which has no sequence numbers."""
    array = {"type": "array", "items": "long", "element-id": 133}
    plain = {134: "int", 100: "string", 101: "string", 103: "long", 104: "long", 132: ["null", array]}
    of_file = [field(field_id, avro_type) for field_id, avro_type in plain.items()]
    of_file.insert(3, field(102, {"type": "record", "name": "r102", "fields": []}))
    fields = [
        field(0, "int"),
        *(field(field_id, ["null", "long"]) for field_id in (1, 3, 4)),
        field(2, {"type": "record", "name": "r2", "fields": of_file}),
    ]
    head = long(status.value) + long(1) + long(77) + long(0) + long(0)
    file = long(0) + text(f"file:///{path.stem}") + text("PARQUET") + long(10) + long(100) + offsets
    path.write_bytes(header(fields) + block([head + file]))
    manifest = Folder(path.parent).manifest([data_file()])
    manifest[0], manifest[1] = f"file://{path}", path.stat().st_size
    return manifest
