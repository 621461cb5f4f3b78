"""Kubernetes names and labels for identifiers of any shape."""

import re

from hypothesis import example, given
from hypothesis import strategies as st

from tableformat.catalogs.naming import KIND_NAMESPACE, KIND_TABLE, labels_of, object_name

PART = st.text(min_size=1, max_size=80)
IDENTIFIER = st.lists(PART, min_size=1, max_size=4).map(tuple)
DNS_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")


@given(IDENTIFIER, PART)
@example(("x" * 500,), "y" * 500)
def test_every_name_and_label_is_legal(identifier: tuple[str, ...], catalog: str) -> None:
    name = object_name(catalog, KIND_TABLE, identifier)
    assert DNS_NAME.fullmatch(name)
    assert len(name) <= 253
    for value in labels_of(catalog, KIND_TABLE, identifier).values():
        assert LABEL_VALUE.fullmatch(value)
        assert len(value) <= 63


@given(IDENTIFIER, IDENTIFIER)
@example(("a", "b.c"), ("a.b", "c"))
@example(("a", "b"), ("a.b",))
@example(("A",), ("a",))
@example(("a-b",), ("a", "b"))
@example(("a_b",), ("a-b",))
def test_two_identifiers_never_share_a_name_or_a_label(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    same = one == other
    assert (object_name("lake", KIND_TABLE, one) == object_name("lake", KIND_TABLE, other)) is same
    assert (labels_of("lake", KIND_TABLE, one) == labels_of("lake", KIND_TABLE, other)) is same


def test_a_digest_written_as_a_plain_name_is_not_taken_for_one() -> None:
    digest = labels_of("lake", KIND_TABLE, ("a.b",))["tablewright.dev/namespace"]
    assert labels_of("lake", KIND_TABLE, (digest,))["tablewright.dev/namespace"] != digest


def test_catalogs_and_kinds_have_names_of_their_own() -> None:
    names = {
        object_name("lake", KIND_TABLE, ("a", "b")),
        object_name("pond", KIND_TABLE, ("a", "b")),
        object_name("lake", KIND_NAMESPACE, ("a", "b")),
    }
    assert len(names) == 3


def test_a_name_is_the_same_for_everybody() -> None:
    assert object_name("lake", KIND_TABLE, ("sales", "Payments_2026")) == (
        "iceberg-table-sales-payments-2026-scewarg7rftpwtgx7tbgl2b7dfottbua4ib4pnyzmpr2jtonlecq"
    )
