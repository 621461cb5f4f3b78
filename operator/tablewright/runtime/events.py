"""From a watched object to the keys of the work that it may change. Nothing is decided here."""

from tablewright.api.catalog import TableCatalog
from tablewright.api.objects import KubernetesObject
from tablewright.api.policy import TablePolicy
from tablewright.api.run import MaintenanceRun
from tablewright.api.table import ManagedTable
from tablewright.runtime.catalogs import OpenCatalogs
from tablewright.runtime.claims import Claims
from tablewright.runtime.keys import Key
from tablewright.runtime.line import RunLine
from tablewright.runtime.locations import POINTER, KnownLocations, pointer_outline
from tablewright.runtime.store import ObjectStore


class EventRouter:
    def __init__(
        self, store: ObjectStore, claims: Claims, line: RunLine, locations: KnownLocations, catalogs: OpenCatalogs
    ) -> None:
        self._store = store
        self._locations = locations
        self._claims = claims
        self._line = line
        self._catalogs = catalogs

    def notice(self, kind: str, obj: KubernetesObject, *, deleted: bool) -> list[Key]:
        """Remembers what was seen, and says what is to be looked at because of it."""
        place = kind, obj["metadata"]["namespace"], obj["metadata"]["name"]
        known = self._store.get(*place)
        if known is not None and not deleted and _version(known) == _version(obj):
            return []  # the echo of a write of our own, whose answer told of it already
        if deleted:
            self._store.remove(kind, obj)
            if self._store.get(*place) is not None:
                return []  # another object of its name took its place, and was told of before
        # Of a pointer only where it led: who reads or swaps it asks the server, never this memory.
        elif not self._store.put(kind, pointer_outline(obj) if kind == POINTER else obj):
            return []  # a newer version is known, or that it is gone: nothing may be concluded from this one any more
        elif kind == MaintenanceRun.kind_name and known is not None and _only_progressed(known, obj):
            return [Key(*place)] if _held_up(known) != _held_up(obj) else []
        self._locations.notice(kind, obj, deleted=deleted)
        rivals = self._rivals(kind, obj, deleted=deleted)
        if kind == MaintenanceRun.kind_name:
            latest = self._store.get(*place)
            if known is not None and latest is not None and _version(known)[0] != _version(latest)[0]:
                self._line.notice_run(known, deleted=True)  # whatever turn it had is not its successor's
            self._line.notice_run(latest or obj, deleted=latest is None)
        elif kind == "Job" and not deleted:
            self._line.notice_job(obj)
        elif kind == TableCatalog.kind_name and deleted:
            self._let_go(*place[1:])
        return [*self._keys(kind, obj, deleted=deleted), *rivals]

    def _let_go(self, namespace: str, catalog: str) -> None:
        """Where every preview environment has a catalog of its own, what was opened and listed would only grow.

        Not by a pass: a standby has none, and may have led before.
        """
        self._catalogs.forget(namespace, catalog)
        self._locations.forget_catalog(namespace, catalog)

    def _rivals(self, kind: str, obj: KubernetesObject, *, deleted: bool) -> list[Key]:
        """The objects whose table may now be another's, or be free."""
        if kind != ManagedTable.kind_name:
            return []
        places = self._claims.remove(obj) if deleted else self._claims.put(obj)
        return [Key(kind, *place) for place in places]

    def wrote(self, kind: str, obj: KubernetesObject) -> list[Key]:
        """As `notice`, of an object that the server answered a write of ours with: a status is no news.

        One whose last finalizer we took is gone, and the answer has the version in which we know it still with that
        finalizer: neither that nor a late event may have a pass release it again.
        """
        if obj["metadata"].get("deletionTimestamp") and not obj["metadata"].get("finalizers"):
            return self.notice(kind, obj, deleted=True)
        known = self._store.get(kind, obj["metadata"]["namespace"], obj["metadata"]["name"])
        may_be_status = kind in (ManagedTable.kind_name, TableCatalog.kind_name, TablePolicy.kind_name)
        if may_be_status and known is not None and _without_status(known) == _without_status(obj):
            self._store.put(kind, obj)
            self._locations.notice(kind, obj, deleted=False)
            return self._rivals(kind, obj, deleted=False)
        return self.notice(kind, obj, deleted=False)

    def _keys(self, kind: str, obj: KubernetesObject, *, deleted: bool) -> list[Key]:
        namespace, name = obj["metadata"]["namespace"], obj["metadata"]["name"]
        if kind == MaintenanceRun.kind_name:
            table = obj["spec"]["tableRef"]["name"]
            runs = {name} | self._waiting_runs(namespace, table)
            keys = [*(Key(kind, namespace, run) for run in runs), Key(ManagedTable.kind_name, namespace, table)]
            return keys + [Key(kind, *place) for place in self._line.next()]  # it may have made way for others
        if kind == "Job":  # named as its run
            return [Key(MaintenanceRun.kind_name, namespace, name)]
        if kind == POINTER:  # somebody committed to a table
            return [Key(ManagedTable.kind_name, namespace, table) for table in self._claims.claimants(namespace, name)]
        if kind == ManagedTable.kind_name:
            runs = self._waiting_runs(namespace, name)
            return [Key(kind, namespace, name), *(Key(MaintenanceRun.kind_name, namespace, run) for run in runs)]
        # A catalog or a policy changed.
        tables = self._store.list(ManagedTable.kind_name, namespace)
        keys = [Key(ManagedTable.kind_name, namespace, table["metadata"]["name"]) for table in tables]
        keys += [Key(MaintenanceRun.kind_name, namespace, run) for run in self._waiting_runs(namespace)]
        return keys if deleted else [Key(kind, namespace, name), *keys]

    def _waiting_runs(self, namespace: str, table: str | None = None) -> set[str]:
        """Runs, of the table if one is given, that have no Job yet: they may wait for what just changed."""
        kind = MaintenanceRun.kind_name
        runs = self._store.list(kind, namespace) if table is None else self._store.runs_of(namespace, table)
        return {run["metadata"]["name"] for run in runs if not (run.get("status") or {}).get("jobName")}


def _version(obj: KubernetesObject) -> tuple[str, str]:
    return obj["metadata"].get("uid", ""), obj["metadata"].get("resourceVersion", "")


def _without_status(obj: KubernetesObject) -> KubernetesObject:
    written_by_the_server = ("resourceVersion", "managedFields")
    metadata = {name: value for name, value in obj["metadata"].items() if name not in written_by_the_server}
    return {"metadata": metadata, "spec": obj.get("spec")}


def _only_progressed(known: KubernetesObject, run: KubernetesObject) -> bool:
    """Whether all that is new of a run is its driver's progress, which is told of every few seconds.

    It changes nothing for its table and for others that wait, and to look at the table may be a call of its catalog.
    """
    before, after = ({**(each.get("status") or {}), "progress": None} for each in (known, run))
    return before == after and _without_status(known) == _without_status(run)


def _held_up(run: KubernetesObject) -> tuple[str | None, str | None]:
    """All that a pass goes by of a driver's progress: why it does no work just now."""
    progress = (run.get("status") or {}).get("progress") or {}
    return progress.get("reason"), progress.get("message")
