"""The watched objects as they were last seen, for passes that run in threads while watches go on.

It may lag behind the API server; every action therefore is guarded by the server (names that are functions of their
cause, compare-and-swap), and what must not be concluded from absence is read again.
"""

import threading

from tablewright.api.objects import KubernetesObject


class ObjectStore:
    def __init__(self) -> None:
        self._objects: dict[tuple[str, str, str], KubernetesObject] = {}
        self._lock = threading.Lock()

    def put(self, kind: str, obj: KubernetesObject) -> None:
        with self._lock:
            self._objects[self._key(kind, obj)] = obj

    def remove(self, kind: str, obj: KubernetesObject) -> None:
        with self._lock:
            self._objects.pop(self._key(kind, obj), None)

    def get(self, kind: str, namespace: str, name: str) -> KubernetesObject | None:
        with self._lock:
            return self._objects.get((kind, namespace, name))

    def list(self, kind: str, namespace: str) -> list[KubernetesObject]:
        with self._lock:
            return [obj for (k, n, _), obj in self._objects.items() if k == kind and n == namespace]

    @staticmethod
    def _key(kind: str, obj: KubernetesObject) -> tuple[str, str, str]:
        return kind, obj["metadata"]["namespace"], obj["metadata"]["name"]
