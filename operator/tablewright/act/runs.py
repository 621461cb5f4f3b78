"""The MaintenanceRun object that a decision starts: a pure builder."""

from tablewright.act.jobs import TABLE_LABEL, label_value
from tablewright.api.objects import API_VERSION, KubernetesObject, owner_reference
from tablewright.api.table import ManagedTable
from tablewright.decide.causes import CAUSE_ANNOTATION, SCHEDULED_FOR_ANNOTATION
from tablewright.decide.state import StartRun


def build_run(table: ManagedTable, start: StartRun) -> KubernetesObject:
    return {
        "apiVersion": API_VERSION,
        "kind": "MaintenanceRun",
        "metadata": {
            "name": start.name,
            "namespace": table.metadata.namespace,
            "labels": {TABLE_LABEL: label_value(table.metadata.name)},
            "annotations": cause_annotations(start),
            "ownerReferences": [owner_reference(table)],
        },
        "spec": {"tableRef": {"name": table.metadata.name}, "operation": start.operation.value},
    }


def cause_annotations(start: StartRun) -> dict[str, str]:
    annotations = {CAUSE_ANNOTATION: start.cause.value}
    if start.scheduled_for is not None:
        annotations[SCHEDULED_FOR_ANNOTATION] = start.scheduled_for.isoformat()
    return annotations
