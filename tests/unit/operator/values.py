"""Small values for tests of decisions: a table, its runs and what was observed, each with the details that matter."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.refs import SnapshotRef, SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.sorting import SortOrder
from pyiceberg.types import LongType, NestedField, TimestamptzType

from tablewright.api.objects import parse
from tablewright.api.policy import TablePolicy
from tablewright.api.run import Cause, MaintenanceRun
from tablewright.api.table import HealthFigures, ManagedTable
from tablewright.decide.causes import CAUSE_ANNOTATION
from tablewright.decide.policy import effective_policy
from tablewright.decide.state import TableDecision, TableObservation, TablePresent
from tablewright.decide.tables import decide_table

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
COLUMNS = [{"name": "id", "type": "long"}, {"name": "ts", "type": "timestamptz"}]


def managed_table(status: dict[str, Any] | None = None, **spec: Any) -> ManagedTable:
    return parse(
        ManagedTable,
        {
            "metadata": {"name": "events", "namespace": "sales", "uid": "table-uid", "generation": 3},
            "spec": {
                "catalogRef": {"name": "lake"},
                "schema": {"columns": COLUMNS},
                "compaction": {"triggers": {"smallFiles": 10}},
                **spec,
            },
            "status": status or {},
        },
    )


def health(*, small_files: int = 0, data_files: int = 100, **figures: int) -> HealthFigures:
    plain = {
        "target_file_bytes": 512 << 20,
        "data_files": data_files,
        "small_files": small_files,
        "delete_files": 0,
        "delete_records": 0,
        "data_bytes": 1 << 20,
        "records": 1000,
        "median_file_bytes": 1 << 10,
        "manifests": 1,
        "manifest_bytes": 1 << 10,
        "snapshots": 1,
    }
    return HealthFigures.model_validate(plain | figures)


def metadata(
    snapshot_id: int | None = 7,
    *,
    ages: Sequence[timedelta] = (timedelta(0),),
    properties: Mapping[str, str] | None = None,
) -> TableMetadata:
    """The metadata of the table that `managed_table()` declares; snapshots of these ages, the current one first."""
    created = new_table_metadata(
        Schema(
            NestedField(1, "id", LongType(), required=False), NestedField(2, "ts", TimestamptzType(), required=False)
        ),
        PartitionSpec(),
        SortOrder(order_id=0),
        "file:///warehouse/sales/events",
        {"write.target-file-size-bytes": str(512 << 20), **(properties or {})},
    )
    if snapshot_id is None:
        return created
    ids = [snapshot_id, *range(snapshot_id + 1000, snapshot_id + 1000 + len(ages) - 1)]
    snapshots = [
        Snapshot(
            snapshot_id=each,
            parent_snapshot_id=parent,
            sequence_number=len(ages) - number,
            timestamp_ms=int((NOW - age).timestamp() * 1000),
            manifest_list=f"file:///{each}.avro",
            summary=Summary(Operation.APPEND),
        )
        for number, (each, parent, age) in enumerate(zip(ids, [*ids[1:], None], ages, strict=True))
    ]
    main = SnapshotRef.model_validate({"snapshot-id": snapshot_id, "type": SnapshotRefType.BRANCH})
    update = {"current_snapshot_id": snapshot_id, "snapshots": snapshots, "refs": {"main": main}}
    return created.model_copy(update=update)


def present(
    *,
    small_files: int = 0,
    snapshot_id: int | None = 7,
    ages: Sequence[timedelta] = (timedelta(0),),
    properties: Mapping[str, str] | None = None,
    **figures: int,
) -> TablePresent:
    found = health(small_files=small_files, **figures)
    return TablePresent(metadata(snapshot_id, ages=ages, properties=properties), "file:///m.json", found)


def run(
    name: str,
    phase: str | None,
    *,
    age: timedelta = timedelta(minutes=30),
    cause: Cause = Cause.MANUAL,
    operation: str = "Compact",
    **status: Any,
) -> MaintenanceRun:
    created = NOW - age
    ours = {} if cause is Cause.MANUAL else {CAUSE_ANNOTATION: cause.value}
    ended = {"completionTime": created.isoformat()} if phase in ("Succeeded", "Failed") else {}
    return parse(
        MaintenanceRun,
        {
            "metadata": {
                "name": name,
                "namespace": "sales",
                "uid": f"uid-{name}",
                "creationTimestamp": created.isoformat(),
                "annotations": ours,
            },
            "spec": {"tableRef": {"name": "events"}, "operation": operation},
            "status": {**({"phase": phase} if phase else {}), **ended, **status},
        },
    )


def decide(
    table: ManagedTable,
    observed: TableObservation,
    runs: Sequence[MaintenanceRun],
    now: datetime,
    *,
    policies: Sequence[TablePolicy] = (),
    claimed_by: ManagedTable | None = None,
    broken_policies: Sequence[str] = (),
) -> TableDecision:
    """The decision under the policy that holds for the table."""
    return decide_table(
        table,
        effective_policy(table, policies),
        observed,
        runs,
        now,
        claimed_by=claimed_by,
        broken_policies=broken_policies,
    )
