"""Locations are compared as storage sees them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tableformat.declaration.locations import PlaceIndex
from tableformat.locations import overlap, same_location


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("/a/b", "file:/a/b"),
        ("file:///a/b", "file:/a/b/"),
        ("file:///a//b", "/a/./b"),
        ("s3://bucket/x", "s3a://bucket/x/"),
        ("s3n://bucket/x", "S3://bucket/x"),
        ("file://localhost/a/b", "file:///a/b"),
        ("/a/c/../b", "/a/b"),
        ("file:/a/b/c/..", "/a/b"),
    ],
)
def test_one_place_has_many_spellings(one: str, other: str) -> None:
    assert same_location(one, other)
    assert overlap(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("s3://bucket/x", "s3://bucket/xy"),
        ("s3://bucket/x", "s3://other/x"),
        ("s3://bucket/x", "gs://bucket/x"),
        ("s3://bucket/x#1", "s3://bucket/x#2"),
        ("s3://bucket/a?b", "s3://bucket/a?c"),
        ("/bucket/x", "s3://bucket/x"),
        ("/A", "/a"),
    ],
)
def test_neighbours_are_not_the_same_place(one: str, other: str) -> None:
    assert not same_location(one, other)
    assert not overlap(one, other)


def test_a_place_inside_another_overlaps_it() -> None:
    assert overlap("s3://bucket/db", "s3a://bucket/db/t")
    assert overlap("file:/warehouse/db/t/data", "/warehouse/db/t")
    assert not same_location("s3://bucket/db", "s3a://bucket/db/t")


def test_a_symbolic_link_leads_to_the_place_that_it_names(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert same_location(f"file://{tmp_path}/link", f"{tmp_path}/real")
    assert overlap(f"{tmp_path}/link/t", f"file:{tmp_path}/real/t/inner")
    assert not overlap(f"{tmp_path}/link/t", f"{tmp_path}/real/other")


PLACES = st.lists(st.sampled_from(["a", "b", "ab"]), min_size=1, max_size=4).map(
    lambda parts: "s3://" + "/".join(parts)
)
STEPS = st.lists(st.tuples(st.integers(0, 4), st.lists(PLACES, max_size=2)), max_size=12)


@given(steps=STEPS, place=PLACES, but=st.sets(st.integers(0, 4), max_size=2))
def test_an_index_finds_what_comparing_with_every_place_finds(
    steps: list[tuple[int, list[str]]], place: str, but: set[int]
) -> None:
    """Whatever owners came, moved and went before."""
    index: PlaceIndex[int] = PlaceIndex()
    owned: dict[int, list[str]] = {}
    for owner, places in steps:
        if places:
            index.put(owner, ("db", str(owner)), places)
            owned[owner] = places
        else:
            index.remove(owner)
            owned.pop(owner, None)
    others = {
        (str(owner), each)
        for owner, places in owned.items()
        for each in places
        if owner not in but and overlap(each, place)
    }
    found = index.overlapping(place, but=but)
    assert (found is None) == (not others)
    if found is not None:
        assert (found.identifier[1], found.location) in others
