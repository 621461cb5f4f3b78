"""The driver's own pod, and those of its executors: what Spark is told of them, and how they ended.

Executors belong to the driver's pod, so that they go with it. Spark is told to leave those that ended: only their
status says that one was killed for want of memory. The driver removes them itself when it has looked.
"""

import json
import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tableformat.maintenance import driver_environment as variables
from tableformat.maintenance.job import OUT_OF_MEMORY, JobReport
from tableformat.maintenance.sizing import MIB, JobSize
from tablejobs.reporting import HeldUp, api_client

logger = logging.getLogger("tablejobs")

DRIVER_LABEL = "tablewright.dev/driver"
JOB_LABEL = "batch.kubernetes.io/job-name"
_SOON = timedelta(minutes=1)
_STARTS_OF_EACH = 4  # before it is taken that none will stay


def in_url(address: str) -> str:
    """One of the sixth version has colons itself, and is told from its port by brackets; Spark wants them, too."""
    return f"[{address}]" if ":" in address else address


@dataclass(frozen=True)
class OwnPod:
    """Where this driver runs, as its Job tells it."""

    name: str
    namespace: str

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "OwnPod | None":
        name, namespace = environment.get(variables.POD_NAME), environment.get(variables.POD_NAMESPACE)
        return None if name is None or namespace is None else OwnPod(name, namespace)


