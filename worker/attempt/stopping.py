"""Ends the processes of an attempt: first a stop file, then SIGTERM, then SIGKILL, each with its own time limit.

Used by the supervision of an attempt. The steps are the same on all its hosts. `AttemptProcesses` says what to stop.
"""

import logging
import os
import signal
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from jobs.runtime.processes import reap_orphans
from worker.attempt import stop_file
from worker.attempt.processes import pids_of_attempt, send_signal

_log = logging.getLogger(__name__)
_PERIOD_S = 0.05  # between two looks


class AttemptProcesses(Protocol):
    """Some of the processes of an attempt, and how to stop them."""

    def ask_to_stop(self, *, finish: bool) -> None: ...
    def signal(self, number: int) -> None: ...
    def are_gone(self) -> bool: ...


@dataclass(frozen=True)
class LocalProcesses:
    """The processes on this host: those that carry the mark, and all below this process except those in `spared`.

    This class does not wait for `child` and those in `spared`: other code does.
    """

    mark: str
    stop_file: Path
    child: int
    spared: Callable[[], Collection[int]] = tuple

    def ask_to_stop(self, *, finish: bool = False) -> None:
        """Make the stop file of the ranks. If that fails, signals follow."""
        try:
            stop_file.make(self.stop_file, finish=finish)
        except OSError as error:
            _log.warning("the stop file cannot be made: %s", error)

    def signal(self, number: int) -> None:
        """Send every process a signal."""
        send_signal(self.pids(), number)

    def are_gone(self) -> bool:
        """Whether none is left."""
        self.reap()
        return not self.pids()

    def reap(self) -> None:
        """Reap the dead processes that this process adopted."""
        reap_orphans({self.child, *self.spared()})

    def pids(self) -> list[int]:
        """The living processes."""
        return pids_of_attempt(self.mark, below=[os.getpid()], spared=self.spared())


@dataclass(frozen=True)
class Graces:
    """How long processes get before the next, harder means."""

    stop_file_s: float | None  # None: there is no stop file
    hurried_s: float  # the same, when what they save is not needed any more
    sigterm_s: float
    sigkill_s: float
    finish: bool = False  # whether the ranks should leave artifacts and a summary


def stop(targets: Sequence[AttemptProcesses], graces: Graces, *, meanwhile: Callable[[], bool]) -> bool:
    """End every process of the attempt. Returns False if one could not be ended.

    `meanwhile` runs between two looks and returns whether to hurry: then there is no time to save.
    """

    def gone_within(
        limit_s: float, *, hurried_s: float | None = None, after_each_look: Callable[[], None] = lambda: None
    ) -> bool:
        give_up_at = time.monotonic() + limit_s
        while not all(target.are_gone() for target in targets):
            if time.monotonic() > give_up_at:
                return False
            after_each_look()
            if meanwhile() and hurried_s is not None:
                give_up_at, hurried_s = min(give_up_at, time.monotonic() + hurried_s), None
            time.sleep(_PERIOD_S)
        # A process that got another parent at that moment may have been missed.
        return all(target.are_gone() for target in targets)

    if graces.stop_file_s is not None:
        for target in targets:
            target.ask_to_stop(finish=graces.finish)
        if gone_within(graces.stop_file_s, hurried_s=graces.hurried_s):
            return True
    _send(targets, signal.SIGTERM)
    if gone_within(graces.sigterm_s):
        return True
    return gone_within(graces.sigkill_s, after_each_look=lambda: _send(targets, signal.SIGKILL))


def _send(targets: Sequence[AttemptProcesses], number: int) -> None:
    for target in targets:
        target.signal(number)
