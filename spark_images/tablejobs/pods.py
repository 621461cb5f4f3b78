"""The driver's own pod, and those of its executors: what Spark is told of them, and how they ended.

Executors belong to the driver's pod, so that they go with it. Spark is told to leave those that ended: only their
status says that one was killed for want of memory. The driver removes them itself when it has looked.
"""

import json
import logging
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tableformat.maintenance.job import JobReport
from tablejobs.reporting import api_client

logger = logging.getLogger("tablejobs")

DRIVER_LABEL = "tablewright.dev/driver"
JOB_LABEL = "batch.kubernetes.io/job-name"


@dataclass(frozen=True)
class DriverPod:
    """Where this driver runs, as its Job tells it, and what its executors look like."""

    name: str
    namespace: str
    ip: str
    api_server: str
    executor_template: Mapping[str, Any]

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "DriverPod | None":
        """None where the driver is no pod, or may have no others, or was not told where the API server is."""
        template, host = environment.get("TABLEWRIGHT_EXECUTOR_POD"), environment.get("KUBERNETES_SERVICE_HOST")
        if template is None or host is None:
            return None
        port = environment.get("KUBERNETES_SERVICE_PORT", "443")
        return cls(
            name=environment["TABLEWRIGHT_POD_NAME"],
            namespace=environment["TABLEWRIGHT_POD_NAMESPACE"],
            ip=environment["TABLEWRIGHT_POD_IP"],
            api_server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
            executor_template=json.loads(template),
        )

    @property
    def image(self) -> str:
        return str(self.executor_template["spec"]["containers"][0]["image"])

    @property
    def service_account(self) -> str:
        return str(self.executor_template["spec"]["serviceAccountName"])

    def write_template(self, folder: Path) -> Path:
        """With a label by which the executors of this very driver are found."""
        metadata = dict(self.executor_template.get("metadata") or {})
        metadata["labels"] = {**(metadata.get("labels") or {}), DRIVER_LABEL: self.name}
        path = folder / "executor-pod.json"  # which is YAML, too
        path.write_text(json.dumps({**self.executor_template, "metadata": metadata}))
        return path


def count_out_of_memory(pods: Iterable[Mapping[str, Any]]) -> int:
    """How many of the pods had a container that was killed for want of memory."""
    return sum(any(_was_killed_for_memory(status) for status in _container_statuses(pod)) for pod in pods)


def _container_statuses(pod: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    return (pod.get("status") or {}).get("containerStatuses") or ()


def _was_killed_for_memory(status: Mapping[str, Any]) -> bool:
    terminated = (status.get("state") or {}).get("terminated") or {}
    return terminated.get("reason") == "OOMKilled" or _reports_it(terminated.get("message") or "")


def _reports_it(message: str) -> bool:
    """Whether a driver's last word is that a process of its run was killed so."""
    try:
        return JobReport.model_validate_json(message).reason == "OutOfMemory"
    except ValidationError:
        return False


class PodsOfJob:
    """The pods of this driver's Job, as the API server has them."""

    def __init__(self, driver: DriverPod) -> None:
        from kubernetes import client

        self._driver = driver
        self._api = api_client()
        self._core = client.CoreV1Api(self._api)

    def earlier_attempts_out_of_memory(self, job_name: str) -> int:
        """How many drivers of the same Job ended so before this one."""
        return count_out_of_memory(self._list(f"{JOB_LABEL}={job_name}"))

    def executors_out_of_memory(self) -> int:
        return count_out_of_memory(self._list(self._executors))

    def remove_executors(self) -> None:
        """They would go with the driver's pod; but that stays until somebody has read its log."""
        try:
            self._core.delete_collection_namespaced_pod(
                self._driver.namespace, label_selector=self._executors, _request_timeout=10
            )
        except Exception as error:  # they go with the driver's pod at the latest
            logger.warning("pod=%s its executors were not removed: %s", self._driver.name, error)

    @property
    def _executors(self) -> str:
        return f"{DRIVER_LABEL}={self._driver.name}"

    def _list(self, selector: str) -> list[Mapping[str, Any]]:
        try:
            found = self._core.list_namespaced_pod(self._driver.namespace, label_selector=selector, _request_timeout=10)
        except Exception as error:  # no reason to fail a run: at worst it is not known that memory was short
            logger.warning("pod=%s the pods %s were not looked at: %s", self._driver.name, selector, error)
            return []
        return list(self._api.sanitize_for_serialization(found)["items"])
