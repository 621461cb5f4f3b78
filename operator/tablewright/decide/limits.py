"""How many runs may be under way at once, and whose turn it is: fair between tables.

Of the runs that wait, the one goes first whose table has waited longest. A table's wait begins anew when one of its
runs ends, so a table with a hundred runs in line takes its turn among the others.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

_BEGINNING = datetime.min.replace(tzinfo=UTC)


class Place(NamedTuple):
    """Where something is: a namespace, and a name in it."""

    namespace: str
    name: str


@dataclass(frozen=True)
class RunInLine:
    """A run that waits for its Job, as far as turns are concerned."""

    key: Place
    table: Place
    catalog: Place
    created: datetime


@dataclass(frozen=True)
class Limits:
    total: int
    by_catalog: Mapping[Place, int]  # of those that are known

    def of(self, catalog: Place) -> int:
        return self.by_catalog.get(catalog, self.total)


def turns(
    waiting: Collection[RunInLine],
    under_way: Counter[Place],
    last_ends: Mapping[Place, datetime],
    limits: Limits,
) -> list[Place]:
    """Those of the waiting runs, at most one a table, that may start now; `under_way` counts runs by catalog."""
    free, used, chosen, tables = limits.total - under_way.total(), Counter(under_way), list[Place](), set[Place]()
    for run in sorted(waiting, key=lambda run: (waits_since(run, last_ends), run.created, run.key)):
        if free <= 0:
            break
        if run.table in tables or used[run.catalog] >= limits.of(run.catalog):
            continue
        tables.add(run.table)
        used[run.catalog] += 1
        free -= 1
        chosen.append(run.key)
    return chosen


def waits_since(run: RunInLine, last_ends: Mapping[Place, datetime]) -> datetime:
    return max(run.created, last_ends.get(run.table, _BEGINNING))


def waits_for_limit(run: RunInLine, under_way: Counter[Place], limits: Limits) -> str:
    """What a run whose turn it is not waits for."""
    limit = limits.of(run.catalog)
    if under_way[run.catalog] >= limit:
        return (
            f"waits for one of the {limit} runs that TableCatalog {run.catalog.name} allows at once (maxConcurrentRuns)"
        )
    if under_way.total() >= limits.total:
        return f"waits for one of the {limits.total} runs that the operator allows at once"
    return "waits for tables that have waited longer"
