"""A Kubernetes control plane: etcd, the API server with RBAC on, and the controllers that Jobs need.

Without nodes, pods are never run, and `kubelet.py` plays that part; `node.py` adds a real one. Authentication is by
token: one for the administrator and for each component, and real service-account tokens for everybody else.
"""

import json
import subprocess
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from ssl import create_default_context

from tests.servers import binaries, toolchain
from tests.servers.process import ServerProcess, accepts_connections, free_ports, start_on_free_ports

CONTROLLERS = ("job", "garbage-collector", "namespace", "serviceaccount", "ttl-after-finished")
_ADMIN_TOKEN = "admin-token"
SERVICES = "10.96.0.0/16"


@dataclass(frozen=True)
class KubernetesAccess:
    """What a test needs to reach the cluster; picklable, so that every worker of a run can share one cluster."""

    server: str
    certificate: Path
    kubeconfig: Path

    def kubeconfig_with_token(self, token: str, path: Path, *, server: str | None = None) -> Path:
        path.write_text(json.dumps(_kubeconfig(server or self.server, self.certificate, token)))
        return path


@dataclass(frozen=True)
class Component:
    """Somebody who speaks to the API server beside the administrator: the token is made from the name."""

    name: str
    user: str
    group: str = ""

    @property
    def token(self) -> str:
        return f"{self.name}-token"


class ControlPlane:
    def __init__(
        self, folder: Path, *, address: str = "127.0.0.1", components: tuple[Component, ...] | None = None
    ) -> None:
        """`components` are those of nodes, where there are any: then all controllers run, for the pods are real."""
        self._folder = folder
        self._address = address
        self._components = components
        folder.mkdir(parents=True, exist_ok=True)
        self._service_account_key = folder / "service-account.key"
        self._processes: list[ServerProcess] = []
        self.access = start_on_free_ports(self._start)

    def stop(self) -> None:
        for process in reversed(self._processes):
            process.stop()
        self._processes.clear()

    def restart_api_server(self, *, away: float = 0.0) -> None:
        """Kills it and starts it again on the same port, after being away for some seconds; etcd stays."""
        old = next(process for process in self._processes if process.name == "kube-apiserver")
        self._processes.remove(old)
        old.kill()
        time.sleep(away)
        self._run("kube-apiserver", old.command).wait_until(lambda: _ready(self.access))

    def _start(self) -> KubernetesAccess:
        try:
            return self._start_all()
        except BaseException:
            self.stop()
            raise

    def _start_all(self) -> KubernetesAccess:
        here = "127.0.0.1"
        etcd_port, peer_port, manager_port, port = free_ports(here, here, here, self._address)
        certificates = self._folder / "certificates"
        access = KubernetesAccess(
            server=f"https://{self._address}:{port}",
            certificate=certificates / "apiserver.crt",
            kubeconfig=self._folder / "kubeconfig.json",
        )
        tokens = self._folder / "tokens.csv"
        users = [f"{_ADMIN_TOKEN},admin,admin,system:masters"]
        users += [f"{each.token},{each.user},{each.user},{each.group}" for each in self._components or ()]
        tokens.write_text("\n".join(users) + "\n")
        toolchain.run(
            [toolchain.openssl(), "genrsa", "-out", str(self._service_account_key), "2048"],
            what="the service-account key",
        )
        access.kubeconfig_with_token(_ADMIN_TOKEN, access.kubeconfig)
        self._run_etcd(etcd_port, peer_port)
        apiserver = self._run(
            "kube-apiserver",
            [str(binaries.kube_apiserver())]
            + [f"--etcd-servers=http://127.0.0.1:{etcd_port}", f"--secure-port={port}", f"--cert-dir={certificates}"]
            + [f"--bind-address={self._address}", f"--advertise-address={self._address}"]
            + [f"--token-auth-file={tokens}", *self._options_of_api_server()]
            + ["--service-account-issuer=https://kubernetes.default.svc"]
            + [f"--service-account-key-file={self._service_account_key}"]
            + [f"--service-account-signing-key-file={self._service_account_key}"]
            + [f"--service-cluster-ip-range={SERVICES}"],
        )
        apiserver.wait_until(lambda: _ready(access))
        manager = self._run(
            "kube-controller-manager",
            [str(binaries.kube_controller_manager()), f"--kubeconfig={access.kubeconfig}"]
            + ["--bind-address=127.0.0.1", f"--secure-port={manager_port}", "--leader-elect=false"]
            + [f"--cert-dir={self._folder / 'manager-certificates'}"]
            + [f"--service-account-private-key-file={self._service_account_key}"]
            + ["--kube-api-qps=300", "--kube-api-burst=600"]  # the default throttling makes Jobs crawl
            + self._options_of_controllers(access),
        )
        manager.wait_until(lambda: _get(access, "/api/v1/namespaces/default/serviceaccounts/default"))
        return access

    def _options_of_api_server(self) -> list[str]:
        if self._components is None:
            return ["--endpoint-reconciler-type=none", "--authorization-mode=RBAC"]
        names = ["--kubelet-preferred-address-types=InternalIP"]  # there is no DNS
        return ["--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", *names]

    def _options_of_controllers(self, access: KubernetesAccess) -> list[str]:
        if self._components is None:
            return [f"--controllers={','.join(f'{name}-controller' for name in CONTROLLERS)}"]
        return [f"--root-ca-file={access.certificate}"]  # by which pods know the API server

    def _run_etcd(self, port: int, peer_port: int) -> None:
        client, peer = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peer_port}"
        etcd = self._run(
            "etcd",
            [str(binaries.etcd()), "--name=test", f"--data-dir={self._folder / 'etcd'}", "--log-level=warn"]
            + ["--unsafe-no-fsync", f"--listen-client-urls={client}", f"--advertise-client-urls={client}"]
            + [f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=test={peer}"],
        )
        etcd.wait_until(lambda: accepts_connections(port))  # or the API server would only say that it has no storage

    def _run(self, name: str, command: list[str]) -> ServerProcess:
        process = ServerProcess(name, command, log=self._folder / f"{name}.log")
        self._processes.append(process)
        return process


def kubectl(access: KubernetesAccess, *arguments: str, stdin: str | None = None) -> str:
    command = [str(binaries.kubectl()), f"--kubeconfig={access.kubeconfig}", *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, check=True).stdout


def _ready(access: KubernetesAccess) -> bool:
    return access.certificate.exists() and _get(access, "/readyz")


def _get(access: KubernetesAccess, path: str) -> bool:
    request = urllib.request.Request(access.server + path, headers={"Authorization": f"Bearer {_ADMIN_TOKEN}"})
    try:
        context = create_default_context(cafile=str(access.certificate))
        with urllib.request.urlopen(request, timeout=5, context=context) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _kubeconfig(server: str, certificate: Path, token: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [{"name": "test", "cluster": {"server": server, "certificate-authority": str(certificate)}}],
        "users": [{"name": "test", "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    }
