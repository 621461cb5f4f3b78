"""Whatever the CRDs allow is understood, or refused with a sentence; whatever they forbid the models forbid, too."""

import re
from datetime import timedelta
from random import Random
from typing import Any

import pytest

from tableformat.declaration import InvalidDeclarationError
from tablewright.api.catalog import TableCatalog
from tablewright.api.declaration import declaration_of
from tablewright.api.objects import InvalidObjectError, KubernetesResource, Resource, parse
from tablewright.api.policy import TablePolicy
from tablewright.api.table import ManagedTable
from tablewright.decide.policy import effective_policy
from tablewright.decide.schedules import is_open, next_opening, next_time
from tests.definitions import KINDS, schema
from tests.generated_objects import allowed, broken
from tests.unit.operator.values import NOW

every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind_name)
SEEDS = range(200)


def read(kind: type[Resource], spec: dict[str, Any]) -> Resource:
    return parse(kind, {"metadata": {"name": "it", "namespace": "sales"}, "spec": spec})


def some(kind: type[Resource], random: Random) -> Resource | None:
    """One that the CRD allows, if the model does, too."""
    try:
        return read(kind, allowed(schema(kind)["properties"]["spec"], random))
    except InvalidObjectError:
        return None


@every_kind
def test_what_the_schema_allows_is_understood_or_refused_with_a_sentence(kind: type[KubernetesResource]) -> None:
    understood = [some(kind, Random(seed)) for seed in SEEDS]
    assert None in understood or kind.kind_name == "MaintenanceRun"
    assert any(understood)


def test_a_declaration_is_understood_or_each_of_its_problems_has_a_field_and_a_remedy() -> None:
    understood, refused = 0, 0
    for seed in SEEDS:
        table = some(ManagedTable, Random(seed))
        if table is not None:
            try:
                declaration_of(table)
                understood += 1
            except InvalidDeclarationError as error:
                refused += all(problem.field and problem.remedy for problem in error.problems)
    assert understood
    assert refused


@every_kind
@pytest.mark.parametrize("block", range(4))
def test_what_the_schema_forbids_the_model_forbids(kind: type[KubernetesResource], block: int) -> None:
    for seed in range(block * 100, block * 100 + 100):
        spec = broken(schema(kind)["properties"]["spec"], Random(seed))
        with pytest.raises(InvalidObjectError, match=re.escape(f"{kind.kind_name} it: spec")):
            read(kind, spec)


def test_whatever_levels_there_are_their_policy_can_be_worked_with() -> None:
    """Schedules have a next time, windows open, and every value that holds has an origin."""
    tried = 0
    for seed in SEEDS:
        random = Random(seed)
        table, policy, catalog = some(ManagedTable, random), some(TablePolicy, random), some(TableCatalog, random)
        if table is None:
            continue
        found = effective_policy(table, [policy] if policy else [], catalog)
        for schedule in found.schedules.values():
            assert next_time(schedule, NOW, found.time_zone) > NOW
        if not is_open(found.windows, NOW):
            opening = next_opening(found.windows, NOW)
            assert opening is not None
            assert NOW < opening <= NOW + timedelta(days=8)
        assert NOW - (found.snapshot_max_age or timedelta(0)) <= NOW + found.orphan_grace
        assert {field.origin.split("/")[0] for field in found.fields} <= {"table", "policy", "catalog", "default"}
        tried += 1
    assert tried > 10
