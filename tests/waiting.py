"""Waiting for a condition, with a limit: what tests do instead of sleeping and hoping."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until(condition: Callable[[], T], *, within_s: float = 10.0, what: str = "the condition") -> T:
    """Ask `condition` until its answer is true and return that; raises `AssertionError` after `within_s`."""
    deadline = time.monotonic() + within_s
    while True:
        if answer := condition():
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come true within {within_s:g} s; the last answer was {answer!r}")
        time.sleep(0.02)
