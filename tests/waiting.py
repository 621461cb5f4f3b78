"""Waiting for what other processes bring about."""

import time
from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")


def eventually(read: Callable[[], Value], holds: Callable[[Value], bool], *, seconds: float = 90) -> Value:
    """Reads until the value is as wanted, and returns it; fails with the last value read."""
    deadline = time.monotonic() + seconds
    while True:
        value = read()
        if holds(value):
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:.0f} s; the last value was: {value}")
        time.sleep(0.05)
