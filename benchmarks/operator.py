"""The operator with many tables: how long it takes from nothing, what it costs when idle, how fast it follows a change.

A real etcd and API server, real tables in a ConfigMap catalog with files in a local folder, and the operator as a
process of its own, with everything on the same cores. Requests are the API server's own count, less what it counts
without the operator.

    python -m benchmarks.operator --tables 5000 --idle-seconds 120 --changes 30
"""

import argparse
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from ssl import create_default_context
from typing import Any

from kubernetes import client, config

from tableformat.catalogs.naming import KIND_TABLE, object_name
from tests.servers.kubernetes import ControlPlane, KubernetesAccess, kubectl
from tests.servers.process import die_with_parent

NAMESPACE = "default"
GROUP = ("tablewright.dev", "v1alpha1", NAMESPACE, "managedtables")
CRDS = Path(__file__).parents[1] / "crds"
PAUSE = 0.02


@dataclass(frozen=True)
class Usage:
    """A process' processor time so far, and its memory now and at most."""

    seconds: float
    mebibytes: float
    peak_mebibytes: float


class Operator:
    def __init__(self, access: KubernetesAccess, folder: Path, concurrency: int) -> None:
        self._log = folder / "operator.log"
        command = [sys.executable, "-m", "tablewright", "operator", "--job-image", "none", "--host", "127.0.0.1"]
        command += ["--port", "0", "--kubeconfig", str(access.kubeconfig), "--concurrency", str(concurrency)]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, preexec_fn=die_with_parent)

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(60)
        if code:
            raise SystemExit(f"the operator ended with {code}: {self._log.read_text()[-2000:]}")

    def metric(self, sample: str) -> float:
        ports = re.findall(r"answering on port (\d+)", self._log.read_text())
        if not ports:
            return 0.0
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{ports[0]}/metrics", timeout=30) as answer:
                lines = answer.read().decode().splitlines()
        except OSError:
            return 0.0
        return next((float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(f"{sample} ")), 0.0)

    def usage(self) -> Usage:
        process = Path("/proc") / str(self.process.pid)
        fields = (process / "stat").read_text().rsplit(")", 1)[1].split()
        memory = dict(re.findall(r"^(VmRSS|VmHWM):\s+(\d+) kB", (process / "status").read_text(), re.MULTILINE))
        ticks = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return Usage(ticks, int(memory["VmRSS"]) / 1024, int(memory["VmHWM"]) / 1024)


def requests_of(access: KubernetesAccess) -> float:
    """How many the API server has answered so far, watches counted when they end."""
    request = urllib.request.Request(f"{access.server}/metrics", headers={"Authorization": "Bearer admin-token"})
    context = create_default_context(cafile=str(access.certificate))
    with urllib.request.urlopen(request, timeout=30, context=context) as answer:
        text = answer.read().decode()
    return sum(
        float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith("apiserver_request_total")
    )


def table(number: int) -> dict[str, Any]:
    return {
        "apiVersion": "tablewright.dev/v1alpha1",
        "kind": "ManagedTable",
        "metadata": {"name": f"t{number:05d}", "namespace": NAMESPACE, "labels": {"team": f"team-{number % 20}"}},
        "spec": {
            "catalogRef": {"name": "lake"},
            "identifier": {"namespace": f"ns{number % 50}", "name": f"t{number:05d}"},
            "schema": {
                "columns": [
                    {"name": "id", "type": "long", "required": True},
                    {"name": "merchant", "type": "string"},
                    {"name": "amount", "type": "decimal(18,2)"},
                    {"name": "ts", "type": "timestamptz"},
                    {"name": "tags", "type": "list<string>"},
                ]
            },
            "partitioning": [{"column": "ts", "transform": "day"}],
            "properties": {"write.parquet.compression-codec": "zstd"},
        },
    }


POLICY = {
    "apiVersion": "tablewright.dev/v1alpha1",
    "kind": "TablePolicy",
    "metadata": {"name": "defaults", "namespace": NAMESPACE},
    "spec": {
        "compaction": {"triggers": {"smallFiles": 100}},
        "retention": {"snapshots": {"schedule": "15 * * * *", "maxAge": "7d", "minCount": 5}},
        "orphanFiles": {"schedule": "0 3 * * 0"},
    },
}


def create_objects(access: KubernetesAccess, count: int, folder: Path) -> None:
    catalog = {
        "apiVersion": "tablewright.dev/v1alpha1",
        "kind": "TableCatalog",
        "metadata": {"name": "lake", "namespace": NAMESPACE},
        "spec": {"configMap": {}, "warehouse": f"file://{folder}/warehouse"},
    }
    for obj in (catalog, POLICY):
        kubectl(access, "apply", "--server-side", "-f", "-", stdin=json.dumps(obj))
    api = client.CustomObjectsApi(config.new_client_from_config(str(access.kubeconfig)))
    with ThreadPoolExecutor(4) as pool:
        for _ in pool.map(lambda number: api.create_namespaced_custom_object(*GROUP, table(number)), range(count)):
            pass


