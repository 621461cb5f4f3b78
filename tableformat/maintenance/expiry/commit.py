"""The expiry's commit: the planned snapshots and refs leave the metadata, if the table would still let each of them go.

A tag may be put on an expiring snapshot, or main rolled back to one, between plan and swap; Iceberg's updates would
then remove that ref along with the snapshot. So the swap carries a requirement of ours, which plans the retention again
on the very metadata that the swap replaces. A REST catalog understands Iceberg's own requirements only: there, all
refs must be where they were.
"""

from datetime import datetime
from typing import Literal, cast

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import (
    AssertRefSnapshotId,
    AssertTableUUID,
    RemoveSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
    ValidatableTableRequirement,
)
from typing_extensions import override

from tableformat.commits.change import Change
from tableformat.maintenance.expiry.options import ExpiryOptions
from tableformat.maintenance.expiry.removal import RemoveSnapshots
from tableformat.maintenance.expiry.retention import Retention, plan_retention


class StillExpirable(ValidatableTableRequirement):
    """By the table's own rules, as it is at the swap, everything that was planned to go may go."""

    type: Literal["tablewright-still-expirable"] = "tablewright-still-expirable"
    snapshots: frozenset[int]
    refs: frozenset[str]
    options: ExpiryOptions
    now: datetime

    @override
    def validate(self, base_metadata: TableMetadata | None) -> None:  # type: ignore[override]  # as PyIceberg's own do
        if base_metadata is None:
            raise CommitFailedException("Requirement failed: current table metadata is missing")
        if not plan_retention(base_metadata, self.options, now=self.now).covers(Retention(self.snapshots, self.refs)):
            raise CommitFailedException("Requirement failed: the table needs snapshots or refs that were to expire")


def expiry_change(
    catalog: Catalog, metadata: TableMetadata, retention: Retention, options: ExpiryOptions, *, now: datetime
) -> Change:
    requirements: list[TableRequirement] = [AssertTableUUID(uuid=metadata.table_uuid)]
    if isinstance(catalog, RestCatalog):
        requirements += [
            AssertRefSnapshotId(ref=name, snapshot_id=ref.snapshot_id) for name, ref in metadata.refs.items()
        ]
    else:
        ours = StillExpirable(snapshots=retention.snapshots, refs=retention.refs, options=options, now=now)
        requirements.append(cast("TableRequirement", ours))
    return Change(_updates(retention), tuple(requirements))


def _updates(retention: Retention) -> tuple[TableUpdate, ...]:
    updates: list[TableUpdate] = [RemoveSnapshotRefUpdate(ref_name=name) for name in sorted(retention.refs)]
    if retention.snapshots:
        updates.append(RemoveSnapshots(snapshot_ids=sorted(retention.snapshots)))
    return tuple(updates)
