"""The forecaster: a thread of every worker that stores when queued jobs are expected to start. One worker at a time."""

import random
import time

from sqlalchemy import func, select

from jobs.db.engine import Sessions
from jobs.runtime.settings import Settings
from jobs.scheduling.forecast_present import read_present
from jobs.scheduling.forecast_rows import settle_starts, store_starts
from worker.periodic import PeriodicThread

LOCK = 0x666F726563617374  # "forecast": the number of an advisory lock
_MOST_S = 5.0  # of a core, for one simulation
_REST = 20  # times as long as a simulation took: so it takes a twentieth of a core at most
_PASSES_A_PERIOD = 2  # by all workers together
_SHOWN_PERIODS = 6  # an older forecast is not shown


class Forecaster(PeriodicThread):
    """Simulates the queue forward once a period."""

    def __init__(self, sessions: Sessions, settings: Settings) -> None:
        super().__init__("forecaster", period_s=settings.forecast_period_s)
        self._sessions = sessions
        self._settings = settings
        self._took_s = 0.0
        self._hosts = 1

    def pause_s(self) -> float:
        """A period, or longer after a long simulation."""
        return max(super().pause_s(), _REST * self._took_s)

    def once(self) -> None:
        """One pass, unless another worker makes one. With many hosts each skips most of its turns."""
        if random.random() * self._hosts > _PASSES_A_PERIOD:  # noqa: S311 - nothing secret
            return
        with self._sessions() as guard:  # it holds the lock, and nothing else
            if guard.scalar(select(func.pg_try_advisory_xact_lock(LOCK))):
                self._forecast()

    def _forecast(self) -> None:
        with self._sessions.begin() as session:
            present = read_present(session, self._settings)
        self._hosts = len(present.hosts) or 1
        begun_s = time.thread_time()
        starts_s = present.expected_starts_s(
            lambda: self.stopped.is_set() or time.thread_time() > begun_s + _MOST_S,
        )
        self._took_s = time.thread_time() - begun_s
        shown_s = _SHOWN_PERIODS * max(self._settings.forecast_period_s, self.pause_s())
        with self._sessions.begin() as session:
            store_starts(session, starts_s, present.queued_at, now=present.now, shown_s=shown_s)
            settle_starts(session)
