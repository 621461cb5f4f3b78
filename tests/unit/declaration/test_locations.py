"""Locations are compared as storage sees them."""

import pytest

from tableformat.declaration.locations import overlap, same_location


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("/a/b", "file:/a/b"),
        ("file:///a/b", "file:/a/b/"),
        ("file:///a//b", "/a/./b"),
        ("s3://bucket/x", "s3a://bucket/x/"),
        ("s3n://bucket/x", "S3://bucket/x"),
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
