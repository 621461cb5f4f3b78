"""Renames among creations, commits and drops, in any order of their requests, with answers lost and processes killed.

Each process runs until its next request and waits there for its turn, which Hypothesis gives. After every request a
table has one name, the same for every reader, and no commit that was confirmed is ever lost.
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.exceptions import NoSuchTableError, TableAlreadyExistsError
from pyiceberg.typedef import Identifier
from typing_extensions import override

from tableformat.backoff import RetryPolicy
from tableformat.catalogs import configmap_tables
from tableformat.catalogs.configmap_tables import TableObjects
from tableformat.catalogs.kube_store import ConfigMap
from tableformat.catalogs.outcomes import CatalogUnavailableError, LostRace, NotApplied, OutcomeUnknown
from tests.unit.catalogs.dictionary_server import DictionaryClient, DictionaryServer

S, T, U = ("db", "s"), ("db", "t"), ("db", "u")
NAMES: tuple[Identifier, ...] = (S, T, U)
FIRST = UUID(int=1)
WITHOUT_WAITING = RetryPolicy(retries=30, min_wait_ms=0, max_wait_ms=0, total_ms=60_000)
SOON = 10.0


class Turn(Enum):
    """What becomes of a process' next request."""

    SERVED = "served"
    ANSWER_LOST = "served, and the answer is lost"
    KILLED = "killed before it"


class Outcome(Enum):
    DONE, REFUSED, UNKNOWN = "done", "refused", "unknown"


class _Killed(BaseException):
    pass


@dataclass
class Truth:
    """What the processes were told of their own writes."""

    created: dict[UUID, str] = field(default_factory=dict)
    parents: dict[str, str] = field(default_factory=dict)
    """Of each metadata file that a commit brought, the one it builds on."""
    confirmed: dict[UUID, set[str]] = field(default_factory=dict)
    perhaps_dropped: set[UUID] = field(default_factory=set)
    dropped: set[UUID] = field(default_factory=set)


@dataclass(frozen=True)
class Operation:
    verb: str
    name: Identifier
    other: Identifier = ()

    def carry_out(self, tables: TableObjects, number: int, truth: Truth) -> None:
        location = f"{number}.metadata.json"
        match self.verb:
            case "rename":
                tables.rename(self.name, self.other)
            case "create":
                tables.create(self.name, location, UUID(int=100 + number))
                truth.created[UUID(int=100 + number)] = location
            case "commit":
                pointer = tables.read(self.name)
                if pointer is None:
                    raise NoSuchTableError(str(self.name))
                assert pointer.table_uuid is not None
                truth.parents[location] = pointer.location
                tables.swap(self.name, pointer, location, pointer.table_uuid)
                truth.confirmed.setdefault(pointer.table_uuid, set()).add(location)
            case "drop":
                pointer = tables.read(self.name)
                if pointer is None:
                    raise NoSuchTableError(str(self.name))
                assert pointer.table_uuid is not None
                truth.perhaps_dropped.add(pointer.table_uuid)
                tables.delete(self.name, pointer)
                truth.dropped.add(pointer.table_uuid)


class Process(DictionaryClient):
    """An operation in a thread of its own, which makes a request only when it has its turn."""

    def __init__(self, server: DictionaryServer, operation: Operation, number: int, truth: Truth) -> None:
        super().__init__(server, lambda _: self._await_turn())
        self.operation = operation
        self.outcome = Outcome.UNKNOWN
        self.ended = False
        self._crash: BaseException | None = None
        self._turn = Turn.SERVED
        self._go, self._stands = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, args=(number, truth), daemon=True)
        self._thread.start()
        self._stand()

    @override
    def __repr__(self) -> str:
        return str(self.operation)

    def take(self, turn: Turn) -> None:
        """Lets it go on to its next request, or to its end."""
        self._turn = turn
        self._go.release()
        self._stand()

    def _stand(self) -> None:
        assert self._stands.acquire(timeout=SOON)
        if self._crash is not None:
            raise self._crash

    def _run(self, number: int, truth: Truth) -> None:
        try:
            self.operation.carry_out(TableObjects(self, "lake"), number, truth)
            self.outcome = Outcome.DONE
        except (LostRace, NotApplied, NoSuchTableError, TableAlreadyExistsError):
            self.outcome = Outcome.REFUSED
        except (OutcomeUnknown, CatalogUnavailableError, _Killed):
            self.outcome = Outcome.UNKNOWN
        except BaseException as error:
            self._crash = error
        finally:
            self.ended = True
            self._stands.release()

    def _await_turn(self) -> None:
        self._stands.release()
        self._go.acquire()
        if self._turn is Turn.KILLED:
            raise _Killed

    def _answer(self) -> None:
        if self._turn is Turn.ANSWER_LOST:
            raise OutcomeUnknown("the answer was lost")

    @override
    def create(self, wanted: ConfigMap) -> None:
        super().create(wanted)
        self._answer()

    @override
    def replace(self, known: ConfigMap, data: Mapping[str, str]) -> None:
        super().replace(known, data)
        self._answer()

    @override
    def delete(self, known: ConfigMap) -> None:
        super().delete(known)
        self._answer()


