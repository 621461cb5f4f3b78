"""Runs the end-to-end suite: `python -m tests.e2e [--cluster node|kind|KUBECONFIG] [pytest's options]`.

node (the default): a Kubernetes node of the suite's own on this machine, in namespaces for network, mounts and
processes that end with the run. Needs root, or `sudo` that asks for no password.
kind: a cluster of kind's in Docker, made for the run and removed after it.
KUBECONFIG: a file; the images must be where the cluster finds them (E2E_OPERATOR_IMAGE, E2E_JOBS_IMAGE), and the pods
must reach this machine by E2E_ADDRESS.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.e2e.cluster import ClusterChoice
from tests.servers import images, toolchain
from tests.servers.cache import SetupError
from tests.servers.node import ADDRESS, Ground

_KIND = "tablewright-e2e"
_SUITE = Path(__file__).parent


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.e2e", description=(__doc__ or "").split("\n\n", 1)[1])
    parser.add_argument("--cluster", default="node", help="node, kind, or the path of a kubeconfig")
    options, words = parser.parse_known_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that what was made is removed
    pytest = [sys.executable, "-m", "pytest", "-p", "no:xdist", *(words or [str(_SUITE)])]
    try:
        if options.cluster == "node":
            return _on_a_node(pytest)
        if options.cluster == "kind":
            return _on_kind(pytest)
        return _on_a_cluster(pytest, Path(options.cluster))
    except SetupError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _on_a_node(pytest: Sequence[str]) -> int:
    root = toolchain.root_prefix()
    if root is None:
        raise SetupError("a node runs as root: run this as root, or with sudo that asks for no password")
    if root:  # everything from here on makes files and namespaces that are root's
        os.execvp(root[0], [*root, "--preserve-env", sys.executable, "-m", "tests.e2e", *sys.argv[1:]])  # noqa: S606
    toolchain.node_tools()
    with images.open_store() as store:
        for source in (images.OPERATOR, images.JOBS):
            store.build(source)
        store.build_pause()
        names = (images.OPERATOR.name, images.JOBS.name, images.PAUSE)
        archives = tuple(str(store.export(name)) for name in names)
    alone = ["unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child"]
    reaping = ["bash", "-c", '"$@" & wait $!', "bash"]  # the first process of a namespace takes over its orphans
    with Ground() as ground:
        choice = ClusterChoice(
            address=ADDRESS,
            operator_image=images.OPERATOR.name,
            jobs_image=images.JOBS.name,
            pause_image=images.PAUSE,
            archives=archives,
            control_group=ground.control_group,
        )
        return subprocess.run([*alone, *reaping, *pytest], env=choice.to_environment()).returncode


def _on_kind(pytest: Sequence[str]) -> int:
    names = (images.OPERATOR.name, images.JOBS.name)
    with tempfile.TemporaryDirectory(prefix="tablewright-kind-") as folder:
        kubeconfig = Path(folder) / "kubeconfig"
        for source in (images.OPERATOR, images.JOBS):
            _run("docker", "build", "-t", source.name, "-f", source.dockerfile, ".")
        create = ["--name", _KIND, "--config", str(_SUITE / "kind.yaml"), "--kubeconfig", str(kubeconfig)]
        _run("kind", "create", "cluster", *create)
        try:
            _run("kind", "load", "docker-image", "--name", _KIND, *names)
            gateway = "{{range .IPAM.Config}}{{.Gateway}} {{end}}"
            found = _run("docker", "network", "inspect", "kind", "--format", gateway).split()
            address = next(each for each in found if ":" not in each)  # of this machine, as kind's containers see it
            choice = ClusterChoice(address, *names, kubeconfig=str(kubeconfig))
            return subprocess.run(pytest, env=choice.to_environment()).returncode
        finally:
            _run("kind", "delete", "cluster", "--name", _KIND, "--kubeconfig", str(kubeconfig))


def _on_a_cluster(pytest: Sequence[str], kubeconfig: Path) -> int:
    if not kubeconfig.is_file():
        raise SetupError(f"{kubeconfig}: there is no such kubeconfig: --cluster is node, kind, or the path of one")
    needed = ("E2E_ADDRESS", "E2E_OPERATOR_IMAGE", "E2E_JOBS_IMAGE")
    if missing := [name for name in needed if not os.environ.get(name)]:
        raise SetupError(f"set {', '.join(missing)}: this machine's address for pods, and the images in your registry")
    address, operator_image, jobs_image = (os.environ[name] for name in needed)
    choice = ClusterChoice(address, operator_image, jobs_image, kubeconfig=str(kubeconfig.resolve()))
    return subprocess.run(pytest, env=choice.to_environment()).returncode


def _run(*command: str) -> str:
    try:
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    except FileNotFoundError:
        raise SetupError(f"{command[0]} is needed for a cluster of kind's: install it, or leave CLUSTER out") from None
    except subprocess.CalledProcessError as error:
        raise SetupError(f"`{' '.join(command[:3])} …` failed with code {error.returncode}, as shown above") from None


if __name__ == "__main__":
    sys.exit(main())
