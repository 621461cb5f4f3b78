"""The operator as a process that a test starts and stops, and the objects of a namespace as people see them."""

import contextlib
import json
import re
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml
from kubernetes import client

from tests.servers.kubernetes import KubernetesAccess, kubectl
from tests.zygote import ForkedProcess, shared_zygote

API_VERSION = "tablewright.dev/v1alpha1"
INSTALL = Path(__file__).parents[1] / "examples" / "install"


class RefusedError(Exception):
    """The API server does not take an object; its words are the message."""


class OperatorProcesses:
    """Starts operators for one namespace, or for the whole cluster. At the end each must have stopped well, unless a
    test killed it."""

    def __init__(self, kubeconfig: Path, namespace: str | None, log: Path) -> None:
        self._kubeconfig, self._namespace, self.log = kubeconfig, namespace, log
        self._started: list[ForkedProcess] = []

    def start_replica(self, name: str, *options: str, kubeconfig: Path | None = None) -> "Replica":
        """One of several, with a log of its own."""
        log = self.log.with_name(f"{name}.log")
        return Replica(self._start(log, "--identity", name, *options, kubeconfig=kubeconfig), log)

    def start(self, *options: str) -> ForkedProcess:
        """One that another can follow at once, since both are one replica; `options` may say otherwise."""
        return self._start(self.log, "--identity", "the-replica", *options)

    def _start(self, log: Path, *options: str, kubeconfig: Path | None = None) -> ForkedProcess:
        access = str(kubeconfig or self._kubeconfig)
        arguments = ["operator", "--job-image", "none", "--host", "127.0.0.1", "--port", "0"]
        arguments += ["--namespace", self._namespace] if self._namespace else []
        arguments += ["--kubeconfig", access, *options]
        log.touch()
        process = shared_zygote().start(arguments, log)
        self._started.append(process)
        return process

    def stop_all(self) -> None:
        for process in self._started:
            process.send_signal(signal.SIGTERM)
        for process in self._started:
            assert process.wait(60) in (0, -signal.SIGKILL), (process.returncode, process.log.read_text()[-3000:])


class Replica:
    """An operator that runs beside others, and what it answers on its own port."""

    def __init__(self, process: ForkedProcess, log: Path) -> None:
        self.process, self.log = process, log

    def port(self) -> int | None:
        """None until it answers on one."""
        ports = re.findall(r"answering on port (\d+)", self.log.read_text())
        return int(ports[-1]) if ports else None

    def get(self, path: str) -> tuple[int, str]:
        """Status and text; 0 while nothing answers."""
        port = self.port()
        if port is None:
            return 0, ""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def metric(self, sample: str) -> float | None:
        """The value of a sample, such as `name{label="value"}`."""
        lines = self.get("/metrics")[1].splitlines()
        return next((float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(f"{sample} ")), None)

    def leads(self) -> bool:
        return self.metric("tablewright_leader") == 1


@contextlib.contextmanager
def operators(kubeconfig: Path, namespace: str | None, log: Path) -> Iterator[OperatorProcesses]:
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


def install_operator(
    access: KubernetesAccess, api: client.ApiClient, system: str, folder: Path, *, granted: Sequence[str] = ()
) -> Path:
    """The rights of examples/install/operator.yaml, in a namespace of the test's own, and those of tables.yaml in each
    that is granted; returns their kubeconfig. ClusterRoles are the test's own, too: their names end with `system`."""
    for document in _installed("operator.yaml", system):
        if document["kind"] not in ("Namespace", "Deployment"):
            kubectl(access, "apply", "-f", "-", stdin=json.dumps(document))
    for namespace in granted:
        grant(access, system, namespace)
    return kubeconfig_of(access, api, system, "tablewright", folder)


def grant(access: KubernetesAccess, system: str, namespace: str) -> None:
    [binding] = _installed("tables.yaml", system)
    kubectl(access, "apply", "-n", namespace, "-f", "-", stdin=json.dumps(binding))


def roles_of(system: str) -> list[str]:
    """The flags that name the ClusterRoles of such an installation."""
    return ["--tables-role", f"tablewright-tables-{system}", "--jobs-role", f"tablewright-jobs-{system}"]


def _installed(file: str, system: str) -> Iterator[dict[str, Any]]:
    for document in yaml.safe_load_all((INSTALL / file).read_text().replace("tablewright-system", system)):
        if document["kind"].startswith("ClusterRole"):
            document["metadata"]["name"] = f"{document['metadata']['name']}-{system}"
        if document.get("roleRef", {}).get("kind") == "ClusterRole":
            document["roleRef"]["name"] = f"{document['roleRef']['name']}-{system}"
        for rule in document.get("rules") or ():
            if "bind" in rule["verbs"]:
                rule["resourceNames"] = [f"{name}-{system}" for name in rule["resourceNames"]]
        yield document


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

    def events(self) -> list[dict[str, Any]]:
        """The operator's, oldest first."""
        found = self._custom.list_namespaced_custom_object("events.k8s.io", "v1", self.name, "events")["items"]
        ours = [event for event in found if event["reportingController"] == "tablewright.dev/operator"]
        return sorted(ours, key=lambda event: str(event["eventTime"]))

    def runs(self) -> list[dict[str, Any]]:
        return list(self._custom.list_namespaced_custom_object(*self._group(), "maintenanceruns")["items"])

    def _group(self) -> tuple[str, str, str]:
        return "tablewright.dev", "v1alpha1", self.name