def where(server: DictionaryServer) -> dict[Identifier, tuple[UUID | None, str]]:
    tables = TableObjects(DictionaryClient(server), "lake")
    read = {name: (found.table_uuid, found.location) for name in NAMES if (found := tables.read(name)) is not None}
    listed = {name: (found.table_uuid, found.location) for name, found in tables.list(("db",))}
    assert listed == read, "a list and a read say the same"
    return read


def check(server: DictionaryServer, truth: Truth) -> None:
    found = list(where(server).values())
    tables = [table_uuid for table_uuid, _ in found]
    assert len(tables) == len(set(tables)), "a table has one name"
    assert not truth.dropped & set(tables), "what was dropped is gone"
    assert truth.created.keys() - truth.perhaps_dropped <= set(tables), "what was created is there"
    for table_uuid, location in found:
        history = {location}
        while (location := truth.parents.get(location, "")) != "":
            history.add(location)
        assert table_uuid is not None
        assert truth.confirmed.get(table_uuid, set()) <= history, "a commit that was confirmed is not lost"


operations = st.one_of(
    st.builds(Operation, st.just("rename"), st.sampled_from(NAMES), st.sampled_from(NAMES)).filter(
        lambda operation: operation.name != operation.other
    ),
    st.builds(Operation, st.sampled_from(["create", "commit", "drop"]), st.sampled_from(NAMES)),
)
any_turn = st.sampled_from([Turn.SERVED] * 18 + [Turn.ANSWER_LOST, Turn.KILLED])
nobody_killed = st.sampled_from([Turn.SERVED] * 9 + [Turn.ANSWER_LOST])


def play(
    wanted: Sequence[Operation], data: st.DataObject, turns: st.SearchStrategy[Turn]
) -> tuple[DictionaryServer, list[Process]]:
    """A process often has several turns on end: whole operations between two requests of another are what hurts."""
    server, truth = DictionaryServer(), Truth()
    TableObjects(DictionaryClient(server), "lake").create(S, "first.metadata.json", FIRST)
    truth.created[FIRST] = "first.metadata.json"
    processes = [Process(server, operation, number, truth) for number, operation in enumerate(wanted)]
    try:
        while waiting := [process for process in processes if not process.ended]:
            process = data.draw(st.sampled_from(waiting))
            for _ in range(data.draw(st.integers(1, 8))):
                if not process.ended:
                    process.take(data.draw(turns))
                    check(server, truth)
    finally:
        for process in processes:
            if not process.ended:
                process.take(Turn.KILLED)
    return server, processes


@pytest.fixture(autouse=True)
def _without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configmap_tables, "SMALL_WRITES", WITHOUT_WAITING)


@settings(max_examples=150)
@given(wanted=st.lists(operations, min_size=2, max_size=4), data=st.data())
def test_in_any_order_of_requests_a_table_has_one_name_and_keeps_its_commits(
    wanted: list[Operation], data: st.DataObject
) -> None:
    play(wanted, data, any_turn)


among_creations_and_commits = st.lists(
    st.builds(Operation, st.sampled_from(["create", "commit"]), st.sampled_from([S, T])), min_size=1, max_size=3
)


@settings(max_examples=150)
@given(others=among_creations_and_commits, data=st.data())
def test_a_rename_says_truly_whether_it_took_place(others: list[Operation], data: st.DataObject) -> None:
    wanted = [Operation("rename", S, T), *others]
    server, [rename, *_] = play(wanted, data, nobody_killed)
    [name] = [name for name, (table_uuid, _) in where(server).items() if table_uuid == FIRST]
    if rename.outcome is not Outcome.UNKNOWN:
        assert (name == T) == (rename.outcome is Outcome.DONE)
