"""Waiting for a condition, with a limit: what tests do instead of sleeping and hoping."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_WORK_S = 0.1  # long enough to lose the core to others several times


def until(condition: Callable[[], T], *, within_s: float = 240.0, what: str = "the condition") -> T:
    """Ask `condition` until its answer is true and return that; raises `AssertionError` after `within_s`.

    The limit is for a condition that never comes: a long one costs nothing, and a busy machine needs it.
    """
    deadline = time.monotonic() + within_s
    while True:
        if answer := condition():
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come true within {within_s:g} s; the last answer was {answer!r}")
        time.sleep(0.02)


def slowdown() -> float:
    """How many times longer work takes now than with a core of its own: 1 on a quiet machine, 2 where two share a core.

    It is for limits that cannot be generous: those that a test waits out, and those that it asserts.
    """
    began, used = time.monotonic(), time.thread_time()
    while (worked_s := time.thread_time() - used) < _WORK_S:
        pass
    return max(1.0, (time.monotonic() - began) / worked_s)
