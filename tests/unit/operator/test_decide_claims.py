"""Two objects that claim one table."""

from tablewright.api.objects import parse
from tablewright.api.table import ManagedTable
from tablewright.decide.claims import older_claim
from tablewright.decide.state import TableAbsent
from tests.unit.operator.values import NOW, decide, present


def claim(name: str, created: str, *, identifier: str = "events", catalog: str = "lake") -> ManagedTable:
    return parse(
        ManagedTable,
        {
            "metadata": {"name": name, "namespace": "sales", "uid": f"uid-{name}", "creationTimestamp": created},
            "spec": {
                "catalogRef": {"name": catalog},
                "identifier": {"namespace": "sales", "name": identifier},
                "schema": {"columns": [{"name": "id", "type": "long"}]},
            },
        },
    )


OLD = claim("old", "2026-01-01T00:00:00Z")
YOUNG = claim("young", "2026-02-01T00:00:00Z")


def test_the_older_object_has_the_table() -> None:
    assert older_claim(YOUNG, [OLD, YOUNG]) is OLD
    assert older_claim(OLD, [OLD, YOUNG]) is None


def test_of_two_that_are_equally_old_exactly_one_has_it() -> None:
    twin = claim("twin", "2026-01-01T00:00:00Z")
    assert [older_claim(OLD, [OLD, twin]), older_claim(twin, [OLD, twin])] == [None, OLD]


def test_of_two_of_the_same_second_the_one_that_has_the_table_keeps_it() -> None:
    status = decide(OLD, present(), [], NOW).status
    holder = claim("zz-holder", "2026-01-01T00:00:00Z").model_copy(update={"status": status})
    assert older_claim(holder, [OLD, holder]) is None
    assert older_claim(OLD, [OLD, holder]) is holder


def test_other_tables_and_other_catalogs_are_no_rivals() -> None:
    others = [claim("a", "2025-01-01T00:00:00Z", identifier="other"), claim("b", "2025-01-01T00:00:00Z", catalog="b")]
    assert older_claim(YOUNG, others) is None


def test_the_younger_object_does_nothing_and_says_who_has_the_table() -> None:
    decision = decide(YOUNG, TableAbsent(), [], NOW, claimed_by=OLD)
    assert (decision.apply, decision.start) == (None, None)
    assert {c.reason for c in decision.status.conditions} == {"ClaimedByAnother"}
    assert "old" in decision.status.conditions[0].message


def knowing(table: ManagedTable, namespace: str, catalog: str) -> ManagedTable:
    """The object in another namespace and with another catalog, where it found the table of `SHARED`."""
    metadata = table.metadata.model_copy(update={"namespace": namespace, "uid": f"{namespace}-{table.metadata.uid}"})
    spec = table.spec.model_copy(update={"catalog_ref": table.spec.catalog_ref.model_copy(update={"name": catalog})})
    found = table.model_copy(update={"metadata": metadata, "spec": spec})
    return found.model_copy(update={"status": decide(found, SHARED, [], NOW).status})


SHARED = present()


def test_one_table_that_is_reached_through_two_catalogs_is_the_older_objects() -> None:
    there, here = knowing(OLD, "elsewhere", "theirs"), knowing(YOUNG, "sales", "lake")
    assert older_claim(here, [there]) is there
    assert older_claim(there, [here]) is None
    decision = decide(here, SHARED, [], NOW, claimed_by=there)
    assert (decision.apply, decision.start) == (None, None)
    assert "elsewhere/old" in decision.status.conditions[0].message


def test_tables_that_nobody_has_seen_yet_are_not_the_same() -> None:
    assert older_claim(claim("a", "2026-02-01T00:00:00Z"), [claim("b", "2026-01-01T00:00:00Z", catalog="b")]) is None
