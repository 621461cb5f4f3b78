"""A table's whole life, told as steps that wait for their outcome, and an operator that dies again and again meanwhile.

The life: declared, created, written to, compacted by a run whose Job a fixed ending plays, evolved, and dropped with or
without its files. Each step ends in the same state whatever happened to the operator; what may be there once only is
counted at the end.
"""

import contextlib
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from kubernetes import client
from pyiceberg.catalog import Catalog

from tests.operators import Namespace, OperatorProcesses, Replica
from tests.servers.kubelet import Ending, Kubelet
from tests.servers.proxy import FaultProxy, Request
from tests.waiting import eventually

COLUMNS = [{"name": "id", "type": "long"}, {"name": "city", "type": "string"}]
REPORT = {"succeeded": True, "reason": "Compacted", "message": "done"}


def spec(*extra: dict[str, str], deletion: str = "Drop") -> dict[str, Any]:
    return {
        "catalogRef": {"name": "lake"},
        "identifier": {"namespace": "sales", "name": "events"},
        "schema": {"columns": [*COLUMNS, *extra]},
        "compaction": {"triggers": {"smallFiles": 3}},
        "deletionPolicy": deletion,
    }


@dataclass
class Life:
    """What was there at the end, for the test to judge."""

    uuids: set[str] = field(default_factory=set)
    runs: int = 0
    jobs: int = 0
    files: int = 0  # left in storage
    told: Counter[str] = field(default_factory=Counter)


def live(
    namespace: Namespace, catalog: Catalog, api: client.ApiClient, *, seconds: float = 90, deletion: str = "Drop"
) -> Life:
    """Takes the table through its life."""
    life = Life()

    def condition(kind: str, value: str) -> None:
        eventually(lambda: namespace.conditions("events"), lambda c: c.get(kind) == value, seconds=seconds)

    with Kubelet(api, namespace.name, lambda _: Ending(0, json.dumps(REPORT))):
        namespace.apply("ManagedTable", "events", spec(deletion=deletion))
        condition("InSync", "True/AsDeclared")
        table = catalog.load_table(("sales", "events"))
        life.uuids.add(str(table.metadata.table_uuid))
        for number in range(3):
            table.append(pa.table({"id": [number], "city": ["Pune"]}))
        eventually(namespace.runs, lambda runs: any(_succeeded(run) for run in runs), seconds=seconds)
        namespace.apply("ManagedTable", "events", spec({"name": "n", "type": "int"}, deletion=deletion))
        eventually(
            lambda: catalog.load_table(("sales", "events")).schema().column_names,
            lambda names: names == ["id", "city", "n"],
            seconds=seconds,
        )
        condition("InSync", "True/AsDeclared")
        condition("Maintained", "True/Succeeded")
        table = catalog.load_table(("sales", "events"))
        life.uuids.add(str(table.metadata.table_uuid))
        assert table.scan().to_arrow().num_rows == 3
        life.runs = len(namespace.runs())
        life.jobs = len(client.BatchV1Api(api).list_namespaced_job(namespace.name).items)
        namespace.delete("managedtable", "events")
        eventually(lambda: namespace.table("events"), lambda obj: obj is None, seconds=seconds)
    assert not catalog.table_exists(("sales", "events"))
    folder = Path(table.location().removeprefix("file://"))
    life.files = sum(path.is_file() for path in folder.rglob("*"))
    life.told = Counter(event["reason"] for event in namespace.events())
    return life


def _succeeded(run: dict[str, Any]) -> bool:
    return bool((run.get("status") or {}).get("phase") == "Succeeded")


def is_write(request: Request) -> bool:
    """Of the operator's work; the renewal of a Lease goes by the clock and is none of it."""
    return "/leases" not in request.path


class Undertaker:
    """Starts an operator behind the proxy, kills it at chosen writes before it hears of them, and starts the next."""

    def __init__(
        self, processes: OperatorProcesses, proxy: FaultProxy, kubeconfig: Path, dies: Callable[[int], bool]
    ) -> None:
        self.writes, self.deaths = 0, 0
        self._processes, self._kubeconfig, self._dies = processes, kubeconfig, dies
        self._lock = threading.Lock()
        self._next = threading.Event()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._follow)
        proxy.applied = self._applied
        self._replica = self._start()

    def _start(self) -> Replica:
        return self._processes.start_replica("mortal", "--lease-seconds", "4", kubeconfig=self._kubeconfig)

    def _applied(self, request: Request) -> None:
        with self._lock:
            if self._done.is_set() or not is_write(request) or self._replica.process.poll() is not None:
                return
            self.writes += 1
            if self._dies(self.writes):
                self._replica.process.kill()
                self._replica.process.wait()
                self.deaths += 1
                self._next.set()

    def _follow(self) -> None:
        while True:
            self._next.wait()
            self._next.clear()
            if self._done.is_set():
                return
            replica = self._start()
            with self._lock:
                self._replica = replica

    def __enter__(self) -> "Undertaker":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:  # from here on nobody dies: no other would follow
            self._done.set()
        self._next.set()
        self._thread.join()
        if self._replica.process.poll() is None:  # one that has just begun does not hear yet that it is to stop
            eventually(lambda: self._replica.get("/healthz")[0], lambda status: status == 200)


@contextlib.contextmanager
def dying_operator(
    namespace: Namespace, processes: OperatorProcesses, folder: Path, dies: Callable[[int], bool]
) -> Iterator[Undertaker]:
    """`dies` is asked at each write that the API server took, with its number."""
    with FaultProxy(namespace.access.server, namespace.access.certificate) as proxy:
        behind = namespace.access.kubeconfig_with_token("admin-token", folder / "behind.json", server=proxy.url)
        with Undertaker(processes, proxy, behind, dies) as undertaker:
            yield undertaker
        processes.stop_all()
