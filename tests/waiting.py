"""Wait for a condition, with a time limit. Tests use this instead of a sleep of a fixed time."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_SHORTEST_PAUSE_S, _LONGEST_PAUSE_S = 0.02, 0.25
_WORK_S = 0.1  # long enough that other processes get the core several times


def until(condition: Callable[[], T], *, within_s: float = 240.0, what: str = "the condition") -> T:
    """Call `condition` until its answer is true, and return that. Raises `AssertionError` after `within_s`.

    Only a condition that never comes true reaches the limit. A long one costs nothing, and a busy machine needs it.
    The longer it waits, the longer are its pauses: many conditions ask the service, which other tests need too.
    """
    began = time.monotonic()
    while True:
        if answer := condition():
            return answer
        waited_s = time.monotonic() - began
        if waited_s > within_s:
            raise AssertionError(f"{what} did not come true within {within_s:g} s; the last answer was {answer!r}")
        time.sleep(min(max(_SHORTEST_PAUSE_S, waited_s / 10), _LONGEST_PAUSE_S))


def slowdown() -> float:
    """How many times longer work takes now than on a free core: 1 on a quiet machine, 2 if two processes share a core.

    For limits that must be short: a test waits until such a limit is over, or asserts that work takes less time.
    """
    began, used = time.monotonic(), time.thread_time()
    while (worked_s := time.thread_time() - used) < _WORK_S:
        pass
    return max(1.0, (time.monotonic() - began) / worked_s)
