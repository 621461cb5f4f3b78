"""The watched objects as they were last seen, for passes that run in threads while watches go on.

It may lag behind the API server; every action therefore is guarded by the server (names that are functions of their
cause, compare-and-swap), and what must not be concluded from absence is read again. What the operator itself wrote is
put here from the server's answer, so that the next pass does not act on what was before.
"""

import sys
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tablewright.api.objects import KubernetesObject
from tablewright.api.run import MaintenanceRun
from tablewright.runtime.keys import place_of

Value = TypeVar("Value")

MOST_REMEMBERED_DELETIONS = 1000
LONGEST_SHARED = 40  # characters: names of fields, reasons and units repeat, locations and messages do not


class ObjectStore:
    def __init__(self) -> None:
        self._objects: defaultdict[tuple[str, str], dict[str, KubernetesObject]] = defaultdict(dict)
        self._runs_of: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        self._derived: dict[int, tuple[KubernetesObject, dict[Any, Any]]] = {}
        self._deleted: OrderedDict[str, None] = OrderedDict()  # uids: a late answer must not bring one back
        self._lock = threading.Lock()

    def put(self, kind: str, obj: KubernetesObject) -> bool:
        """Takes the object in, unless a newer version of it is known already, and says whether it did."""
        namespace, name = place_of(obj)
        with self._lock:
            if obj["metadata"].get("uid") in self._deleted:
                return False
            known = self._objects[kind, namespace].get(name)
            if known is not None and _is_older(obj, known):
                return False
            if known is not None:
                self._derived.pop(id(known), None)
            self._objects[kind, namespace][name] = _compact(obj)
            if kind == MaintenanceRun.kind_name:
                self._runs_of[namespace, _table_of(obj)].add(name)
            return True

    def remove(self, kind: str, obj: KubernetesObject) -> None:
        with self._lock:
            self._remove(kind, obj)

    def get(self, kind: str, namespace: str, name: str) -> KubernetesObject | None:
        with self._lock:
            return self._objects.get((kind, namespace), {}).get(name)

    def list(self, kind: str, namespace: str) -> list[KubernetesObject]:
        with self._lock:
            return list(self._objects.get((kind, namespace), {}).values())

    def all(self, kind: str) -> Sequence[KubernetesObject]:
        with self._lock:
            return [obj for (found, _), objects in self._objects.items() if found == kind for obj in objects.values()]

    def namespaces(self, kind: str) -> set[str]:
        """Those that have objects of this kind."""
        with self._lock:
            return {namespace for (found, namespace), objects in self._objects.items() if found == kind and objects}

    def runs_of(self, namespace: str, table: str) -> Sequence[KubernetesObject]:
        with self._lock:
            objects = self._objects.get((MaintenanceRun.kind_name, namespace), {})
            return [objects[name] for name in sorted(self._runs_of.get((namespace, table), ()))]

    def derived(self, make: Callable[[KubernetesObject], Value], obj: KubernetesObject) -> Value:
        """`make` of the object: made once, and once more when the object changed. For what many passes need."""
        with self._lock:
            known = self._derived.get(id(obj))
            if known is not None and known[0] is obj and make in known[1]:
                value: Value = known[1][make]
                return value
        value = make(obj)
        namespace, name = place_of(obj)
        with self._lock:
            if any(objects.get(name) is obj for (_, where), objects in self._objects.items() if where == namespace):
                self._derived.setdefault(id(obj), (obj, {}))[1][make] = value
        return value

    def _remove(self, kind: str, obj: KubernetesObject) -> None:
        namespace, name = place_of(obj)
        uid = obj["metadata"].get("uid")
        if uid:
            self._deleted[uid] = None
            while len(self._deleted) > MOST_REMEMBERED_DELETIONS:
                self._deleted.popitem(last=False)
        known = self._objects[kind, namespace].get(name)
        if known is None or (uid and known["metadata"].get("uid") != uid):
            return  # another object of the same name took its place meanwhile
        del self._objects[kind, namespace][name]
        self._derived.pop(id(known), None)
        if kind == MaintenanceRun.kind_name:
            names = self._runs_of[namespace, _table_of(known)]
            names.discard(name)
            if not names:
                del self._runs_of[namespace, _table_of(known)]


def _compact(obj: KubernetesObject) -> KubernetesObject:
    """Without who wrote which field, and with the words that thousands of objects share held once."""
    metadata = {name: value for name, value in obj["metadata"].items() if name != "managedFields"}
    compact: KubernetesObject = _shared({**obj, "metadata": metadata})
    return compact


def _shared(value: Any) -> Any:
    if isinstance(value, dict):
        return {sys.intern(name): _shared(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_shared(inner) for inner in value]
    return sys.intern(value) if isinstance(value, str) and len(value) <= LONGEST_SHARED else value


def _table_of(run: KubernetesObject) -> str:
    return str(run["spec"]["tableRef"]["name"])


def _is_older(obj: KubernetesObject, known: KubernetesObject) -> bool:
    """Versions of one object count up; of two objects of one name nothing is known but which came last."""
    new, old = obj["metadata"], known["metadata"]
    if new.get("uid") != old.get("uid"):
        return False
    versions = (str(new.get("resourceVersion")), str(old.get("resourceVersion")))
    return all(version.isdecimal() for version in versions) and int(versions[0]) < int(versions[1])
