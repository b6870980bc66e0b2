"""Ending the processes of an attempt, in order: stop file, SIGTERM, SIGKILL; each with its own time limit.

Used by the supervision of an attempt. The order is the same on all its hosts: what is reached is a `Reach`.
"""

import os
import signal
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from worker.attempt.processes import of_attempt, reap_orphans, send

_PERIOD_S = 0.05  # between two looks


class Reach(Protocol):
    """Some of the processes of an attempt, and how to ask them to go."""

    def ask_to_stop(self) -> None: ...
    def signal(self, number: int) -> None: ...
    def are_gone(self) -> bool: ...


@dataclass(frozen=True)
class Here:
    """The processes on this host: those that carry the mark, and all below this process but for those in `spared`.

    `child` is one that somebody else in this process waits for, as for those in `spared`.
    """

    mark: str
    stop_file: Path
    child: int
    spared: Callable[[], Collection[int]] = tuple

    def ask_to_stop(self) -> None:
        """Put the stop file before the ranks."""
        self.stop_file.touch()

    def signal(self, number: int) -> None:
        """Send every process a signal."""
        send(self.pids(), number)

    def are_gone(self) -> bool:
        """Whether none is left."""
        self.reap()
        return not self.pids()

    def reap(self) -> None:
        """Collect the dead that this process adopted."""
        reap_orphans({self.child, *self.spared()})

    def pids(self) -> list[int]:
        """The living processes."""
        return of_attempt(self.mark, below=os.getpid(), spared=self.spared())


@dataclass(frozen=True)
class Graces:
    """How long processes get before the next, harder means."""

    stop_file_s: float | None  # None: they are not asked by a file
    hurried_s: float  # the same, from the moment on that nobody wants what they save any more
    sigterm_s: float
    sigkill_s: float


def stop(reaches: Sequence[Reach], graces: Graces, *, meanwhile: Callable[[], bool]) -> bool:
    """End every process of the attempt; False where one could not be ended.

    `meanwhile` runs between two looks, and says whether there is a hurry: then there is no time to save.
    """

    def gone_within(limit_s: float, *, hurried_s: float | None = None, each: Callable[[], None] = lambda: None) -> bool:
        give_up_at = time.monotonic() + limit_s
        while not all(reach.are_gone() for reach in reaches):
            if time.monotonic() > give_up_at:
                return False
            each()
            if meanwhile() and hurried_s is not None:
                give_up_at, hurried_s = min(give_up_at, time.monotonic() + hurried_s), None
            time.sleep(_PERIOD_S)
        # What was handed to another parent at that moment may have been missed.
        return all(reach.are_gone() for reach in reaches)

    if graces.stop_file_s is not None:
        for reach in reaches:
            reach.ask_to_stop()
        if gone_within(graces.stop_file_s, hurried_s=graces.hurried_s):
            return True
    _send(reaches, signal.SIGTERM)
    if gone_within(graces.sigterm_s):
        return True
    return gone_within(graces.sigkill_s, each=lambda: _send(reaches, signal.SIGKILL))


def _send(reaches: Sequence[Reach], number: int) -> None:
    for reach in reaches:
        reach.signal(number)
