"""The Kubernetes event of a happening: a pure builder. Its name is a function of what happened, and to whom."""

import hashlib
from datetime import UTC, datetime

from tablewright.api.objects import API_VERSION, KubernetesObject, KubernetesResource
from tablewright.decide.happenings import Happening

CONTROLLER = "tablewright.dev/operator"
LONGEST_NOTE = 1000  # the API server takes 1024 bytes
LONGEST_NAME = 60


def build_event(about: KubernetesResource, happening: Happening, now: datetime, instance: str) -> KubernetesObject:
    digest = hashlib.sha256(f"{about.metadata.uid}/{happening.reason}/{happening.key}".encode()).hexdigest()[:16]
    name = about.metadata.name[:LONGEST_NAME].rstrip("-.")
    event: KubernetesObject = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": f"{name}.{digest}", "namespace": about.metadata.namespace},
        "eventTime": now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "reportingController": CONTROLLER,
        "reportingInstance": instance[:128],
        "action": "Reconcile",
        "reason": happening.reason,
        "type": "Warning" if happening.warning else "Normal",
        "note": shortened(happening.message),
        "regarding": {
            "apiVersion": API_VERSION,
            "kind": about.kind_name,
            "namespace": about.metadata.namespace,
            "name": about.metadata.name,
            "uid": about.metadata.uid,
        },
    }
    if happening.run is not None:
        namespace = about.metadata.namespace
        run = {"apiVersion": API_VERSION, "kind": "MaintenanceRun", "namespace": namespace, "name": happening.run}
        event["related"] = run
    return event


def shortened(text: str) -> str:
    """Within the limit in bytes, whatever the script."""
    encoded = text.encode()
    if len(encoded) <= LONGEST_NOTE:
        return text
    return encoded[: LONGEST_NOTE - 3].decode(errors="ignore") + "…"
