"""An API server made of a dictionary, for tests in which the order of requests is what matters.

What the server itself does is tested on a real one.
"""

from collections.abc import Callable, Iterator, Mapping
from uuid import uuid4

from typing_extensions import override

from tableformat.catalogs.kube_store import ConfigMap, ConfigMapStore
from tableformat.catalogs.outcomes import DeletionPendingError, LostRace


class DictionaryServer:
    def __init__(self) -> None:
        self.objects: dict[str, ConfigMap] = {}
        self.finalizers: list[str] = []  # on whatever is created
        self._versions = 0

    def put(self, name: str, data: Mapping[str, str], labels: Mapping[str, str], metadata: dict[str, object]) -> None:
        self._versions += 1
        self.objects[name] = ConfigMap(name, dict(data), dict(labels), str(self._versions), metadata)

    def check(self, known: ConfigMap) -> ConfigMap:
        found = self.objects.get(known.name)
        if found is None or found.version != known.version:
            raise LostRace("409")
        return found


class DictionaryClient(ConfigMapStore):
    """One process' view of the server; `before` is told of each request before it is served."""

    def __init__(self, server: DictionaryServer, before: Callable[[str], None] = lambda _: None) -> None:
        self._server = server
        self.before = before

    @override
    def describe(self, name: str) -> str:
        return f"ConfigMap sales/{name}"

    @override
    def get(self, name: str) -> ConfigMap | None:
        self.before("get")
        return self._server.objects.get(name)

    @override
    def list(self, labels: Mapping[str, str]) -> Iterator[ConfigMap]:
        self.before("list")
        yield from [found for found in self._server.objects.values() if found.labels == labels]

    @override
    def create(self, wanted: ConfigMap) -> None:
        self.before("create")
        if wanted.name in self._server.objects:
            raise LostRace("409")
        metadata: dict[str, object] = {"uid": uuid4().hex, "finalizers": self._server.finalizers}
        self._server.put(wanted.name, wanted.data, wanted.labels, metadata)

    @override
    def replace(self, known: ConfigMap, data: Mapping[str, str]) -> None:
        self.before("replace")
        found = self._server.check(known)
        self._server.put(found.name, data, found.labels, found.metadata)

    @override
    def delete(self, known: ConfigMap) -> None:
        self.before("delete")
        found = self._server.check(known)
        if finalizers := found.metadata["finalizers"]:
            self._server.put(found.name, found.data, found.labels, found.metadata)
            raise DeletionPendingError(f"{self.describe(found.name)} stays: {finalizers}")
        del self._server.objects[found.name]
