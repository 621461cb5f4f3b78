"""What a store offers, and what it says of its work."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

UNKNOWN_TIME = 2**63 - 1
"""When a file was written of which the storage does not say it: later than any time, so that it counts as young."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file that is there, under the exact name that deletes it."""

    location: str
    size_bytes: int
    modified_ms: int


@dataclass(frozen=True)
class Deleted:
    """What became of the files that were to be deleted: all of them are in one of these."""

    deleted: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    failed: dict[str, str] = field(default_factory=dict)
    """Why, by location."""

    @classmethod
    def merged(cls, outcomes: "Iterable[Deleted]") -> "Deleted":
        deleted: list[str] = []
        missing: list[str] = []
        failed: dict[str, str] = {}
        for outcome in outcomes:
            deleted += outcome.deleted
            missing += outcome.missing
            failed |= outcome.failed
        return cls(tuple(deleted), tuple(missing), failed)


class FileStore(Protocol):
    def files(self, folder: str) -> Iterator[StoredFile]:
        """Every file below the folder, in any order; none if there is no such folder. Raises where a listing fails."""
        ...

    def delete(self, locations: Collection[str]) -> Deleted:
        """Delete them all, as many as can be. Storage that does not say so counts a missing file as deleted."""
        ...
