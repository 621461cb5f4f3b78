"""A whole Kubernetes node: control plane, scheduler, kubelet, containerd and kube-proxy, for pods that really run.

It must be started in namespaces of its own for network, mounts and processes (`tests/e2e/__main__.py` makes them), so
that whatever happens, its containers, interfaces and mounts end with the run. Only control groups and the folders that
its mounts are put on are the machine's: whoever makes the namespaces keeps them in a `Ground`, which outlives the node.
There is neither DNS nor a registry in it: images are imported from archives, and servers for pods listen on the
bridge's address.
"""

import contextlib
import json
import os
import subprocess
import time
from pathlib import Path

from tests.servers import binaries
from tests.servers.kubernetes import SERVICES, Component, ControlPlane, KubernetesAccess, kubectl
from tests.servers.process import ServerProcess

ADDRESS = "10.244.0.1"
_PODS = "10.244.0.0/24"
_NAME = "node-1"
_SCHEDULER = Component("scheduler", "system:kube-scheduler")
_PROXY = Component("proxy", "system:kube-proxy")
_KUBELET = Component("kubelet", f"system:node:{_NAME}", "system:nodes")
_CONTROL_GROUPS = Path("/sys/fs/cgroup")
# What its programs keep at fixed paths: hidden behind file systems of the run's own.
_OWN_FOLDERS = ("/var/lib/kubelet", "/var/lib/cni", "/var/log/containers", "/run/containerd", "/run/netns")


class Ground:
    """What a node stands on of the machine itself, made before it and removed after it, however it ended."""

    def __init__(self) -> None:
        self.control_group = f"tablewright-{os.getpid()}"
        self._made: list[Path] = []

    def __enter__(self) -> "Ground":
        for folder in map(Path, _OWN_FOLDERS):
            if not folder.exists():
                folder.mkdir(parents=True)
                self._made.append(folder)
        for controller in _controllers():
            group = controller / self.control_group
            group.mkdir()
            for name in ("cpuset.cpus", "cpuset.mems"):  # a group without them takes no process
                if (controller / name).exists():
                    (group / name).write_text((controller / name).read_text())
        return self

    def __exit__(self, *error: object) -> None:
        for controller in _controllers():
            for path, _, _ in os.walk(controller / self.control_group, topdown=False):
                _remove_when_empty(Path(path))
        for folder in self._made:
            with contextlib.suppress(OSError):  # another run uses it now
                folder.rmdir()


