"""How often and how long to wait between attempts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tableformat.backoff import Backoff, RetryPolicy, commit_policy, status_check_policy
from tableformat.catalogs.outcomes import CatalogUnavailableError, LostRace, wait_or_give_up


class FakeTime:
    def __init__(self) -> None:
        self.now = 0.0
        self.waits: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds

    def clock(self) -> float:
        return self.now


def backoff(policy: RetryPolicy, time: FakeTime, *, share: float = 1.0) -> Backoff:
    return Backoff(policy, sleep=time.sleep, clock=time.clock, jitter=lambda low, high: low + (high - low) * share)


def test_the_wait_doubles_up_to_its_limit() -> None:
    time = FakeTime()
    attempts = backoff(RetryPolicy(retries=5, min_wait_ms=100, max_wait_ms=400, total_ms=60_000), time)
    while attempts.wait():
        pass
    assert time.waits == [0.1, 0.2, 0.4, 0.4, 0.4]
    assert attempts.attempts == 6


def test_no_retry_begins_after_the_total_time() -> None:
    time = FakeTime()
    attempts = backoff(RetryPolicy(retries=100, min_wait_ms=1000, max_wait_ms=1000, total_ms=2500), time)
    while attempts.wait():
        pass
    assert time.waits == [1.0, 1.0, 1.0]


def test_jitter_halves_a_wait_at_most() -> None:
    time = FakeTime()
    attempts = backoff(RetryPolicy(retries=1, min_wait_ms=100, max_wait_ms=100, total_ms=1000), time, share=0.0)
    assert attempts.wait()
    assert time.waits == [0.05]


def test_giving_up_says_what_was_tried_and_how_often() -> None:
    attempts = backoff(RetryPolicy(retries=0, min_wait_ms=1, max_wait_ms=1, total_ms=1), FakeTime())
    with pytest.raises(CatalogUnavailableError, match="could not drop table a in 1 attempts"):
        wait_or_give_up(attempts, "drop table a", LostRace("busy"))


def test_a_tables_properties_say_how_often_a_commit_is_retried() -> None:
    policy = commit_policy(
        {
            "commit.retry.num-retries": "7",
            "commit.retry.min-wait-ms": "5",
            "commit.retry.max-wait-ms": "50",
            "commit.retry.total-timeout-ms": "500",
        }
    )
    assert policy == RetryPolicy(retries=7, min_wait_ms=5, max_wait_ms=50, total_ms=500)


def test_icebergs_defaults_hold_without_properties() -> None:
    assert commit_policy({}) == RetryPolicy(retries=4, min_wait_ms=100, max_wait_ms=60_000, total_ms=1_800_000)
    assert status_check_policy({}) == RetryPolicy(retries=3, min_wait_ms=1000, max_wait_ms=60_000, total_ms=1_800_000)


def test_what_is_no_number_counts_as_not_there() -> None:
    assert commit_policy({"commit.retry.min-wait-ms": "1s"}) == commit_policy({})


@given(st.integers(max_value=-1))
def test_a_negative_number_counts_as_zero(number: int) -> None:
    assert commit_policy({"commit.retry.num-retries": str(number)}).retries == 0
