"""Finds the fewest steps by which a case still fails in the same way."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.differential.cases import Case, Step
from tests.differential.machine import Failure


def shrink(failure: Failure, check: Callable[[Case], Failure | None]) -> Failure:
    """Leave out steps, then columns, options and rows, each for as long as the case still fails in the same way."""

    def first_failing(cases: Iterator[Case]) -> Failure | None:
        found = (check(case) for case in cases)
        return next((each for each in found if each is not None and each.kind == failure.kind), None)

    smallest = failure
    for smaller in (_fewer_steps, _plainer_steps):
        place = len(smallest.case.steps) - 1
        while place >= 0:
            found = first_failing(smaller(smallest.case, place))
            if found is None or smaller is _fewer_steps:
                place -= 1
            smallest = found or smallest
    return first_failing(iter([replace(smallest.case, location="t")])) or smallest


def _fewer_steps(case: Case, place: int) -> Iterator[Case]:
    if place > 0:
        yield replace(case, steps=case.steps[:place] + case.steps[place + 1 :])


def _plainer_steps(case: Case, place: int) -> Iterator[Case]:
    for plainer in _simpler(case.steps[place]):
        yield replace(case, steps=(*case.steps[:place], plainer, *case.steps[place + 1 :]))


def _simpler(step: Step) -> Iterator[Step]:
    if step["do"] == "create":
        yield from _simpler_create(step)
    if step["do"] == "compact":
        yield from _simpler_compaction(step)
    for name, simplest in (("files", 1), ("rows", 1), ("keys", 1), ("upsert", 0), ("format", "parquet")):
        if step.get(name, simplest) != simplest:
            yield {**step, name: simplest}
    if step.get("rows", 0) > 3:
        yield {**step, "rows": step["rows"] // 2}


def _simpler_create(step: Step) -> Iterator[Step]:
    fields, properties = step["schema"]["fields"], step["properties"]
    if len(fields) > 1:
        for place in range(len(fields)):
            yield {**step, "schema": {**step["schema"], "fields": fields[:place] + fields[place + 1 :]}}
    for name in properties:
        yield {**step, "properties": {key: value for key, value in properties.items() if key != name}}


def _simpler_compaction(step: Step) -> Iterator[Step]:
    if step["strategy"] != "binpack":
        yield {**step, "strategy": "binpack"}
    for name in step["options"].keys() - {"min_input_files"}:
        yield {**step, "options": {key: value for key, value in step["options"].items() if key != name}}
