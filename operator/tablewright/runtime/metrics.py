"""What Prometheus reads. Every metric is named and explained here, and listed in docs/operator.md.

What happens is counted as it happens. What is (tables by condition, their figures, the queue) is read when somebody
asks, from the objects as they were last seen; only the leader tells of tables, so that sums over replicas are right.
"""

import time
from collections import Counter as Counts
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from tablewright.api.conditions import HEALTHY, IN_SYNC, MAINTAINED, READY
from tablewright.api.objects import KubernetesObject
from tablewright.api.run import MaintenanceRun, MaintenanceRunStatus
from tablewright.api.table import ManagedTable
from tablewright.runtime.store import ObjectStore

MOST_TABLES = 1000  # with figures of their own: more series than that are a database, not a monitor
_OF_WELL_BEING = (READY, IN_SYNC, HEALTHY, MAINTAINED)  # others are there only while something goes on
_PASSES = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_RUNS = (10, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 28800)
_FIGURES = {  # of status.health -> name, help
    "dataFiles": ("tablewright_table_data_files", "Data files of the table"),
    "smallFiles": ("tablewright_table_small_files", "Data files that are small by the table's policy"),
    "deleteFiles": ("tablewright_table_delete_files", "Delete files and deletion vectors of the table"),
    "dataBytes": ("tablewright_table_data_bytes", "Bytes of the table's data files"),
    "records": ("tablewright_table_records", "Records in the table's data files"),
    "snapshots": ("tablewright_table_snapshots", "Snapshots of the table"),
    "manifests": ("tablewright_table_manifests", "Manifests of the table's current snapshot"),
}
_DONE = {  # of a run's result -> counter, help
    "rewritten_files": ("tablewright_files_rewritten", "Data files that compactions replaced"),
    "rewritten_bytes": ("tablewright_bytes_rewritten", "Bytes of the data files that compactions replaced"),
    "expired_snapshots": ("tablewright_snapshots_expired", "Snapshots that were expired"),
    "deleted_files": ("tablewright_files_deleted", "Files that expiry and orphan removal deleted"),
    "deleted_bytes": ("tablewright_bytes_deleted", "Bytes of the files that expiry and orphan removal deleted"),
    "marked_files": ("tablewright_orphans_marked", "Orphan files that were marked for a later deletion"),
}


class Metrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._passes = Histogram(
            "tablewright_reconcile_seconds",
            "Passes over one object, by kind and outcome (ok, error)",
            ("kind", "outcome"),
            buckets=_PASSES,
            registry=self.registry,
        )
        self._requests = Counter(
            "tablewright_api_requests",
            "Requests to the API server, by method, without watches and without the catalogs' own",
            ("method",),
            registry=self.registry,
        )
        self.leader = Gauge("tablewright_leader", "1 on the replica that leads, else 0", registry=self.registry)
        self._runs = Counter(
            "tablewright_runs",
            "Maintenance runs that ended, by operation and outcome (Succeeded, Failed)",
            ("operation", "outcome"),
            registry=self.registry,
        )
        self._run_seconds = Histogram(
            "tablewright_run_seconds",
            "From a run's start to its end, by operation",
            ("operation",),
            buckets=_RUNS,
            registry=self.registry,
        )
        self._done = {
            field: Counter(name, text, registry=self.registry) for field, (name, text) in sorted(_DONE.items())
        }
        self._events = Counter(
            "tablewright_events",
            "Events that were told, by type and reason",
            ("type", "reason"),
            registry=self.registry,
        )

    def request(self, method: str) -> None:
        self._requests.labels(method).inc()

    def event(self, kind: str, reason: str) -> None:
        self._events.labels(kind, reason).inc()

    def timed(self, kind: str, work: Callable[[], float | None]) -> float | None:
        """Does the work, and counts it."""
        began, outcome = time.perf_counter(), "error"
        try:
            result = work()
            outcome = "ok"
            return result
        finally:
            self._passes.labels(kind, outcome).observe(time.perf_counter() - began)

    def run_changed(self, run: MaintenanceRun, status: MaintenanceRunStatus) -> None:
        """Counts a run when it ends: its status says so for the first time."""
        if run.status.is_finished or not status.is_finished:
            return
        operation = str(run.spec.operation)
        self._runs.labels(operation, str(status.phase)).inc()
        if status.start_time is not None and status.completion_time is not None:
            seconds = (status.completion_time - status.start_time).total_seconds()
            self._run_seconds.labels(operation).observe(max(0.0, seconds))
        if status.result is not None:
            for field, counter in self._done.items():
                counter.inc(getattr(status.result, field))

    def watch_queue(self, depth: Callable[[], int], longest_wait: Callable[[], float]) -> None:
        waiting = Gauge("tablewright_queue_depth", "Objects that wait for a pass", registry=self.registry)
        waiting.set_function(depth)
        age = Gauge(
            "tablewright_queue_oldest_seconds", "How long the first of them has been waiting", registry=self.registry
        )
        age.set_function(longest_wait)

    def watch_tables(self, store: ObjectStore, leads: Callable[[], bool], *, most_tables: int) -> None:
        self.registry.register(_Tables(store, leads, most_tables))

    def text(self) -> bytes:
        return generate_latest(self.registry)


