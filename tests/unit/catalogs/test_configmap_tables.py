"""Renames, reads and deletions of table objects that meet at the worst moment, on an API server made of a dictionary.

What the server itself does is tested on a real one; here the order of requests is what a test is about.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from uuid import UUID, uuid4

import pytest
from pyiceberg.exceptions import NoSuchTableError
from typing_extensions import override

from tableformat.catalogs.configmap_tables import TableObjects
from tableformat.catalogs.kube_store import ConfigMap, ConfigMapStore
from tableformat.catalogs.outcomes import DeletionPendingError, LostRace

S, T, U = ("db", "s"), ("db", "t"), ("db", "u")
TABLE = UUID(int=1)
SOON = 10.0


class _Server:
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


class _Client(ConfigMapStore):
    """One process' view of the server; `before` is told of each request before it is served."""

    def __init__(self, server: _Server, before: Callable[[str], None] = lambda _: None) -> None:
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


class _Stop:
    """Holds a process at its next request of a kind until it is told to go on."""

    def __init__(self, verb: str) -> None:
        self._verb = verb
        self._reached, self._go_on = threading.Event(), threading.Event()

    def reached_by(self, verb: str) -> bool:
        if verb != self._verb:
            return False
        self._reached.set()
        assert self._go_on.wait(SOON)
        return True

    def wait(self) -> None:
        assert self._reached.wait(SOON)

    def go_on(self) -> None:
        self._go_on.set()


def _in_order(*stops: _Stop) -> Callable[[str], None]:
    left = list(stops)

    def before(verb: str) -> None:
        if left and left[0].reached_by(verb):
            left.pop(0)

    return before


@pytest.fixture
def server() -> _Server:
    return _Server()


def _names(server: _Server) -> list[tuple[str, ...]]:
    return [name for name in (S, T, U) if TableObjects(_Client(server), "lake").read(name) is not None]


def test_a_table_that_two_renames_pass_on_at_once_has_one_name_in_the_end(server: _Server) -> None:
    TableObjects(_Client(server), "lake").create(S, "a.metadata.json", TABLE)
    before_the_mark, after_the_mark = _Stop("replace"), _Stop("get")
    first = TableObjects(_Client(server, _in_order(before_the_mark, after_the_mark)), "lake")
    renaming = threading.Thread(target=first.rename, args=(S, T))
    renaming.start()
    before_the_mark.wait()
    looks = iter(range(100))

    def marked_between_two_looks(verb: str) -> None:
        if verb == "get" and next(looks) == 2:
            before_the_mark.go_on()
            after_the_mark.wait()

    TableObjects(_Client(server, marked_between_two_looks), "lake").rename(T, U)
    after_the_mark.go_on()
    renaming.join(SOON)
    assert not renaming.is_alive()
    assert _names(server) == [U]


def test_a_reader_finds_a_table_whose_rename_is_finished_between_its_two_looks(server: _Server) -> None:
    tables = TableObjects(_Client(server), "lake")
    tables.create(S, "a.metadata.json", TABLE)
    tables._reserve(S, T, "move")
    tables._mark_moved(S, T, "move")  # and here its process died

    for name, expected in ((T, "a.metadata.json"), (S, None)):
        looks = iter(range(100))

        def finished_between_two_looks(verb: str, looks: Iterator[int] = looks) -> None:
            if verb == "get" and next(looks) == 1:
                tables._settle(T)

        pointer = TableObjects(_Client(server, finished_between_two_looks), "lake").read(name)
        assert (pointer.location if pointer else None) == expected


def test_a_rename_takes_effect_though_a_finalizer_keeps_the_old_object(server: _Server) -> None:
    server.finalizers = ["backup.example/hold"]
    tables = TableObjects(_Client(server), "lake")
    tables.create(S, "a.metadata.json", TABLE)
    server.finalizers = []
    tables.rename(S, T)
    assert _names(server) == [T]
    pointer = tables.read(T)
    assert pointer is not None
    tables.swap(T, pointer, "b.metadata.json", TABLE)
    assert _names(server) == [T]
    moved = tables.read(T)
    assert moved is not None
    assert moved.location == "b.metadata.json"
    with pytest.raises(DeletionPendingError, match=r"backup\.example/hold"):
        tables.delete(T, moved)
    with pytest.raises(NoSuchTableError):
        tables.rename(S, U)
