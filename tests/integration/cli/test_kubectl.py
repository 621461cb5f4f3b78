"""In a cluster: `get` and `describe` against a real API server, and the same as a plugin of a real kubectl."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.integration.cli.conftest import TABLES, environment, run_cli
from tests.servers import binaries
from tests.servers.kubernetes import KubernetesAccess, kubectl

pytestmark = pytest.mark.xdist_group("operator")


def test_tables_of_a_cluster_are_shown_as_kubectl_shows_them_also_as_its_plugin(
    crds: KubernetesAccess, kube_namespace: str
) -> None:
    document = yaml.safe_load(TABLES)
    document["metadata"]["namespace"] = kube_namespace
    kubectl(crds, "apply", "--server-side", "-f", "-", stdin=yaml.safe_dump(document))
    status = {
        "status": {
            "conditions": [
                {
                    "type": kind,
                    "status": "True",
                    "reason": "R",
                    "message": "m",
                    "lastTransitionTime": "2026-03-01T00:00:00Z",
                }
                for kind in ("Ready", "InSync", "Healthy", "Maintained")
            ]
        }
    }
    patch = ("patch", "managedtable", "events", "--subresource=status", "--type=merge", "-p", yaml.safe_dump(status))
    kubectl(crds, "-n", kube_namespace, *patch)

    theirs = kubectl(crds, "-n", kube_namespace, "get", "managedtables").splitlines()
    plugin = environment(PATH=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    command = [str(binaries.kubectl()), "tablewright", "get", "tables", "-n", kube_namespace]
    shown = subprocess.run(
        [*command, f"--kubeconfig={crds.kubeconfig}"], env=plugin, capture_output=True, text=True, timeout=120
    )
    assert shown.returncode == 0, shown.stderr
    ours = shown.stdout.splitlines()
    assert [line.split() for line in ours[:1]] == [line.split() for line in theirs[:1]]
    told = [cell for cell in theirs[1].split() if cell != "<none>"][:-1]  # all but the age, which goes on
    assert [cell for cell in ours[1].split() if cell != "-"][: len(told)] == told

    described = run_cli("describe", "mtbl", "events", "-n", kube_namespace, "--kubeconfig", crds.kubeconfig)
    assert described.code == 0, described.err
    assert "Maintained" in described.out
    nowhere = run_cli("get", "tables", "--kubeconfig", "/nowhere/config")
    assert nowhere.code == 2
    assert "the cluster cannot be reached" in nowhere.err
