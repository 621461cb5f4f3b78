"""The operator as a process that a test starts and stops, and the objects of a namespace as people see them."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kubernetes import client

from tests.servers.kubernetes import KubernetesAccess, kubectl
from tests.servers.process import die_with_parent

API_VERSION = "tablewright.dev/v1alpha1"


class RefusedError(Exception):
    """The API server does not take an object; its words are the message."""


class OperatorProcesses:
    """Starts operators for one namespace; at the end each must have stopped well, unless a test killed it."""

    def __init__(self, kubeconfig: Path, namespace: str, log: Path) -> None:
        self._kubeconfig, self._namespace, self._log = kubeconfig, namespace, log
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "tablewright", "operator", "--job-image", "none"]
        command += ["--namespace", self._namespace, "--kubeconfig", str(self._kubeconfig)]
        environment = {**os.environ, "KUBECONFIG": str(self._kubeconfig)}
        with self._log.open("ab") as log:
            process = subprocess.Popen(
                command, env=environment, stdout=log, stderr=subprocess.STDOUT, preexec_fn=die_with_parent
            )
        self._started.append(process)
        return process

    def stop_all(self) -> None:
        for process in self._started:
            process.send_signal(signal.SIGTERM)
        for process in self._started:
            assert process.wait(60) in (0, -signal.SIGKILL), self._log.read_text()[-3000:]


@contextlib.contextmanager
def operators(kubeconfig: Path, namespace: str, log: Path) -> Iterator[OperatorProcesses]:
    processes = OperatorProcesses(kubeconfig, namespace, log)
    try:
        yield processes
    finally:
        processes.stop_all()


def kubeconfig_of(access: KubernetesAccess, api: client.ApiClient, namespace: str, account: str, folder: Path) -> Path:
    """What a pod of this service account has, as a kubeconfig."""
    request: dict[str, Any] = {"spec": {}}
    answer = client.CoreV1Api(api).create_namespaced_service_account_token(account, namespace, request)
    return access.kubeconfig_with_token(answer.status.token, folder / f"{account}.kubeconfig.json")


class Namespace:
    """Our objects of one namespace, applied and read as a person would."""

    def __init__(self, access: KubernetesAccess, api: client.ApiClient, name: str) -> None:
        self.access, self.name = access, name
        self._custom = client.CustomObjectsApi(api)

    def apply(self, kind: str, name: str, spec: dict[str, Any], *, labels: dict[str, str] | None = None) -> None:
        metadata = {"name": name, "labels": labels or {}}
        obj = {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}
        try:
            kubectl(self.access, "apply", "--server-side", "-n", self.name, "-f", "-", stdin=json.dumps(obj))
        except subprocess.CalledProcessError as error:
            raise RefusedError(error.stderr) from None

    def delete(self, kind: str, name: str) -> None:
        kubectl(self.access, "delete", "-n", self.name, kind, name, "--wait=false")

    def table(self, name: str) -> dict[str, Any] | None:
        try:
            return dict(self._custom.get_namespaced_custom_object(*self._group(), "managedtables", name))
        except client.ApiException as error:
            if error.status == 404:
                return None
            raise

    def status(self, name: str) -> dict[str, Any]:
        return dict((self.table(name) or {}).get("status") or {})

    def conditions(self, name: str) -> dict[str, str]:
        return {c["type"]: f"{c['status']}/{c['reason']}" for c in self.status(name).get("conditions") or []}

    def run_status(self, name: str) -> dict[str, Any]:
        found = [run for run in self.runs() if run["metadata"]["name"] == name]
        return dict(found[0].get("status") or {}) if found else {}

    def runs(self) -> list[dict[str, Any]]:
        return list(self._custom.list_namespaced_custom_object(*self._group(), "maintenanceruns")["items"])

    def _group(self) -> tuple[str, str, str]:
        return "tablewright.dev", "v1alpha1", self.name
