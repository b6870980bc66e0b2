"""Measures the folders of this host, in a thread of its own: a network file system may not answer for minutes.

Started by the worker. The agent stores the latest figures with the host's heartbeat, and the validator looks at them
before it unpacks a dataset.
"""

import logging
from collections.abc import Callable, Sequence

from jobs.runtime.settings import Settings
from jobs.runtime.space import FolderSpace, measure, problem_of
from worker.periodic import PeriodicThread

_log = logging.getLogger(__name__)
_PERIOD_S = 2.0  # a full disk should get no more jobs, and a freed one gets them soon


class SpaceWatch(PeriodicThread):
    """Keeps the latest measurement; None before the first one. Calls `on_change` when the host's problem changes."""

    def __init__(self, settings: Settings) -> None:
        super().__init__("space-watch", period_s=min(_PERIOD_S, settings.heartbeat_period_s), rests_first=False)
        self._settings = settings
        self.on_change: Callable[[], None] = lambda: None
        self.latest: Sequence[FolderSpace] | None = None

    def once(self) -> None:
        """Measure all folders."""
        before = self.latest or ()
        problem_before = problem_of(before)
        self.latest = measure(self._settings, before=before)
        problem = problem_of(self.latest)
        if (problem is None) == (problem_before is None):
            return
        if problem is not None:
            _log.warning("no space: this host takes no jobs: %s", problem, extra={"host": self._settings.host})
        else:
            _log.info("there is space again: this host takes jobs", extra={"host": self._settings.host})
        self.on_change()
