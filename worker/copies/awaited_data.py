"""Waits until all hosts of an attempt have its data. Called in the supervisor, before the ranks start.

The worker of each host fetches what it lacks: `worker.datasets.fetcher`.
"""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy.exc import DBAPIError

from jobs.data import host_datasets
from jobs.data.host_datasets import Arrival
from jobs.db.engine import Sessions, is_away
from jobs.lifecycle.store import get_job
from jobs.model.states import EndReason
from worker.attempt.ending import Ending
from worker.attempt.supervisor_task import SupervisorTask
from worker.copies.fetching import PATIENCE_S, CannotFetch

_log = logging.getLogger(__name__)

_PERIOD_S = 0.5


class NotStarted(Exception):
    """The attempt ends before its ranks start."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(ending.error)
        self.ending = ending


@dataclass(frozen=True)
class _Data:
    """A dataset, and the hosts of an attempt that still fetch it."""

    name: str
    missing: Sequence[Arrival]

    def require_progress(self) -> None:
        """Raises `NotStarted` if a host has given up, is lost, or does not get on."""
        for arrival in self.missing:
            if not arrival.is_alive:
                raise NotStarted(Ending(EndReason.HOST_LOST, f"host {arrival.host} stopped sending heartbeats"))
            why = arrival.error or "its worker has no HORA_STORE"
            if arrival.failed_for is not None:
                why = f"host {arrival.host} cannot have {self.name}: {why}"
                raise NotStarted(Ending(arrival.failed_for, why))
            if arrival.silent_s > PATIENCE_S:
                why = f"host {arrival.host} did not get on with {self.name} for {PATIENCE_S:.0f} s: {why}"
                raise NotStarted(Ending(EndReason.NO_STORE, why))


def wait_for_data(
    sessions: Sessions,
    task: SupervisorTask,
    *,
    host_timeout_s: float,
    still_needed: Callable[[], bool],
    waits: Callable[[dict[str, Any]], None],
) -> None:
    """Wait. `waits` gets what is waited for. Raises `NotStarted`, and `CannotFetch` if it is not needed any more."""
    while still_needed():
        try:
            data = _data_of(sessions, task, host_timeout_s)
            if not data.missing:
                return
            data.require_progress()
            waits({"dataset": data.name, "hosts": [arrival.host for arrival in data.missing]})
        except DBAPIError as error:  # the lease says for how long
            if not is_away(error):
                raise
            _log.warning("the database is away: %s", error.orig)
        time.sleep(_PERIOD_S)
    raise CannotFetch("it is not needed any more")


def _data_of(sessions: Sessions, task: SupervisorTask, host_timeout_s: float) -> _Data:
    with sessions() as session:
        ref = get_job(session, task.job_id).dataset_ref
        assert ref is not None, "only an attempt with registered data waits for it"
        arrivals = host_datasets.arrivals(session, ref, task.attempt_id, host_timeout_s=host_timeout_s)
    return _Data(f"{ref['name']}@{ref['version']}", [arrival for arrival in arrivals if not arrival.is_here])
