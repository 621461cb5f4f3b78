"""The one way of waiting between attempts: exponential, with jitter, within a number of retries and a total time.

How often and how long comes from a table's own properties, by Iceberg's names: `commit.retry.*` for commits,
`commit.status-check.*` for looking up a commit whose outcome is unknown. What is no number there counts as not given.
"""

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyiceberg.table import TableProperties

from tableformat.properties import read_number


@dataclass(frozen=True)
class RetryPolicy:
    retries: int
    min_wait_ms: int
    max_wait_ms: int
    total_ms: int


_COMMIT = RetryPolicy(
    TableProperties.COMMIT_NUM_RETRIES_DEFAULT,
    TableProperties.COMMIT_MIN_RETRY_WAIT_MS_DEFAULT,
    TableProperties.COMMIT_MAX_RETRY_WAIT_MS_DEFAULT,
    TableProperties.COMMIT_TOTAL_RETRY_TIME_MS_DEFAULT,
)
_STATUS_CHECK = RetryPolicy(retries=3, min_wait_ms=1000, max_wait_ms=60_000, total_ms=1_800_000)

READS = RetryPolicy(retries=4, min_wait_ms=100, max_wait_ms=2000, total_ms=60_000)
"""A read may be repeated without a thought."""

SMALL_WRITES = RetryPolicy(retries=12, min_wait_ms=20, max_wait_ms=2000, total_ms=60_000)
"""For writes outside a table's commit (namespaces, renames), where no table's properties say how often."""


def commit_policy(properties: Mapping[str, str]) -> RetryPolicy:
    return _from_properties(properties, "commit.retry", _COMMIT)


def status_check_policy(properties: Mapping[str, str]) -> RetryPolicy:
    return _from_properties(properties, "commit.status-check", _STATUS_CHECK)


def _from_properties(properties: Mapping[str, str], prefix: str, default: RetryPolicy) -> RetryPolicy:
    def number(name: str, fallback: int) -> int:
        value = read_number(properties, f"{prefix}.{name}")
        return max(0, fallback if value is None else value)

    return RetryPolicy(
        retries=number("num-retries", default.retries),
        min_wait_ms=number("min-wait-ms", default.min_wait_ms),
        max_wait_ms=number("max-wait-ms", default.max_wait_ms),
        total_ms=number("total-timeout-ms", default.total_ms),
    )


class Backoff:
    """Counts the attempts of one piece of work."""

    def __init__(
        self,
        policy: RetryPolicy,
        *,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self._policy = policy
        self._sleep = sleep
        self._clock = clock
        self._jitter = jitter
        self._started = clock()
        self.attempts = 1

    def wait(self) -> bool:
        """Waits before the next attempt and says True, or says False at once when there may be none."""
        waited_ms = (self._clock() - self._started) * 1000
        if self.attempts > self._policy.retries or waited_ms >= self._policy.total_ms:
            return False
        # The exponent is bounded for the same reason as the wait: 2**10000 is slow to compute and of no use.
        longest = min(self._policy.min_wait_ms * 2 ** min(self.attempts - 1, 30), self._policy.max_wait_ms)
        self.attempts += 1
        self._sleep(self._jitter(longest / 2, longest) / 1000)
        return True
