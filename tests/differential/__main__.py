"""Runs seeds of the differential machine: `python -m tests.differential --seeds 0..300 --jobs 2 --shrink`."""

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

from tests.differential.cases import stored_case
from tests.differential.faults import FAULTS, find
from tests.differential.machine import Machine
from tests.differential.running import Report, run


def main() -> int:
    arguments = _arguments()
    if arguments.steps is not None:
        with Machine() as machine:
            failure = machine.check(stored_case(arguments.steps))
        print(failure or "agrees")
        return int(failure is not None)
    if arguments.prove:
        return _prove(arguments.seeds)
    started, total = time.monotonic(), Report()
    for report in run(arguments.seeds, jobs=arguments.jobs, shrinking=arguments.shrink):
        total.add(report)
        for failure in report.failures:
            print(f"{failure}\n", flush=True)
        seconds = time.monotonic() - started
        print(f"{total.seeds} seeds, {len(total.failures)} failures, {seconds:.0f} s", flush=True)
    print(f"operations: {dict(total.operations)}\nrefusals: {sum(total.refusals.values())}")
    for reason, count in total.refusals.most_common(20):
        print(f"  {count} {reason}")
    print(f"steps that a table did not take: {dict(total.left_out)}")
    for kind, count in Counter(failure.kind for failure in total.failures).most_common():
        print(f"{count} x {kind}: seeds {', '.join(str(f.case.seed) for f in total.failures if f.kind == kind)}")
    return int(bool(total.failures))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument("--seed", type=int, help="run one seed")
    parser.add_argument("--seeds", default="0..300", help="range of seeds, the last one not included")
    parser.add_argument("--jobs", type=int, default=1, help="number of processes")
    parser.add_argument("--shrink", action="store_true", help="shrink failures to the fewest steps")
    parser.add_argument("--prove", action="store_true", help="plant each fault, and say how many seeds find it")
    parser.add_argument("--steps", type=Path, help="JSON file with the steps of one case")
    arguments = parser.parse_args()
    first, _, last = arguments.seeds.partition("..")
    arguments.seeds = (
        range(int(first), int(last)) if arguments.seed is None else range(arguments.seed, arguments.seed + 1)
    )
    return arguments


def _prove(seeds: range) -> int:
    missed = 0
    with Machine() as machine:
        for name, planted in FAULTS.items():
            found = find(machine, planted, seeds)
            missed += found is None
            text = f"not found in {len(seeds)} seeds" if found is None else f"{found.kind}, by seed {found.case.seed}"
            print(f"{name}: {text}", flush=True)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
