"""Sizes and durations are written so that they can be read again, as what they were, wherever they came from."""

from hypothesis import example, given
from hypothesis import strategies as st

from tablewright.api.durations import format_duration, parse_duration
from tablewright.api.quantities import format_size, is_size, parse_size
from tablewright.decide.policy import effective_policy
from tests.unit.operator.values import managed_table

# Numbers of chance are hardly ever divisible by anything; what people write is.
numbers = st.integers(1, 10**6 - 1) | st.sampled_from([1000, 1024, 2000, 999_999, 125_000, 500_000])
sizes = st.builds("{}{}".format, numbers, st.sampled_from(["Ki", "Mi", "Gi", "Ti"])) | st.builds(
    lambda count, factor: str(count * factor), numbers, st.sampled_from([1, 1000, 1024, 10**6, 1 << 20, 10**9])
)


def multiples(most: int, unit: str) -> st.SearchStrategy[str]:
    """Durations in this unit, many of which are whole numbers of a larger one."""
    factors = st.sampled_from([1, 60, 3600, 86400])
    return factors.flatmap(lambda factor: st.integers(0, most // factor).map(lambda count: f"{count * factor}{unit}"))


durations = st.one_of(
    multiples(999_999_999, "s"), multiples(9_999_999, "m"), multiples(999_999, "h"), multiples(99_999, "d")
)


@given(sizes.filter(is_size))
def test_a_size_is_written_as_one_that_can_be_read(text: str) -> None:
    written = format_size(parse_size(text))
    assert is_size(written)
    assert parse_size(written) == parse_size(text)


@given(durations)
@example("999999960s")
def test_a_duration_is_written_as_one_that_can_be_read(text: str) -> None:
    assert parse_duration(format_duration(parse_duration(text))) == parse_duration(text)


@given(sizes.filter(is_size))
def test_whatever_size_a_level_gives_its_policy_can_be_worked_with(text: str) -> None:
    """One size that could be read and not written would end every pass over every table of its level."""
    policy = effective_policy(managed_table(jobs={"executors": {"bytesEach": text}}), [])
    assert policy.jobs.executors.bytes_each == parse_size(text)


def test_a_size_is_written_in_the_largest_unit_that_says_it_exactly() -> None:
    assert [format_size(size) for size in (1 << 30, 1025 << 20, 1 << 50, 10_001)] == [
        "1Gi",
        "1025Mi",
        "1024Ti",
        "10001",
    ]
    assert format_size(2_048_000_000) == "2048000000", "two million of a unit is more than a size may have"
