"""The idle watch: a thread of every worker that looks for jobs whose slots nobody uses. One worker at a time looks."""

from jobs.db.engine import Sessions
from jobs.runtime.settings import Settings
from jobs.telemetry.idle_watch import watch_once
from worker.periodic import PeriodicThread


class IdleWatch(PeriodicThread):
    """Judges the newest samples once a period."""

    def __init__(self, sessions: Sessions, settings: Settings) -> None:
        super().__init__("idle-watch", period_s=settings.idle_period_s)
        self._sessions = sessions
        self._settings = settings

    def once(self) -> None:
        """One pass."""
        periods = {"period_s": self._settings.idle_period_s, "sample_period_s": self._settings.sample_period_s}
        watch_once(self._sessions, **periods)
