"""The line in which runs wait for their turn, across all tables: who waits, who is under way, and since when.

It is fed by events and asked by passes, which run in threads: a turn is given and taken under one lock, so limits hold
however many passes ask at once. Whose turn it is, is decided in `decide.limits`.
"""

import threading
from collections import Counter
from collections.abc import Iterable
from datetime import datetime

from tablewright.api.catalog import TableCatalog, TableCatalogSpec
from tablewright.api.objects import KubernetesObject
from tablewright.api.run import Phase
from tablewright.api.table import ManagedTable
from tablewright.decide.limits import Limits, Place, RunInLine, turns, waits_for_limit
from tablewright.runtime.store import ObjectStore

_DEFAULT_LIMIT: int = TableCatalogSpec.model_fields["max_concurrent_runs"].default


class RunLine:
    def __init__(self, store: ObjectStore, most_runs: int) -> None:
        self._store = store
        self._most_runs = most_runs
        self._waiting: dict[Place, RunInLine] = {}
        self._waiting_for: Counter[Place] = Counter()  # how many of them, by catalog
        self._under_way: dict[Place, Place] = {}  # table
        self._admitted: set[Place] = set()  # their Jobs are being created, and no event has said so yet
        self._aside: set[Place] = set()  # something else than a limit holds them up
        self._last_ends: dict[Place, datetime] = {}
        self._lock = threading.Lock()

    def notice_run(self, obj: KubernetesObject, *, deleted: bool) -> None:
        key, status = _place_of(obj), obj.get("status") or {}
        table = Place(key.namespace, obj["spec"]["tableRef"]["name"])
        finished = status.get("phase") in (Phase.SUCCEEDED, Phase.FAILED)
        cancelled = "deletionTimestamp" in obj["metadata"] and not status.get("jobName")
        with self._lock:
            # One that was cancelled while it waited never takes its turn, however long a finalizer keeps it there.
            if deleted or finished or (cancelled and key not in self._admitted):
                self._forget(key)
                end = status.get("completionTime")
                if end:
                    self._last_ends[table] = max(_time(end), self._last_ends.get(table, _time(end)))
            elif status.get("jobName") or key in self._admitted:
                self._take(key, table)
                if status.get("jobName"):
                    self._admitted.discard(key)
            else:
                self._wait(key, table, _time(obj["metadata"]["creationTimestamp"]))

    def notice_job(self, obj: KubernetesObject) -> None:
        """A run has its Job, though its status may not say so: the operator died in between."""
        key = _place_of(obj)
        with self._lock:
            if key in self._waiting:
                self._admitted.add(key)
                self._take(key, self._waiting[key].table)

    def ask(self, key: Place) -> str | None:
        """Takes the run's turn if it has come, and otherwise says what it waits for."""
        with self._lock:
            self._aside.discard(key)
            if key not in self._waiting:
                return None  # it has its turn already
            run = self._waiting[key]
            if run.catalog != self._catalog_of(run.table):  # it was seen before its table was
                run = self._wait(key, run.table, run.created)
            under_way = self._by_catalog()
            limits = self._limits([run.catalog])
            free = under_way.total() < limits.total and under_way[run.catalog] < limits.of(run.catalog)
            if free and key in self._turns(under_way):
                self._admitted.add(key)
                self._take(key, run.table)
                return None
            return waits_for_limit(run, under_way, limits)

    def step_aside(self, key: Place) -> list[Place]:
        """The run cannot start for a reason of its own; it must not keep a turn from others. Whose turn it is then."""
        with self._lock:
            if key in self._aside:
                return []
            self._aside.add(key)
        return self.next()

    def give_back(self, key: Place, created: datetime) -> None:
        """The run could not take its turn after all."""
        with self._lock:
            table = self._under_way.pop(key, None)
            self._admitted.discard(key)
            if table is not None:
                self._wait(key, table, created)

    def next(self) -> list[Place]:
        """Whose turn it is now."""
        with self._lock:
            under_way = self._by_catalog()
            if under_way.total() >= self._most_runs or all(
                under_way[catalog] >= self._limit_of(catalog) for catalog in self._waiting_for
            ):
                return []  # thousands may wait: they are not looked at for nothing
            return self._turns(under_way)

    def _turns(self, under_way: "Counter[Place]") -> list[Place]:
        busy = set(self._under_way.values())
        waiting = [run for key, run in self._waiting.items() if run.table not in busy and key not in self._aside]
        return turns(waiting, under_way, self._last_ends, self._limits(self._waiting_for))

    def _by_catalog(self) -> "Counter[Place]":
        return Counter(self._catalog_of(table) for table in self._under_way.values())

    def _catalog_of(self, table: Place) -> Place:
        obj = self._store.get(ManagedTable.kind_name, *table)
        return Place(table.namespace, obj["spec"]["catalogRef"]["name"] if obj else "")

    def _limits(self, catalogs: Iterable[Place]) -> Limits:
        return Limits(self._most_runs, {catalog: self._limit_of(catalog) for catalog in catalogs})

    def _limit_of(self, catalog: Place) -> int:
        """As the catalog says, even where the rest of it cannot be read."""
        obj = self._store.get(TableCatalog.kind_name, *catalog)
        limit = (obj or {}).get("spec", {}).get("maxConcurrentRuns")
        return limit if isinstance(limit, int) else _DEFAULT_LIMIT

    def _wait(self, key: Place, table: Place, created: datetime) -> RunInLine:
        self._leave(key)
        run = RunInLine(key, table, self._catalog_of(table), created)
        self._waiting[key] = run
        self._waiting_for[run.catalog] += 1
        return run

    def _leave(self, key: Place) -> None:
        run = self._waiting.pop(key, None)
        if run is not None:
            self._waiting_for[run.catalog] -= 1
            self._waiting_for += Counter()  # without those that nobody waits for

    def _take(self, key: Place, table: Place) -> None:
        self._leave(key)
        self._under_way[key] = table

    def _forget(self, key: Place) -> None:
        self._leave(key)
        self._under_way.pop(key, None)
        self._admitted.discard(key)
        self._aside.discard(key)


def _place_of(obj: KubernetesObject) -> Place:
    return Place(obj["metadata"]["namespace"], obj["metadata"]["name"])


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)
