"""Plays the kubelet where there are no nodes: takes each pod of a namespace through its phases.

What a container does is a function of its pod: a fixed ending for tests of the controllers, or the container's own
command as a process of this machine for tests of the jobs. The Job controller and the garbage collector are real.
"""

import base64
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubernetes import client, watch
from kubernetes.client.exceptions import ApiException

from tests.servers.process import die_with_parent

Pod = Any  # the client library has no types


@dataclass(frozen=True)
class Ending:
    """How a container ended, as a kubelet reports it."""

    exit_code: int
    message: str = ""
    reason: str | None = None
    disrupted: bool = False
    """Whether the node or the scheduler had to let the pod go."""


class Kubelet:
    def __init__(self, api: client.ApiClient, namespace: str, run: Callable[[Pod], Ending]) -> None:
        self._core = client.CoreV1Api(api)
        self._namespace = namespace
        self._run = run
        self._seen: set[str] = set()
        self._workers: list[threading.Thread] = []
        self._stopped = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name=f"kubelet-{namespace}", daemon=True)

    def __enter__(self) -> "Kubelet":
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._watcher.join(30)  # it may just be starting one more worker
        for worker in self._workers:
            worker.join(30)

    def _watch(self) -> None:
        while not self._stopped.is_set():
            try:
                for event in watch.Watch().stream(self._core.list_namespaced_pod, self._namespace, timeout_seconds=1):
                    self._notice(event["type"], event["object"])
            except ApiException as error:
                if error.status not in (404, 410):  # the namespace is on its way out, or the watch is too old
                    raise

    def _notice(self, event: str, pod: Pod) -> None:
        if event == "DELETED" or self._stopped.is_set():
            return
        if pod.metadata.deletion_timestamp:
            self._remove(pod)
        elif pod.metadata.uid not in self._seen:
            self._seen.add(pod.metadata.uid)
            worker = threading.Thread(target=self._take_through, args=(pod,), daemon=True)
            self._workers.append(worker)
            worker.start()

    def _remove(self, pod: Pod) -> None:
        try:
            self._core.delete_namespaced_pod(pod.metadata.name, self._namespace, grace_period_seconds=0)
        except ApiException as error:
            if error.status != 404:
                raise

    def _take_through(self, pod: Pod) -> None:
        self._report(pod, {"phase": "Running", "startTime": _now()})
        ending = self._run(pod)
        terminated = {
            "exitCode": ending.exit_code,
            "message": ending.message,
            "startedAt": _now(),
            "finishedAt": _now(),
        }
        terminated["reason"] = ending.reason or ("Completed" if ending.exit_code == 0 else "Error")
        name = pod.spec.containers[0].name
        container = {"name": name, "image": "local", "imageID": "local", "ready": False, "restartCount": 0}
        phase = "Succeeded" if ending.exit_code == 0 else "Failed"
        status = {"phase": phase, "containerStatuses": [{**container, "state": {"terminated": terminated}}]}
        if ending.disrupted:
            status["conditions"] = [{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}]
        self._report(pod, status)

    def _report(self, pod: Pod, status: Mapping[str, object]) -> None:
        try:
            self._core.patch_namespaced_pod_status(pod.metadata.name, self._namespace, {"status": status})
        except ApiException as error:
            if error.status != 404:  # deleted meanwhile
                raise


class LocalProcesses:
    """Runs a pod's first container as a process of this machine, with the environment that its spec describes."""

    def __init__(self, api: client.ApiClient, environment: Mapping[str, str], *, timeout: float = 180) -> None:
        self._core = client.CoreV1Api(api)
        self._environment = dict(environment)
        self._timeout = timeout
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.logs: dict[str, str] = {}

    def __call__(self, pod: Pod) -> Ending:
        container = pod.spec.containers[0]
        with tempfile.TemporaryDirectory() as folder:
            message = Path(folder) / "termination-log"
            log = Path(folder) / "output"
            environment = {
                "PATH": os.environ["PATH"],
                "HOME": folder,
                "TMPDIR": folder,
                "PYTHONDONTWRITEBYTECODE": "1",  # as in the image
                **self._environment,
                **self._declared_environment(pod, container),
                "TABLEWRIGHT_TERMINATION_LOG": str(message),
                "SPARK_LOCAL_DIRS": folder,  # for which a container has a volume
            }
            command = [*(container.command or []), *(container.args or [])]
            with log.open("wb") as output:
                process = subprocess.Popen(
                    command,
                    env=environment,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    preexec_fn=die_with_parent,
                )
                self.running[pod.metadata.name] = process
                try:
                    code = process.wait(self._timeout)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    code = process.wait()
            self.running.pop(pod.metadata.name, None)
            self.logs[pod.metadata.name] = log.read_text(errors="replace")
            text = message.read_text() if message.exists() else ""
            return Ending(code if code >= 0 else 128 - code, text)

    def _declared_environment(self, pod: Pod, container: Any) -> dict[str, str]:
        values = {}
        for source in container.env_from or []:
            secret = self._core.read_namespaced_secret(source.secret_ref.name, pod.metadata.namespace)
            values.update({key: base64.b64decode(value).decode() for key, value in (secret.data or {}).items()})
        for variable in container.env or []:
            value = self._value(pod, variable)
            if value is not None:
                values[variable.name] = value
        return values

    def _value(self, pod: Pod, variable: Any) -> str | None:
        if variable.value_from is None:
            return str(variable.value or "").replace("$$", "$")  # as a kubelet does; no test refers to others
        if variable.value_from.secret_key_ref is not None:
            reference = variable.value_from.secret_key_ref
            secret = self._core.read_namespaced_secret(reference.name, pod.metadata.namespace)
            if reference.optional and reference.key not in secret.data:
                return None
            return base64.b64decode(secret.data[reference.key]).decode()
        fields = {
            "metadata.name": pod.metadata.name,
            "metadata.namespace": pod.metadata.namespace,
            "metadata.uid": pod.metadata.uid,
            "status.podIP": "127.0.0.1",
        }
        return str(fields[variable.value_from.field_ref.field_path])


def _now() -> str:
    from datetime import UTC, datetime

    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
