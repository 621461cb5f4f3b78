"""Tells people what happened: an event each, and a line in the log. Best effort: a pass never fails for it.

An event is told before the status that it follows from is written. A crash in between tells it again, under the same
name, and the API server keeps one.
"""

import logging
from collections.abc import Iterable
from datetime import UTC, datetime

from kubernetes.client.exceptions import ApiException

from tableformat.declaration import Applied
from tableformat.errors import TransientError
from tablewright.act.events import build_event
from tablewright.api.objects import KubernetesResource
from tablewright.api.run import MaintenanceRun, MaintenanceRunStatus
from tablewright.api.table import ManagedTable, ManagedTableStatus
from tablewright.decide.deletion import DeletionDecision
from tablewright.decide.happenings import (
    Happening,
    applied_happenings,
    deletion_happenings,
    run_happenings,
    start_happening,
    table_happenings,
)
from tablewright.decide.state import StartRun
from tablewright.runtime.cluster import Cluster
from tablewright.runtime.logs import brief
from tablewright.runtime.metrics import Metrics

logger = logging.getLogger(__name__)


class Recorder:
    def __init__(self, cluster: Cluster, metrics: Metrics, instance: str) -> None:
        self._cluster, self._metrics, self._instance = cluster, metrics, instance

    def table_changed(self, table: ManagedTable, status: ManagedTableStatus) -> None:
        snapshot = status.identity.snapshot_id if status.identity else None
        self._tell(table, table_happenings(table, status), table="/".join(table.key), snapshot=snapshot)

    def declaration_applied(self, table: ManagedTable, applied: Applied) -> None:
        self._tell(table, applied_happenings(applied), table="/".join(table.key))

    def run_created(self, table: ManagedTable, start: StartRun) -> None:
        self._tell(
            table, [start_happening(start)], table="/".join(table.key), run=start.name, operation=str(start.operation)
        )

    def run_changed(self, run: MaintenanceRun, table: ManagedTable | None, status: MaintenanceRunStatus) -> None:
        self._metrics.run_changed(run, status)
        fields: dict[str, object] = {
            "table": f"{run.metadata.namespace}/{run.spec.table_ref.name}",
            "run": run.metadata.name,
            "operation": str(run.spec.operation),
            "snapshot": status.result.snapshot_id if status.result else None,
        }
        self._tell(table or run, run_happenings(run, status), **fields)

    def table_deleted(self, table: ManagedTable, decision: DeletionDecision) -> None:
        self._tell(table, deletion_happenings(table, decision), table="/".join(table.key))

    def _tell(self, about: KubernetesResource, happenings: Iterable[Happening], **fields: object) -> None:
        for happening in happenings:
            level = logging.WARNING if happening.warning else logging.INFO
            logger.log(level, "%s", happening.message, extra={**fields, "reason": happening.reason})
            try:
                self._cluster.create_event(build_event(about, happening, datetime.now(UTC), self._instance))
            except (ApiException, TransientError) as error:
                logger.warning(
                    "an event could not be told: %s", brief(error), extra={**fields, "reason": happening.reason}
                )
            else:
                self._metrics.event("Warning" if happening.warning else "Normal", happening.reason)
