"""Every commit of a run carries the run's id, so that a restarted run recognises what it did before it died, and the
run's name, by which people know it.
"""

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

RUN_ID = "tablewright.run-id"
RUN_NAME = "tablewright.run-name"


def summary_of_run(run_id: str, run_name: str = "") -> dict[str, str]:
    """What a run's commits say of it in their summaries."""
    return {RUN_ID: run_id, **({RUN_NAME: run_name} if run_name else {})}


def snapshots_of_run(metadata: TableMetadata, run_id: str) -> list[Snapshot]:
    """The snapshots that the run committed, oldest first."""
    return [
        snapshot
        for snapshot in sorted(metadata.snapshots, key=lambda snapshot: snapshot.sequence_number or 0)
        if snapshot.summary is not None and snapshot.summary.additional_properties.get(RUN_ID) == run_id
    ]


def summary_of(snapshot: Snapshot) -> dict[str, str]:
    return snapshot.summary.additional_properties if snapshot.summary is not None else {}
