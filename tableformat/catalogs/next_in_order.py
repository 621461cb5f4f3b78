"""A snapshot's numbers come from the table's one count, which all of its branches share.

A commit to one branch leaves the others where they were, and takes the numbers that somebody else has reckoned with for
a snapshot on another. PyIceberg would fail for good then, or let the table's sequence number go back; whereas a commit
that merely lost its race is made again.
"""

from typing import Literal

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table.metadata import TableMetadata, TableMetadataV3
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import ValidatableTableRequirement
from typing_extensions import override


class NextInOrder(ValidatableTableRequirement):
    """The snapshot's sequence number and row ids are still free."""

    type: Literal["tablewright-next-in-order"] = "tablewright-next-in-order"
    sequence_number: int
    first_row_id: int | None

    @classmethod
    def of(cls, snapshot: Snapshot) -> "NextInOrder":
        return cls(sequence_number=snapshot.sequence_number or 0, first_row_id=snapshot.first_row_id)

    @override
    def validate(self, base_metadata: TableMetadata | None) -> None:  # type: ignore[override]  # as PyIceberg's own do
        if base_metadata is None:
            raise CommitFailedException("Requirement failed: current table metadata is missing")
        if base_metadata.format_version > 1 and self.sequence_number < base_metadata.next_sequence_number():
            raise CommitFailedException(f"Requirement failed: sequence number {self.sequence_number} is taken")
        if isinstance(base_metadata, TableMetadataV3) and (
            self.first_row_id is None or self.first_row_id < (base_metadata.next_row_id or 0)
        ):
            raise CommitFailedException(f"Requirement failed: row id {self.first_row_id} is taken")
