"""How many runs are under way at once, and whose turn it is."""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tablewright.decide.limits import Limits, Place, RunInLine, turns, waits_for_limit
from tests.unit.operator.values import NOW

LAKE, POND = Place("sales", "lake"), Place("sales", "pond")


def waiting(name: str, *, table: str | None = None, catalog: Place = LAKE, age: int = 0) -> RunInLine:
    return RunInLine(Place("sales", name), Place("sales", table or name), catalog, NOW - timedelta(minutes=age))


def names(places: list[Place]) -> list[str]:
    return [place.name for place in places]


def test_who_waited_longest_goes_first() -> None:
    line = [waiting("a", age=1), waiting("b", age=3), waiting("c", age=2)]
    assert names(turns(line, Counter(), {}, Limits(2, {}))) == ["b", "c"]


def test_one_run_a_table_has_its_turn() -> None:
    line = [waiting("a1", table="a", age=9), waiting("a2", table="a", age=8), waiting("b", age=1)]
    assert names(turns(line, Counter(), {}, Limits(3, {}))) == ["a1", "b"]


def test_a_table_with_many_runs_takes_its_turn_among_the_others() -> None:
    line = [waiting("a2", table="a", age=50), waiting("b", age=10)]
    just_ended = {Place("sales", "a"): NOW - timedelta(minutes=1)}
    assert names(turns(line, Counter(), just_ended, Limits(1, {}))) == ["b"]


def test_a_full_catalog_does_not_hold_up_another() -> None:
    line = [waiting("a", age=9), waiting("b", catalog=POND, age=1)]
    assert names(turns(line, Counter({LAKE: 5}), {}, Limits(20, {LAKE: 5, POND: 5}))) == ["b"]


@pytest.mark.parametrize(
    ("under_way", "said"),
    [
        (Counter({LAKE: 5}), "the 5 runs that TableCatalog lake allows at once"),
        (Counter({POND: 7}), "the 7 runs that the operator allows at once"),
        (Counter({LAKE: 1}), "tables that have waited longer"),
    ],
)
def test_a_run_says_what_it_waits_for(under_way: "Counter[Place]", said: str) -> None:
    assert said in waits_for_limit(waiting("a"), under_way, Limits(7, {LAKE: 5}))


@given(
    ages=st.lists(st.integers(0, 30), max_size=30),
    tables=st.lists(st.integers(0, 9), min_size=30, max_size=30),
    catalogs=st.lists(st.sampled_from([LAKE, POND]), min_size=10, max_size=10),
    total=st.integers(1, 8),
    by_catalog=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    under_way=st.tuples(st.integers(0, 9), st.integers(0, 9)),
)
def test_limits_are_never_exceeded_and_no_turn_is_left_that_could_be_taken(
    ages: list[int],
    tables: list[int],
    catalogs: list[Place],
    total: int,
    by_catalog: tuple[int, int],
    under_way: tuple[int, int],
) -> None:
    limits = Limits(total, dict(zip((LAKE, POND), by_catalog, strict=True)))
    busy = Counter(dict(zip((LAKE, POND), under_way, strict=True)))
    line = {
        Place("sales", f"run-{n}"): waiting(f"run-{n}", table=f"t{t}", catalog=catalogs[t], age=age)
        for n, (age, t) in enumerate(zip(ages, tables, strict=False))
    }
    chosen = [line[key] for key in turns(line.values(), busy, {}, limits)]
    assert len({run.table for run in chosen}) == len(chosen)
    after = busy + Counter(run.catalog for run in chosen)
    if chosen:
        assert after.total() <= total
    for run in chosen:
        assert after[run.catalog] <= limits.of(run.catalog)
    for run in line.values():  # who is left out has a reason
        full = after.total() >= total or after[run.catalog] >= limits.of(run.catalog)
        assert run in chosen or full or run.table in {other.table for other in chosen}


@given(
    runs=st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 8), min_size=1),
    total=st.integers(1, 4),
    lake=st.integers(1, 3),
    lengths=st.lists(st.integers(1, 5), min_size=1, max_size=7),
)
def test_no_table_starves_however_many_runs_another_has(
    runs: dict[str, int], total: int, lake: int, lengths: list[int]
) -> None:
    """While a table waits, no other of its catalog has more than one turn."""
    line = {
        Place("sales", f"{table}-{n}"): RunInLine(
            Place("sales", f"{table}-{n}"), Place("sales", table), LAKE if table < "e" else POND, NOW
        )
        for table, count in runs.items()
        for n in range(count)
    }
    limits, ends, taken = Limits(total, {LAKE: lake, POND: 2}), dict[Place, datetime](), list[_Turn]()
    under_way: list[tuple[RunInLine, datetime]] = []
    now = NOW
    while line or under_way:
        busy = {run.table for run, _ in under_way}
        free = [run for run in line.values() if run.table not in busy]
        for key in turns(free, Counter(run.catalog for run, _ in under_way), ends, limits):
            run = line.pop(key)
            taken.append(_Turn(run, ends.get(run.table, NOW), now))
            under_way.append((run, now + timedelta(minutes=lengths[len(taken) % len(lengths)])))
        assert under_way, "somebody is always under way while anybody waits"
        now = min(end for _, end in under_way)
        for run, end in [pair for pair in under_way if pair[1] <= now]:
            under_way.remove((run, end))
            ends[run.table] = end
    for number, mine in enumerate(taken):
        passed = Counter(
            turn.run.table
            for turn in taken[:number]
            if turn.run.catalog == mine.run.catalog and turn.run.table != mine.run.table and turn.start >= mine.since
        )
        assert all(count == 1 for count in passed.values())


@dataclass(frozen=True)
class _Turn:
    run: RunInLine
    since: datetime
    start: datetime
