"""The base of the worker's threads that do something again and again: the agent, the sampler, the validator and others.

`worker.app` starts and stops them. A subclass says what one pass does (`once`) and how long the thread rests after it
(`pause_s`). If it also says which rows mean work (`watched`), it rests longer while `worker.lookout` finds none.
"""

import logging
import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement
from sqlalchemy.exc import DBAPIError

from jobs.db.engine import is_away

_log = logging.getLogger(__name__)

_REST_S = 60.0  # at most, for what no lookout sees


@dataclass(frozen=True, eq=False)
class Watched:
    """Rows that mean work. While some `exist`, the lookout calls `found` once a period, in its own thread.

    Work that any host may do is looked for `looks_a_period` times by all hosts together, else by each host.
    """

    exist: ColumnElement[bool]
    found: Callable[[], None]
    looks_a_period: float = math.inf


class PeriodicThread(threading.Thread):
    """Runs `once`, rests, and repeats until it is stopped. An error ends the pass and not the thread.

    `stopped` is set when the thread is to end: a long pass looks at it. `wait` waits for an event, for so many seconds
    at most. `now` is the time in seconds, from any moment on.
    """

    def __init__(
        self,
        name: str,
        *,
        period_s: float,
        rests_first: bool = True,
        wait: Callable[[threading.Event, float], object] = threading.Event.wait,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(name=name, daemon=True)
        self.stopped = threading.Event()
        self._period_s = period_s
        self._rests_first = rests_first
        self._woken = threading.Event()
        self._found = threading.Event()  # work, or the thread is woken
        self._waking = threading.Lock()  # of both: no call is lost between two passes
        self._watched_until = -math.inf
        self._has_rested = False  # until now: no work was found since the last pass
        self._wait = wait
        self._now = now

    def once(self) -> None:
        """One pass."""
        raise NotImplementedError

    def pause_s(self) -> float:
        """How long to rest now. Asked after every pass, and before the first one of a thread that rests first."""
        return self._period_s

    def watched(self) -> Sequence[Watched]:
        """The rows that mean work. Only while there are none the thread rests longer than `pause_s`."""
        return ()

    @property
    def is_watched(self) -> bool:
        """Whether a lookout looks for its work now."""
        return self._now() < self._watched_until

    def rest_s(self) -> float:
        """How much longer it rests then, at most. Asked after the pause."""
        return _REST_S - self.pause_s()

    def failed(self, error: Exception) -> None:
        """Log the error that ended a pass: in one line if the database did not answer, else with its traceback."""
        if isinstance(error, DBAPIError) and is_away(error):
            _log.warning("%s: the database is away or busy, the next pass tries again: %s", self.name, error.orig)
        else:
            _log.error("%s: a pass failed, the next one tries again", self.name, exc_info=error)

    def run(self) -> None:
        """Make passes until the thread is stopped."""
        if self._rests_first:
            self._wait_for_next_pass()
        while not self.stopped.is_set():
            try:
                self.once()
            except Exception as error:
                self.failed(error)
                self.found()  # what is to be tried again
            self._wait_for_next_pass()

    def wake(self) -> None:
        """Make the next pass now, or right after the present one."""
        with self._waking:
            self._woken.set()
            self._found.set()

    def found(self) -> None:
        """There is work: make the next pass now, or when the pause is over."""
        with self._waking:
            self._found.set()

    def watch(self, for_s: float) -> None:
        """The lookout has looked. It looks again within so many seconds, or is dead or blind."""
        self._watched_until = self._now() + for_s

    def stop(self, *, wait_s: float = 0.0) -> bool:
        """End after the present pass. Waits up to `wait_s` for that. Returns whether the thread has ended."""
        self.stopped.set()
        self.wake()
        if wait_s:
            self.join(wait_s)
        return not self.is_alive()

    def _wait_for_next_pass(self) -> None:
        self._wait(self._woken, self.pause_s())
        found_none = self._rest()
        with self._waking:
            self._has_rested = found_none and not self._found.is_set()
            self._woken.clear()
            self._found.clear()

    def _rest(self) -> bool:
        """Rest as long as the lookout finds no work. Returns whether it found none until the rest was over."""
        ends_at = self._now() + self.rest_s()
        while self.is_watched and not self._found.is_set():
            left_s = ends_at - self._now()
            if left_s <= 0:
                return True
            self._wait(self._found, min(left_s, self._watched_until - self._now()))
        return False