class _Tables(Collector):
    def __init__(self, store: ObjectStore, leads: Callable[[], bool], most_tables: int) -> None:
        self._store, self._leads, self._most_tables = store, leads, most_tables

    def describe(self) -> Iterator[Metric]:
        return iter(())  # without this the registry would collect once to learn the names

    def collect(self) -> Iterator[Metric]:
        tables = self._store.all(ManagedTable.kind_name) if self._leads() else []
        tables = sorted(tables, key=_name)
        yield self._conditions(tables)
        yield self._troubles(tables)
        yield from self._figures(tables[: self._most_tables])

    def _conditions(self, tables: Sequence[KubernetesObject]) -> Metric:
        counts = Counts((each["type"], each["status"]) for table in tables for each in _conditions_of(table))
        text = "Tables by condition and its status"
        family = GaugeMetricFamily("tablewright_tables", text, labels=("condition", "status"))
        for labels, count in sorted(counts.items()):
            family.add_metric(labels, count)
        return family

    def _troubles(self, tables: Sequence[KubernetesObject]) -> Metric:
        """So that an alert can say which table it is: what is well has no series, and costs none."""
        text = "1 for each condition of a table that does not hold, with its reason"
        labels = ("namespace", "table", "condition", "status", "reason")
        family = GaugeMetricFamily("tablewright_table_trouble", text, labels=labels)
        troubled = ((table, _troubles_of(table)) for table in tables)
        for table, troubles in islice((each for each in troubled if each[1]), self._most_tables):
            for trouble in troubles:
                family.add_metric((*_name(table), *trouble), 1)
        return family

    def _figures(self, tables: Sequence[KubernetesObject]) -> Iterator[Metric]:
        for field, (name, text) in _FIGURES.items():
            family = GaugeMetricFamily(name, text, labels=("namespace", "table"))
            for table in tables:
                value = ((table.get("status") or {}).get("health") or {}).get(field)
                if value is not None:
                    family.add_metric(_name(table), value)
            yield family


def _conditions_of(table: KubernetesObject) -> list[dict[str, str]]:
    return list((table.get("status") or {}).get("conditions") or ())


def _troubles_of(table: KubernetesObject) -> list[tuple[str, str, str]]:
    return [
        (each["type"], each["status"], each["reason"])
        for each in _conditions_of(table)
        if each["type"] in _OF_WELL_BEING and each["status"] != "True"
    ]


def _name(table: KubernetesObject) -> tuple[str, str]:
    return table["metadata"]["namespace"], table["metadata"]["name"]
