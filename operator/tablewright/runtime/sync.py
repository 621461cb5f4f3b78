"""What the watches cannot tell: when everything was seen once, and what vanished while a connection was down.

kopf reports neither the end of its first listing nor an object that was deleted in a gap of its watch. So the kinds
are listed here: once before anything is watched or done, again before a new leader acts, and every few minutes after
that. An object that is not in the list though it was known before the list was made is gone.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tableformat.catalogs.naming import KIND_TABLE, LABEL_KIND
from tablewright.act.jobs import RUN_LABEL
from tablewright.api.catalog import TableCatalog
from tablewright.api.objects import GROUP, VERSION, KubernetesObject
from tablewright.api.policy import TablePolicy
from tablewright.api.run import MaintenanceRun
from tablewright.api.table import ManagedTable
from tablewright.runtime.cluster import Cluster
from tablewright.runtime.grants import WATCH_JOBS, WATCH_POINTERS, Grants, Right
from tablewright.runtime.locations import POINTER
from tablewright.runtime.store import ObjectStore

AUDIT_SECONDS = 300.0

logger = logging.getLogger(__name__)

Notice = Callable[[str, KubernetesObject, bool], None]


@dataclass(frozen=True)
class WatchedKind:
    kind: str
    group: str  # as in a path
    plural: str
    selector: str = ""  # of labels: only objects that it selects
    rights: frozenset[Right] = frozenset()  # without which a namespace is left out; none where it is always watched


# Policies and catalogs first: a table that is seen before them would be looked at twice.
KINDS = (
    *(
        WatchedKind(model.kind_name, f"apis/{GROUP}/{VERSION}", model.plural)
        for model in (TablePolicy, TableCatalog, ManagedTable, MaintenanceRun)
    ),
    WatchedKind("Job", "apis/batch/v1", "jobs", RUN_LABEL, WATCH_JOBS),
    WatchedKind(POINTER, "api/v1", "configmaps", f"{LABEL_KIND}={KIND_TABLE}", WATCH_POINTERS),
)


class Synchroniser:
    """`notice` is told of what a list showed to be new, changed (deleted: False) or gone (True)."""

    def __init__(
        self, cluster: Cluster, store: ObjectStore, namespaces: Sequence[str], grants: Grants, notice: Notice
    ) -> None:
        self._cluster, self._store, self._grants, self._notice = cluster, store, grants, notice
        self._namespaces: Sequence[str | None] = namespaces or (None,)
        self._lock = threading.Lock()
        self.done = False

    def synchronise(self) -> None:
        """Brings the store to what the API server has, or raises; then nothing is concluded from what it saw."""
        with self._lock:
            for kind in (each for each in KINDS if not each.rights):
                for namespace in self._namespaces:
                    self._synchronise(kind, namespace)
            self._grants.refresh()
            for kind in (each for each in KINDS if each.rights):
                for granted in self._grants.watchable(kind.rights):
                    self._synchronise(kind, granted)
                    self._grants.listed(granted)
            self.done = True

    def synchronise_granted(self, namespace: str) -> None:
        """Of a namespace whose rights just came: what is there, before anything is concluded from what is not."""
        with self._lock:
            for kind in (each for each in KINDS if each.rights):
                if namespace in self._grants.watchable(kind.rights):
                    self._synchronise(kind, namespace)

    def _synchronise(self, kind: WatchedKind, namespace: str | None) -> None:
        known = self._store.all(kind.kind) if namespace is None else self._store.list(kind.kind, namespace)
        found = set()
        for obj in self._cluster.list_all(kind.group, kind.plural, namespace, kind.selector):
            found.add(obj["metadata"]["uid"])
            seen = self._store.get(kind.kind, obj["metadata"]["namespace"], obj["metadata"]["name"])
            if seen is None or seen["metadata"]["resourceVersion"] != obj["metadata"]["resourceVersion"]:
                self._notice(kind.kind, obj, False)
        for obj in known:
            if obj["metadata"]["uid"] not in found:
                logger.info("%s %s/%s is gone", kind.kind, obj["metadata"]["namespace"], obj["metadata"]["name"])
                self._notice(kind.kind, obj, True)