@dataclass(frozen=True)
class DriverPod(OwnPod):
    """The same of one that may have executors, and what they look like."""

    ip: str
    api_server: str
    executor_template: Mapping[str, Any]

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "DriverPod | None":
        """None where the driver is no pod, or may have no others, or was not told where the API server is."""
        template, host = environment.get(variables.EXECUTOR_POD), environment.get("KUBERNETES_SERVICE_HOST")
        if template is None or host is None:
            return None
        port = environment.get("KUBERNETES_SERVICE_PORT", "443")
        return cls(
            name=environment[variables.POD_NAME],
            namespace=environment[variables.POD_NAMESPACE],
            ip=environment[variables.POD_IP],
            api_server=f"https://{in_url(host)}:{port}",
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
        path = folder / "executor-pod.json"  # which is YAML, too
        path.write_text(json.dumps(self._labelled_template()))
        return path

    def executor(self, size: JobSize) -> dict[str, Any]:
        """An executor's pod as far as a cluster's admission cares: with what Spark asks for it."""
        memory = f"{size.memory_bytes // MIB}Mi"
        cpu = size.cpu or str(size.cores)
        resources = {"requests": {"cpu": cpu, "memory": memory}, "limits": {"memory": memory}}
        template = self._labelled_template()
        [container] = template["spec"]["containers"]
        spec = {**template["spec"], "containers": [{**container, "resources": resources}], "restartPolicy": "Never"}
        return {**template, "metadata": {**template["metadata"], "generateName": f"{self.name}-"}, "spec": spec}

    def _labelled_template(self) -> dict[str, Any]:
        metadata = dict(self.executor_template.get("metadata") or {})
        metadata["labels"] = {**(metadata.get("labels") or {}), DRIVER_LABEL: self.name}
        return {**self.executor_template, "metadata": metadata}


def count_out_of_memory(pods: Iterable[Mapping[str, Any]]) -> int:
    """How many of the pods had a container that was killed for want of memory."""
    return sum(any(_was_killed_for_memory(status) for status in _container_statuses(pod)) for pod in pods)


def killed(pods: Iterable[Mapping[str, Any]]) -> list[str]:
    """The names of those whose container was itself killed for want of memory, and so could report nothing."""
    ends = ((_name(pod), _terminated(status)) for pod in pods for status in _container_statuses(pod))
    return [name for name, end in ends if end.get("reason") == "OOMKilled"]


def _container_statuses(pod: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    return (pod.get("status") or {}).get("containerStatuses") or ()


def _was_killed_for_memory(status: Mapping[str, Any]) -> bool:
    terminated = _terminated(status)
    return terminated.get("reason") == "OOMKilled" or _reports_it(terminated.get("message") or "")


def _terminated(status: Mapping[str, Any]) -> Mapping[str, Any]:
    return (status.get("state") or {}).get("terminated") or {}


def _reports_it(message: str) -> bool:
    """Whether a driver's last word is that a process of its run was killed so."""
    try:
        return JobReport.model_validate_json(message).reason == OUT_OF_MEMORY
    except ValidationError:
        return False


def why_no_executor(pods: Sequence[Mapping[str, Any]], *, wanted: int) -> HeldUp:
    """From the pods of the executors, of which none has come to its driver; the first that says something counts."""
    found = [(_name(pod), said) for pod in pods for said in _reasons_to_wait(pod)]
    if found:
        name, said = found[0]
        return HeldUp("ExecutorsNotStarted", f"pod {name}: {said}")
    ended = [(_name(pod), terminated) for pod in pods for terminated in _early_ends(pod)]
    if ended:
        name, first = ended[0]
        said = f"executors end as soon as they start, as pod {name}: {first.get('reason')}, code {first['exitCode']}"
        # Spark makes a new pod for each of them within seconds, and would do so for ever.
        return HeldUp("ExecutorsNotStarted", said, for_good=len(ended) >= _STARTS_OF_EACH * wanted)
    return HeldUp(
        "ExecutorsNotStarted",
        "no executor has come to the driver: see the executors' pods and their logs, and whether a NetworkPolicy lets "
        "them reach the driver's pod",
    )


def _has_ended(pod: Mapping[str, Any]) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def _name(pod: Mapping[str, Any]) -> str:
    return str((pod.get("metadata") or {}).get("name"))


def _reasons_to_wait(pod: Mapping[str, Any]) -> Iterable[str]:
    for container in _container_statuses(pod):
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
            yield _said(waiting)
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            yield _said(condition)


def _early_ends(pod: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    """Of containers that failed within a minute: an executor that has worked is another matter."""
    for container in _container_statuses(pod):
        terminated = (container.get("state") or {}).get("terminated") or {}
        if terminated.get("exitCode") and _lifetime(terminated) < _SOON:
            yield terminated


def _lifetime(terminated: Mapping[str, Any]) -> timedelta:
    """None at all of a container that could not even be started, which has no times."""
    begun, ended = terminated.get("startedAt"), terminated.get("finishedAt")
    return datetime.fromisoformat(ended) - datetime.fromisoformat(begun) if begun and ended else timedelta()


def _said(source: Mapping[str, Any]) -> str:
    return ": ".join(str(text) for text in (source.get("reason"), source.get("message")) if text)


class PodsOfJob:
    """The pods of this driver's Job, as the API server has them."""

    def __init__(self, driver: OwnPod) -> None:
        from kubernetes import client

        self._driver = driver
        self._api = api_client()
        self._core = client.CoreV1Api(self._api)

    def drivers(self, job_name: str) -> Sequence[Mapping[str, Any]]:
        """This attempt's, and those of the Job's earlier ones."""
        return self._list(f"{JOB_LABEL}={job_name}")

    def had_executors(self, drivers: Sequence[str]) -> bool:
        """Whether one of these drivers was killed beside executors: who is killed leaves them, and they stay with its
        pod; who works alone removed them."""
        return bool(drivers) and bool(self._list(f"{DRIVER_LABEL} in ({','.join(drivers)})"))

    def executors_out_of_memory(self) -> int:
        return count_out_of_memory(self._list(self._executors))

    def why_no_executor(self, executor: Mapping[str, Any], *, wanted: int) -> HeldUp:
        """Where there is no pod that may yet run, the API server says why: it is asked for one, as a dry run."""
        from kubernetes.client.exceptions import ApiException

        pods = self._list(self._executors)
        if all(_has_ended(pod) for pod in pods):
            try:
                self._core.create_namespaced_pod(self._driver.namespace, executor, dry_run="All", _request_timeout=10)
            except ApiException as error:
                return HeldUp("ExecutorsNotCreated", f"no executor can be created: {_refusal(error)}")
        return why_no_executor(pods, wanted=wanted)

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


def _refusal(error: Any) -> str:
    """The API server's own words, without what surrounds them."""
    try:
        return str(json.loads(error.body)["message"])
    except (ValueError, KeyError, TypeError):
        return f"{error.status} {error.reason}"
