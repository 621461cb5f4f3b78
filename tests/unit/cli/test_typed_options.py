"""What is typed for an operation means what it looks like."""

from datetime import UTC, datetime

import pytest

from tableformat.maintenance.compaction import CompactionOptions
from tablewright.cli.exits import InputError
from tablewright.cli.running import options_of, order_option, time_option


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("ts", {"name": "ts"}),
        ("ts asc", {"name": "ts", "descending": False}),
        ("ts DESC", {"name": "ts", "descending": True}),
        (" ts  desc  Nulls Last ", {"name": "ts", "descending": True, "nulls_first": False}),
        ("ts nulls first", {"name": "ts", "nulls_first": True}),
        ("amount in rupees", {"name": "amount in rupees"}),
        ("amount in rupees desc", {"name": "amount in rupees", "descending": True}),
        ("place.city nulls last", {"name": "place.city", "nulls_first": False}),
        ("desc", {"name": "desc"}),
        ("ts desc asc", {"name": "ts desc", "descending": False}),
    ],
)
def test_a_column_to_order_by_may_have_its_direction_and_the_place_of_nulls_behind_it(
    text: str, column: dict[str, object]
) -> None:
    assert order_option("by", [text]) == [column]
    assert options_of(CompactionOptions, {}, {"strategy": "sort", "order": [column]}).order[0].name == column["name"]


def test_a_column_that_is_not_named_is_asked_for_by_the_options_own_name() -> None:
    with pytest.raises(InputError, match=r"^--by: ' ' names no column"):
        order_option("by", ["ts", " "])


def test_a_z_order_has_no_direction() -> None:
    order = order_option("by", ["ts desc", "city"])
    with pytest.raises(InputError, match="strategy zorder takes columns alone"):
        options_of(CompactionOptions, {}, {"strategy": "zorder", "order": order})


def test_a_date_without_a_time_is_midnight_in_utc() -> None:
    assert time_option("until", "2031-01-01") == datetime(2031, 1, 1, tzinfo=UTC)


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(InputError, match="--until: '2031-01-01T00:00' has no time zone"):
        time_option("until", "2031-01-01T00:00")
