"""The base of the worker's threads that do something again and again: the agent, the sampler, the validator and others.

`worker.app` starts and stops them. A subclass says what one pass does (`once`) and how long the thread rests after it
(`pause_s`).
"""

import logging
import threading
from collections.abc import Callable

from sqlalchemy.exc import DBAPIError

from jobs.db.engine import is_away

_log = logging.getLogger(__name__)


class PeriodicThread(threading.Thread):
    """Runs `once`, rests, and repeats until it is stopped. An error ends the pass and not the thread.

    `stopped` is set when the thread is to end: a long pass looks at it. `wait` waits for an event, for so many seconds
    at most.
    """

    def __init__(
        self,
        name: str,
        *,
        period_s: float,
        rests_first: bool = True,
        wait: Callable[[threading.Event, float], object] = threading.Event.wait,
    ) -> None:
        super().__init__(name=name, daemon=True)
        self.stopped = threading.Event()
        self._period_s = period_s
        self._rests_first = rests_first
        self._woken = threading.Event()
        self._wait = wait

    def once(self) -> None:
        """One pass."""
        raise NotImplementedError

    def pause_s(self) -> float:
        """How long to rest now. Asked after every pass, and before the first one of a thread that rests first."""
        return self._period_s

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
            self._wait_for_next_pass()

    def wake(self) -> None:
        """Make the next pass now, or right after the present one."""
        self._woken.set()

    def stop(self, *, wait_s: float = 0.0) -> bool:
        """End after the present pass. Waits up to `wait_s` for that. Returns whether the thread has ended."""
        self.stopped.set()
        self.wake()
        if wait_s:
            self.join(wait_s)
        return not self.is_alive()

    def _wait_for_next_pass(self) -> None:
        self._wait(self._woken, self.pause_s())
        self._woken.clear()
