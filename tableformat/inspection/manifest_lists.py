"""Whether a manifest list is whole, by what its snapshot says of it.

A list that was cut off between two blocks of Avro can be decoded, and nothing says how long it was: to whoever trusts
it, the files of the manifests that it lost are no part of the table. A summary that counts manifests tells for certain.
The totals of a summary do not: each writer derives them from the last one's, and some err. So totals that ask for more
are believed only where the list has no manifest at all, or ends just where its writer would have ended a block that is
not the last one.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pyiceberg.manifest import ManifestContent, ManifestFile
from pyiceberg.table.snapshots import Snapshot

from tableformat.inspection.avro_columns import parse_avro

_TOTALS = ("total-data-files", "total-delete-files", "total-records")
_BLOCK_BYTES = (16_000, 64_000)  # at which the Avro libraries of Rust and Java end a block
_BLOCK_RECORDS = 100  # at which that of Go does
_RECORDS_MORE = 4  # a block ends with the record that goes beyond, which may be longer than most


@dataclass(frozen=True)
class ListedManifests:
    """What a list says that there is."""

    manifests: int
    data_files: int | None
    """That live; unknown where a manifest's are not counted, as format version 1 allows."""

    @classmethod
    def of(cls, manifests: Iterable[ManifestFile]) -> "ListedManifests":
        listed = list(manifests)
        counts = [
            (manifest.added_files_count, manifest.existing_files_count)
            for manifest in listed
            if manifest.content == ManifestContent.DATA
        ]
        files = [added + existing for added, existing in counts if added is not None and existing is not None]
        return cls(len(listed), sum(files) if len(files) == len(counts) else None)


def what_is_missing(snapshot: Snapshot, listed: ListedManifests, content: Callable[[], bytes]) -> str | None:
    """What a snapshot's list lacks by the snapshot's summary. Its content is asked for only where there is a doubt."""
    created, kept = _number(snapshot, "manifests-created"), _number(snapshot, "manifests-kept")
    if created is not None and kept is not None:
        expected = created + kept
        return _said(listed.manifests, expected, "manifests") if listed.manifests < expected else None
    if not listed.manifests:
        totals = ((name, _number(snapshot, name)) for name in _TOTALS)
        return next((f"it has no manifests, and its snapshot's {name} is {n}" for name, n in totals if n), None)
    expected = _number(snapshot, "total-data-files") or 0
    if listed.data_files is None or listed.data_files >= expected or not _ends_with_a_full_block(content()):
        return None
    return _said(listed.data_files, expected, "data files")


def _said(there: int, expected: int, what: str) -> str:
    return f"it has {there} {what}, and {expected} by its snapshot's summary"


def _number(snapshot: Snapshot, name: str) -> int | None:
    value = None if snapshot.summary is None else snapshot.summary.additional_properties.get(name)
    return int(value) if value is not None and value.isdecimal() else None


def _ends_with_a_full_block(content: bytes) -> bool:
    blocks = list(parse_avro(content).unpacked_blocks())
    records, size = blocks[-1][0], len(blocks[-1][1])
    more = _RECORDS_MORE * size / records if records else 0
    return records == _BLOCK_RECORDS or any(least <= size < least + more for least in _BLOCK_BYTES)
