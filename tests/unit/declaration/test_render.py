"""A plan for people and for programs."""

import json

from tableformat.declaration import difference, render_json, render_text
from tests.every_column import EVERY_COLUMN
from tests.unit.declaration.tables import column, created, declare, with_a_row


def test_a_plan_reads_like_a_pull_request() -> None:
    table = created(declare(column("town"), column("amount", "int"), column("gone")))
    wanted = declare(
        column("city", previous_names=("town",)),
        column("amount", "long"),
        column("new", "list<int>"),
        removed_columns=EVERY_COLUMN,
    )
    assert render_text(difference(wanted, table)) == (
        "~ rename column town to city\n"
        "~ widen column amount from int to long\n"
        "+ add column new: list<int>\n"
        "- drop column gone: string\n"
        "4 changes, in one commit.\n"
    )


def test_a_change_that_was_made_is_told_in_the_past_tense() -> None:
    table = created(declare(column("town"), column("amount", "int"), column("gone"), properties={"a": "b"}))
    wanted = declare(
        column("city", previous_names=("town",)),
        column("amount", "long", doc="in paise"),
        column("new"),
        removed_columns=EVERY_COLUMN,
        properties={"k": "v"},
        format_version=3,
    )
    found = difference(wanted, table, previously_declared_properties=frozenset({"a"}))
    assert [change.done for change in found.changes] == [
        "upgraded the format from version 2 to 3",
        "renamed column town to city",
        "widened column amount from int to long",
        "described column amount as 'in paise'",
        "added column new: string",
        "dropped column gone: string",
        "set property k to 'v'",
        "removed property a (it was 'b')",
    ]
    [creation] = difference(wanted, None).changes
    assert creation.done.startswith("created table ")


def test_a_refused_plan_says_that_nothing_is_changed() -> None:
    table = with_a_row(created(declare(column("a", "long"))))
    assert render_text(difference(declare(column("a", "int"), properties={"k": "v"}), table)) == (
        "~ set property k to 'v'\n"
        "! schema.columns[a].type: long cannot become int, which is narrower: values that are there might not fit\n"
        "    Keep the type, or add a new column of the new type and move the values.\n"
        "Nothing is changed: 1 obstacle.\n"
    )


def test_a_table_as_declared_says_so() -> None:
    declared = declare(column("a"))
    assert render_text(difference(declared, created(declared))) == "The table is as declared.\n"


def test_the_same_plan_as_json() -> None:
    table = created(declare(column("a", "int")))
    assert json.loads(render_json(difference(declare(column("a", "long")), table))) == {
        "changes": [
            {
                "change": "WidenColumn",
                "field": "schema.columns[a].type",
                "before": "int",
                "after": "long",
                "description": "widen column a from int to long",
            }
        ],
        "refusals": [],
        "applicable": True,
    }
    refused = json.loads(render_json(difference(declare(column("a")), table)))
    assert refused["applicable"] is False
    (refusal,) = refused["refusals"]
    assert refusal == {
        "refusal": "TypeChange",
        "field": "schema.columns[a].type",
        "declared": "string",
        "found": "int",
        "reason": "int cannot become string",
        "remedy": "Keep the type, or add a new column of the new type and move the values "
        "(only int to long, float to double and more decimal digits are possible)",
    }