class Node:
    def __init__(self, folder: Path, *, control_group: str, pause_image: str, archives: list[Path]) -> None:
        """`archives` are the images that pods may use; one of them has `pause_image`."""
        self._folder = folder
        self._pause_image = pause_image
        self._control_group = control_group
        self._processes: list[ServerProcess] = []
        self._containerd: ServerProcess
        for path in (folder / "cni", folder / "kubelet", folder / "logs"):
            path.mkdir(parents=True)
        _make_network()
        for own in _OWN_FOLDERS:
            _do("mount", "-t", "tmpfs", "tmpfs", own)
        self._control_plane = ControlPlane(
            folder / "control-plane", address=ADDRESS, components=(_SCHEDULER, _PROXY, _KUBELET)
        )
        try:
            self._start(archives)
        except BaseException:
            self.stop()
            raise

    @property
    def access(self) -> KubernetesAccess:
        return self._control_plane.access

    def restart_containerd(self, *, away: float = 1.0) -> None:
        """Kills it and starts it again; containers go on without it, as they do on any node."""
        self._containerd.kill()
        self._processes.remove(self._containerd)
        time.sleep(away)
        self._containerd = self._run_containerd()

    def stop(self) -> None:
        """The pods' own processes end with the namespace that they are in."""
        for process in reversed(self._processes):
            process.kill()
        self._control_plane.stop()

    def _start(self, archives: list[Path]) -> None:
        self._run("kube-scheduler", [str(binaries.kube_scheduler()), *self._as(_SCHEDULER), "--leader-elect=false"])
        self._containerd = self._run_containerd()
        for archive in archives:
            _do("ctr", "--address", str(self._socket), "--namespace", "k8s.io", "images", "import", str(archive))
        kubelet = self._run(
            "kubelet",
            [str(binaries.kubelet()), f"--config={self._write_kubelet_configuration()}", *self._as(_KUBELET)]
            + [f"--root-dir={self._folder / 'kubelet'}", f"--cert-dir={self._folder / 'kubelet' / 'pki'}"]
            + [f"--hostname-override={_NAME}", f"--node-ip={ADDRESS}"],
        )
        self._run("kube-proxy", [str(binaries.kube_proxy()), f"--config={self._write_proxy_configuration()}"])
        kubelet.wait_until(self._is_ready, seconds=120)

    def _is_ready(self) -> bool:
        path = "jsonpath={.items[*].status.conditions[?(@.type=='Ready')].status}"
        with contextlib.suppress(subprocess.CalledProcessError):
            return kubectl(self.access, "get", "nodes", "-o", path) == "True"
        return False

    def _run_containerd(self) -> ServerProcess:
        configuration = self._folder / "containerd.toml"
        configuration.write_text(self._containerd_configuration())
        (self._folder / "cni" / "10-bridge.conflist").write_text(json.dumps(_CNI | {"plugins": [self._bridge()]}))
        process = self._run("containerd", ["containerd", f"--config={configuration}"])
        check = ["ctr", "--address", str(self._socket), "version"]
        process.wait_until(lambda: subprocess.run(check, capture_output=True).returncode == 0)
        return process

    @property
    def _socket(self) -> Path:
        return self._folder / "containerd.sock"

    def _bridge(self) -> dict[str, object]:
        ranges = {"type": "host-local", "dataDir": str(self._folder / "addresses"), "ranges": [[{"subnet": _PODS}]]}
        named = {"type": "bridge", "bridge": "cni0", "isGateway": True, "isDefaultGateway": True, "hairpinMode": True}
        return {**named, "ipam": ranges}

    def _containerd_configuration(self) -> str:
        return f"""
version = 2
root = "{self._folder}/containerd"
state = "{self._folder}/containerd-state"
[grpc]
  address = "{self._socket}"
[ttrpc]
  address = "{self._socket}.ttrpc"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{self._pause_image}"
  disable_apparmor = true
  restrict_oom_score_adj = true  # root of a container may not lower it
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{self._folder}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
"""

    def _write_kubelet_configuration(self) -> Path:
        (self._folder / "resolv.conf").write_text("options timeout:1 attempts:1\n")
        return self._write(
            "kubelet.json",
            {
                "apiVersion": "kubelet.config.k8s.io/v1beta1",
                "kind": "KubeletConfiguration",
                "address": ADDRESS,
                # In this network there is nobody but the API server.
                "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
                "authorization": {"mode": "AlwaysAllow"},
                "containerRuntimeEndpoint": f"unix://{self._socket}",
                "cgroupDriver": "cgroupfs",
                "cgroupRoot": f"/{self._control_group}",
                "failCgroupV1": False,
                "failSwapOn": False,
                "oomScoreAdj": 0,
                "maxOpenFiles": 20000,
                "podLogsDir": str(self._folder / "logs"),
                "resolvConf": str(self._folder / "resolv.conf"),
                "imageGCHighThresholdPercent": 100,
                "imageGCLowThresholdPercent": 99,
                "evictionHard": {"memory.available": "200Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
            },
        )

    def _write_proxy_configuration(self) -> Path:
        return self._write(
            "proxy.json",
            {
                "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
                "kind": "KubeProxyConfiguration",
                "mode": "iptables",
                "clusterCIDR": _PODS,
                "hostnameOverride": _NAME,
                "bindAddress": ADDRESS,
                "clientConnection": {"kubeconfig": str(self._kubeconfig(_PROXY))},
                "conntrack": {"maxPerCore": 0},
                "oomScoreAdj": 0,
            },
        )

    def _write(self, name: str, value: object) -> Path:
        path = self._folder / name
        path.write_text(json.dumps(value))
        return path

    def _as(self, component: Component) -> list[str]:
        return [f"--kubeconfig={self._kubeconfig(component)}"]

    def _kubeconfig(self, component: Component) -> Path:
        return self.access.kubeconfig_with_token(component.token, self._folder / f"{component.name}.kubeconfig.json")

    def _run(self, name: str, command: list[str]) -> ServerProcess:
        process = ServerProcess(name, command, log=self._folder / f"{name}.log")
        self._processes.append(process)
        return process


_CNI = {"cniVersion": "1.0.0", "name": "tablewright"}


def _make_network() -> None:
    _do("ip", "link", "set", "lo", "up")
    _do("ip", "link", "add", "cni0", "type", "bridge")
    _do("ip", "address", "add", f"{ADDRESS}/24", "dev", "cni0")
    _do("ip", "link", "set", "cni0", "up")
    _do("ip", "route", "add", SERVICES, "dev", "cni0")  # the node itself reaches services, too
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    bridged = Path("/proc/sys/net/bridge/bridge-nf-call-iptables")
    if bridged.exists():
        bridged.write_text("1")


def _controllers() -> list[Path]:
    """Where control groups are made: one place in the second version, one for each controller in the first."""
    if (_CONTROL_GROUPS / "cgroup.controllers").exists():
        return [_CONTROL_GROUPS]
    return [path for path in _CONTROL_GROUPS.iterdir() if path.is_dir() and not path.is_symlink()]


def _remove_when_empty(group: Path) -> None:
    """The kernel takes a moment to let a killed process go."""
    deadline = time.monotonic() + 10
    while True:
        try:
            group.rmdir()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _do(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"`{' '.join(command)}` failed: {done.stderr.strip()}")
