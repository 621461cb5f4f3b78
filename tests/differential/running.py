"""Runs many seeds in several processes, each of which has a machine of its own until it ends."""

import logging
import multiprocessing
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing.util import Finalize

from tests.differential.cases import case_of
from tests.differential.machine import Failure, Machine
from tests.differential.shrinking import shrink

_AT_A_TIME = 10


@dataclass
class Report:
    """What came of some seeds."""

    seeds: int = 0
    failures: list[Failure] = field(default_factory=list)
    operations: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)

    def add(self, other: "Report") -> None:
        self.seeds += other.seeds
        self.failures += other.failures
        self.operations += other.operations
        self.refusals += other.refusals
        self.left_out += other.left_out


def run(seeds: range, *, jobs: int, shrinking: bool) -> Iterator[Report]:
    portions = [seeds[start : start + _AT_A_TIME] for start in range(0, len(seeds), _AT_A_TIME)]
    # Not forked: a child would have the locks of threads that it does not have.
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(_run, portions, [shrinking] * len(portions))


_machine: Machine | None = None


def _run(seeds: Sequence[int], shrinking: bool) -> Report:
    global _machine
    if _machine is None:
        logging.disable()  # what is left alone is counted
        _machine = Machine()
        Finalize(_machine, _machine.close, exitpriority=10)
    machine = _machine
    machine.refusals, machine.operations, machine.left_out = Counter(), Counter(), Counter()
    found = [failure for seed in seeds if (failure := machine.check(case_of(seed))) is not None]
    failures = [shrink(failure, machine.check) for failure in found] if shrinking else found
    return Report(len(seeds), failures, machine.operations, machine.refusals, machine.left_out)