def wait_for(what: str, holds: Callable[[], bool], *, seconds: float, every: float = 0.5) -> float:
    began = time.monotonic()
    while not holds():
        if time.monotonic() - began > seconds:
            raise SystemExit(f"{what}: not within {seconds:.0f} s")
        time.sleep(every)
    return time.monotonic() - began


def measure_changes(access: KubernetesAccess, tables: int, changes: int) -> list[float]:
    """From a spec change, sent to the API server, to the moment when the table's pointer has moved."""
    api = config.new_client_from_config(str(access.kubeconfig))
    custom, core = client.CustomObjectsApi(api), client.CoreV1Api(api)
    taken = []
    for number in random.Random(7).sample(range(tables), min(changes, tables)):
        obj = table(number)
        identifier = obj["spec"]["identifier"]
        pointer = object_name("lake", KIND_TABLE, (identifier["namespace"], identifier["name"]))
        before = core.read_namespaced_config_map(pointer, NAMESPACE).data["metadata_location"]
        columns = [*obj["spec"]["schema"]["columns"], {"name": "added", "type": "int"}]
        patch = {"spec": {"schema": {"columns": columns}}}
        name = obj["metadata"]["name"]
        began = time.monotonic()
        custom.patch_namespaced_custom_object(*GROUP, name, patch, _content_type="application/merge-patch+json")
        wait_for(
            f"the change of {name}",
            lambda p=pointer, b=before: core.read_namespaced_config_map(p, NAMESPACE).data["metadata_location"] != b,
            seconds=60,
            every=PAUSE,
        )
        taken.append(time.monotonic() - began)
    return taken


def measure(arguments: argparse.Namespace, folder: Path) -> None:
    plane = ControlPlane(folder / "plane")
    try:
        access = plane.access
        kubectl(access, "apply", "--server-side", "-f", str(CRDS))
        kubectl(access, "wait", "--for=condition=Established", "--timeout=60s", "-f", str(CRDS))
        began = time.monotonic()
        create_objects(access, arguments.tables, folder)
        print(f"objects created in {time.monotonic() - began:.0f} s", flush=True)
        before = requests_of(access)
        time.sleep(arguments.idle_seconds)
        without = (requests_of(access) - before) / arguments.idle_seconds * 60

        operator = Operator(access, folder, arguments.concurrency)
        seconds = wait_for(
            "the tables",
            lambda: operator.metric('tablewright_tables{condition="Ready",status="True"}') == arguments.tables,
            seconds=arguments.patience,
        )
        wait_for("the queue", lambda: operator.metric("tablewright_queue_depth") == 0, seconds=600)
        used = operator.usage()
        print(f"| from nothing to {arguments.tables} tables | {seconds:.0f} s, {used.seconds:.0f} s of processor |")
        print(f"| memory then, at most | {used.mebibytes:.0f} MiB, {used.peak_mebibytes:.0f} MiB |", flush=True)

        time.sleep(15)
        first, before = operator.usage(), requests_of(access)
        time.sleep(arguments.idle_seconds)
        last = operator.usage()
        idle = (requests_of(access) - before) / arguments.idle_seconds * 60
        cores = (last.seconds - first.seconds) / arguments.idle_seconds
        print(f"| idle: processor | {cores:.3f} of a core |")
        print(f"| idle: memory | {last.mebibytes:.0f} MiB |")
        print(f"| idle: API requests a minute | {idle - without:.0f} |", flush=True)

        taken = measure_changes(access, arguments.tables, arguments.changes)
        print(
            f"| from a spec change to the table's change | median {statistics.median(taken):.2f} s, "
            f"longest {max(taken):.2f} s of {len(taken)} |"
        )
        operator.stop()

        operator = Operator(access, folder, arguments.concurrency)
        seconds = wait_for(
            "the tables again",
            lambda: (
                operator.metric('tablewright_reconcile_seconds_count{kind="ManagedTable",outcome="ok"}')
                >= arguments.tables
            ),
            seconds=arguments.patience,
        )
        used = operator.usage()
        print(f"| a restart, until every table was looked at | {seconds:.0f} s, {used.seconds:.0f} s of processor |")
        operator.stop()
    finally:
        plane.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, default=500)
    parser.add_argument("--idle-seconds", type=int, default=60)
    parser.add_argument("--changes", type=int, default=20)
    parser.add_argument("--concurrency", type=int, default=4)
    parser.add_argument("--patience", type=int, default=3600, help="seconds to wait for all tables")
    with tempfile.TemporaryDirectory(prefix="tablewright-benchmark-") as folder:
        os.environ["KUBECACHEDIR"] = f"{folder}/kubectl"  # it is in the home folder otherwise
        measure(parser.parse_args(), Path(folder))


if __name__ == "__main__":
    main()
