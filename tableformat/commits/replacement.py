"""What a replace commit does, as a value."""

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from pyiceberg.typedef import Record

from tableformat.engine import WrittenFile


@dataclass(frozen=True)
class AddedFile:
    """A new data file and the partition it belongs to."""

    spec_id: int
    partition: Record
    file: WrittenFile
    moved: bool = False
    """Whether its rows were filed elsewhere before, under another spec."""


@dataclass(frozen=True)
class Replacement:
    """Files that stand for each other: the rows of `removed`, as of the starting snapshot, are the rows of `added`."""

    table_uuid: UUID
    format_version: int
    starting_snapshot_id: int
    removed: Mapping[str, int]
    """Records by the path of each file that goes."""
    added: tuple[AddedFile, ...]
    rows_deleted: int
    run_id: str
    run_name: str = ""
    moved: frozenset[str] = frozenset()
    """Those of the files that go whose rows are filed under another spec now."""

    @property
    def rows_removed(self) -> int:
        return sum(self.removed.values())

    @property
    def rows_added(self) -> int:
        return sum(added.file.records for added in self.added)
