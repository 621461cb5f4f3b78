"""Reads new manifests and manifest lists back before a commit: what nobody can read must not become part of a table.

A manifest is decoded under its own schema, and what it holds must be what its writer was given and what its list will
say of it. The decoder reads columns, so this costs a small part of what writing costs.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow.compute as pc
from pyiceberg.io import InputFile
from pyiceberg.manifest import UNASSIGNED_SEQ, ManifestContent, ManifestEntryStatus, ManifestFile
from pyiceberg.typedef import Record, TableVersion

from tableformat.errors import PermanentError
from tableformat.inspection import integers, listed_manifests, manifest_first_row_id, partition_key
from tableformat.inspection.decoding import UnreadableManifest, decode_whole, parse_manifest
from tableformat.inspection.snapshot_files import number_partitions


class NotAsWritten(PermanentError):
    """A file of a commit does not read back as what was written; committing it could lose rows."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(
            f"{path} does not read back as it was written: {reason}. Nothing was committed. Please report this defect."
        )


def require_manifest_as_written(
    file: InputFile, manifest: ManifestFile, partitions: Iterable[Record], version: TableVersion
) -> None:
    """`manifest` is what the list will say, and `partitions` are those of its entries, each at least once."""
    found = _claims(file, manifest, version)
    expected = {
        "length": manifest.manifest_length,
        "files": (manifest.added_files_count, manifest.existing_files_count, manifest.deleted_files_count),
        "rows": (manifest.added_rows_count, manifest.existing_rows_count, manifest.deleted_rows_count),
        "least sequence number": manifest.min_sequence_number if version > 1 else None,
        "entries without a sequence number that must have one": 0,
        "partitions": {partition_key(manifest.partition_spec_id, partition) for partition in partitions},
    }
    for claim, value in expected.items():
        if found[claim] != value:
            raise NotAsWritten(manifest.manifest_path, f"{claim}: {found[claim]} instead of {value}")


def _claims(file: InputFile, manifest: ManifestFile, version: TableVersion) -> dict[str, object]:
    with file.open() as stream:
        content = stream.read()
    try:
        decoded = decode_whole(parse_manifest(file.location, manifest.content, content))
    except UnreadableManifest as error:
        raise NotAsWritten(file.location, str(error)) from error
    entries = decoded.entries
    status, rows = integers(entries, "status"), integers(entries, "records")
    statuses = (ManifestEntryStatus.ADDED, ManifestEntryStatus.EXISTING, ManifestEntryStatus.DELETED)
    of_status = [status == each.value for each in statuses]
    live = entries.filter(pc.not_equal(entries["status"], ManifestEntryStatus.DELETED.value))
    least = pc.min(live["sequence_number"]).as_py()
    unnumbered = pc.is_null(entries["sequence_number"]).to_numpy() & ~of_status[0]
    _, partitions = number_partitions([manifest], [decoded])
    return {
        "length": len(content),
        "files": tuple(int(chosen.sum()) for chosen in of_status),
        "rows": tuple(int(rows[chosen].sum()) for chosen in of_status),
        "least sequence number": (UNASSIGNED_SEQ if least is None else least) if version > 1 else None,
        "entries without a sequence number that must have one": int(np.count_nonzero(unnumbered)) if version > 1 else 0,
        "partitions": {
            partition_key(manifest.partition_spec_id, partitions.record(number)) for number in range(len(partitions))
        },
    }


def require_list_as_written(
    file: InputFile, manifests: Sequence[ManifestFile], version: TableVersion, sequence_number: int
) -> None:
    try:
        found = listed_manifests(file)
    except UnreadableManifest as error:
        raise NotAsWritten(file.location, str(error)) from error
    if len(found) != len(manifests):
        raise NotAsWritten(file.location, f"it has {len(found)} manifests instead of {len(manifests)}")
    for read, written in zip(found, manifests, strict=True):
        expected = _listed(written, version, sequence_number)
        if (said := _listed(read, version, sequence_number)) != expected:
            raise NotAsWritten(file.location, f"it says {said} of a manifest instead of {expected}")


def _listed(manifest: ManifestFile, version: TableVersion, sequence_number: int) -> tuple[object, ...]:
    """What a list says of a manifest, with the numbers that the list assigns."""
    summaries = manifest.partitions
    said: tuple[object, ...] = (
        manifest.manifest_path,
        manifest.manifest_length,
        manifest.partition_spec_id,
        manifest.added_snapshot_id,
        *(manifest.added_files_count, manifest.existing_files_count, manifest.deleted_files_count),
        *(manifest.added_rows_count, manifest.existing_rows_count, manifest.deleted_rows_count),
        None if summaries is None else [tuple(each[place] for place in range(len(each))) for each in summaries],
        manifest.key_metadata,
    )
    if version == 1:
        return said
    assigned = (manifest.sequence_number, manifest.min_sequence_number)
    numbers = tuple(sequence_number if number == UNASSIGNED_SEQ else number for number in assigned)
    first_row_id = manifest_first_row_id(manifest) if version > 2 and manifest.content == ManifestContent.DATA else None
    return (*said, manifest.content, *numbers, first_row_id)
