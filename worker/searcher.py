"""The searcher: a thread of every worker that begins trials of searches, and ends some early. One worker at a time."""

from collections.abc import Sequence

from jobs.db.engine import Sessions
from jobs.insight.studies.searching import Memory, search_once, some_are_searched
from jobs.runtime.hints import Hints
from jobs.runtime.settings import Settings
from jobs.scheduling.hosts import LOOKS_A_PERIOD
from worker.periodic import PeriodicThread, Watched


class Searcher(PeriodicThread):
    """Looks at all searches once a period."""

    def __init__(self, sessions: Sessions, settings: Settings) -> None:
        super().__init__("searcher", period_s=settings.search_period_s)
        self._sessions = sessions
        self._settings = settings
        self._hints = Hints(settings.broker_url)
        self._memory = Memory()

    def watched(self) -> Sequence[Watched]:
        """Studies that are searched."""
        return [Watched(some_are_searched(), self.found, LOOKS_A_PERIOD)]

    def once(self) -> None:
        """One pass. New trials are placed at once."""
        if search_once(self._sessions, self._memory, most_queued=self._settings.max_queued_jobs):
            self._hints.dispatch()
