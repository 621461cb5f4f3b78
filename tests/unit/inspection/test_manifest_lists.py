"""A manifest list that was cut off between blocks is known by what its snapshot says of it."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from pyiceberg.manifest import ManifestFile
from pyiceberg.manifest import write_manifest_list as write_list
from pyiceberg.table.snapshots import Operation, Snapshot, Summary

from tableformat.inspection import UnreadableManifest, read_manifests
from tableformat.inspection.avro_columns import _blocks, parse_avro
from tableformat.maintenance.errors import UnreadableMetadata
from tableformat.maintenance.reachability import Reachability
from tests.unit.inspection.manifests import IO, Folder, data_file


def with_blocks(folder: Path, blocks: Sequence[Sequence[ManifestFile]], **summary: int) -> Snapshot:
    """A snapshot with a list of these blocks, as writers of long lists make them."""
    location = f"file://{folder}/list.avro"
    with write_list(2, IO.new_output(location), 77, None, 9, "deflate") as writer:
        for block in blocks:
            writer.add_manifests(list(block))
    named = {name.replace("_", "-"): str(number) for name, number in summary.items()}
    return Snapshot(
        snapshot_id=77, sequence_number=9, manifest_list=location, summary=Summary(Operation.APPEND, **named)
    )


def cut_to(folder: Path, blocks: int) -> None:
    """What is left of the list are so many of its blocks."""
    path = folder / "list.avro"
    content = path.read_bytes()
    parsed = parse_avro(content)
    ends = [parsed.blocks_at, *(end + 16 for _, _, end in _blocks(content, parsed.blocks_at, parsed.sync))]
    path.write_bytes(content[: ends[blocks]])


def manifests(folder: Path, count: int) -> list[ManifestFile]:
    one = Folder(folder).manifest([data_file()])
    return [ManifestFile(*(one[place] for place in range(len(one)))) for _ in range(count)]


def require_refused(snapshot: Snapshot, reason: str) -> None:
    """By both readers: that of commits, and that of deletions."""
    with pytest.raises(UnreadableManifest, match=reason):
        read_manifests(IO, snapshot)
    with pytest.raises(UnreadableMetadata, match=reason):
        Reachability("db.events", IO).manifests([snapshot])


def require_read(snapshot: Snapshot, count: int) -> None:
    assert len(read_manifests(IO, snapshot)) == count
    Reachability("db.events", IO).manifests([snapshot])


@pytest.mark.parametrize("total", ["total_data_files", "total_delete_files", "total_records"])
def test_a_list_without_manifests_is_refused_where_the_snapshot_has_anything(tmp_path: Path, total: str) -> None:
    snapshot = with_blocks(tmp_path, [manifests(tmp_path, 1)], **{total: 1})
    require_read(snapshot, 1)

    cut_to(tmp_path, 0)

    require_refused(snapshot, "it has no manifests")


@pytest.mark.parametrize("summary", [{}, {"total_data_files": 0, "total_delete_files": 0, "total_records": 0}])
def test_a_snapshot_that_is_empty_may_have_an_empty_list(tmp_path: Path, summary: dict[str, int]) -> None:
    require_read(with_blocks(tmp_path, [], **summary), 0)


def test_a_list_with_fewer_manifests_than_its_snapshot_counts_is_refused(tmp_path: Path) -> None:
    snapshot = with_blocks(
        tmp_path, [manifests(tmp_path, 2), manifests(tmp_path, 1)], manifests_created=1, manifests_kept=2
    )
    require_read(snapshot, 3)

    cut_to(tmp_path, 1)

    require_refused(snapshot, "2 manifests, and 3 by its snapshot's summary")


@pytest.mark.parametrize("block", [16_000, 64_000])
def test_a_list_that_ends_where_its_writer_went_on_is_refused_if_files_are_missing(tmp_path: Path, block: int) -> None:
    _, block_of_one = next(parse_avro(_list_of(tmp_path, 1)).unpacked_blocks())
    full = -(-block // len(block_of_one))
    snapshot = with_blocks(tmp_path, [manifests(tmp_path, full), manifests(tmp_path, 7)], total_data_files=full + 7)
    require_read(snapshot, full + 7)

    cut_to(tmp_path, 1)

    require_refused(snapshot, f"{full} data files, and {full + 7} by its snapshot's summary")


def _list_of(folder: Path, count: int) -> bytes:
    with_blocks(folder, [manifests(folder, count)])
    return (folder / "list.avro").read_bytes()


def test_totals_that_an_engine_got_wrong_do_not_stop_anything(tmp_path: Path) -> None:
    require_read(with_blocks(tmp_path, [manifests(tmp_path, 30)], total_data_files=31, total_records=999), 30)


def test_wrong_totals_do_not_matter_where_manifests_are_counted(tmp_path: Path) -> None:
    snapshot = with_blocks(
        tmp_path, [manifests(tmp_path, 100)], total_data_files=101, manifests_created=100, manifests_kept=0
    )
    require_read(snapshot, 100)
