"""Renames, reads and deletions of table objects that meet at the worst moment."""

import threading
from collections.abc import Callable, Iterator
from uuid import UUID

import pytest
from pyiceberg.exceptions import NoSuchTableError, TableAlreadyExistsError

from tableformat.catalogs.configmap_tables import TableObjects
from tableformat.catalogs.outcomes import DeletionPendingError, OutcomeUnknown
from tests.unit.catalogs.dictionary_server import DictionaryClient, DictionaryServer

S, T, U = ("db", "s"), ("db", "t"), ("db", "u")
TABLE = UUID(int=1)
SOON = 10.0


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


def _step_by_step(meanwhile: Iterator[str]) -> Callable[[str], None]:
    """What others do meanwhile: each part of it just before this process' next request of the kind that it names."""
    awaited = next(meanwhile, None)

    def before(verb: str) -> None:
        nonlocal awaited
        if verb == awaited:
            awaited = None  # what others do makes requests of its own
            awaited = next(meanwhile, None)

    return before


@pytest.fixture
def server() -> DictionaryServer:
    return DictionaryServer()


def _locations(server: DictionaryServer) -> dict[tuple[str, ...], str]:
    tables = TableObjects(DictionaryClient(server), "lake")
    return {name: pointer.location for name in (S, T, U) if (pointer := tables.read(name)) is not None}


def test_a_table_that_two_renames_pass_on_at_once_has_one_name_in_the_end(server: DictionaryServer) -> None:
    TableObjects(DictionaryClient(server), "lake").create(S, "a.metadata.json", TABLE)
    before_the_mark, after_the_mark = _Stop("replace"), _Stop("get")
    first = TableObjects(DictionaryClient(server, _in_order(before_the_mark, after_the_mark)), "lake")
    renaming = threading.Thread(target=first.rename, args=(S, T))
    renaming.start()
    before_the_mark.wait()
    looks = iter(range(100))

    def marked_between_two_looks(verb: str) -> None:
        if verb == "get" and next(looks) == 2:
            before_the_mark.go_on()
            after_the_mark.wait()

    TableObjects(DictionaryClient(server, marked_between_two_looks), "lake").rename(T, U)
    after_the_mark.go_on()
    renaming.join(SOON)
    assert not renaming.is_alive()
    assert list(_locations(server)) == [U]


def test_a_rename_whose_new_name_was_taken_says_so_though_a_commit_took_its_mark_away(server: DictionaryServer) -> None:
    others = TableObjects(DictionaryClient(server), "lake")
    others.create(S, "a.metadata.json", TABLE)

    def meanwhile() -> Iterator[str]:
        yield "replace"  # which marks the old name
        others.create(T, "other.metadata.json", UUID(int=2))
        yield "get"  # which looks whether the table has arrived
        pointer = others.read(S)
        assert pointer is not None
        others.swap(S, pointer, "b.metadata.json", TABLE)

    with pytest.raises(TableAlreadyExistsError):
        TableObjects(DictionaryClient(server, _step_by_step(meanwhile())), "lake").rename(S, T)
    assert _locations(server) == {S: "b.metadata.json", T: "other.metadata.json"}


def test_a_rename_that_another_finished_is_done_though_the_answer_to_its_mark_was_lost(
    server: DictionaryServer,
) -> None:
    others = TableObjects(DictionaryClient(server), "lake")
    others.create(S, "a.metadata.json", TABLE)

    def meanwhile() -> Iterator[str]:
        yield "replace"
        reservation = others._find(T)
        assert reservation is not None
        assert reservation.record.moved_from is not None
        others._mark_moved(S, T, reservation.record.moved_from.id, TABLE)  # the same request
        others._settle(T)
        raise OutcomeUnknown("the answer was lost")

    TableObjects(DictionaryClient(server, _step_by_step(meanwhile())), "lake").rename(S, T)
    assert _locations(server) == {T: "a.metadata.json"}


def test_a_reader_finds_a_table_whose_rename_is_finished_between_its_two_looks(server: DictionaryServer) -> None:
    tables = TableObjects(DictionaryClient(server), "lake")
    tables.create(S, "a.metadata.json", TABLE)
    tables._reserve(S, T, "move")
    tables._mark_moved(S, T, "move", TABLE)  # and here its process died

    for name, expected in ((T, "a.metadata.json"), (S, None)):
        looks = iter(range(100))

        def finished_between_two_looks(verb: str, looks: Iterator[int] = looks) -> None:
            if verb == "get" and next(looks) == 1:
                tables._settle(T)

        pointer = TableObjects(DictionaryClient(server, finished_between_two_looks), "lake").read(name)
        assert (pointer.location if pointer else None) == expected


def test_a_rename_takes_effect_though_a_finalizer_keeps_the_old_object(server: DictionaryServer) -> None:
    server.finalizers = ["backup.example/hold"]
    tables = TableObjects(DictionaryClient(server), "lake")
    tables.create(S, "a.metadata.json", TABLE)
    server.finalizers = []
    tables.rename(S, T)
    assert list(_locations(server)) == [T]
    pointer = tables.read(T)
    assert pointer is not None
    tables.swap(T, pointer, "b.metadata.json", TABLE)
    assert list(_locations(server)) == [T]
    moved = tables.read(T)
    assert moved is not None
    assert moved.location == "b.metadata.json"
    with pytest.raises(DeletionPendingError, match=r"backup\.example/hold"):
        tables.delete(T, moved)
    with pytest.raises(NoSuchTableError):
        tables.rename(S, U)
