"""Makes an attempt ready that needs what is in the store. Called by the supervisor before the ranks start.

Its checkpoint comes here. Its data comes to all its hosts: the worker of each host fetches it, which is waited for.

While files travel the lease is renewed. A request to stop ends the attempt there: no rank starts without what it would
start from, because then all that was trained before would be void.
"""

import logging
import os
import threading
import time
from collections.abc import Collection
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlalchemy.exc import DBAPIError

from jobs.copies.store import StoreAway, store_of
from jobs.db.engine import Sessions, cause_in_words, engine_for, is_away, sessions_for
from jobs.lifecycle import leases
from jobs.lifecycle.leases import StaleLease
from jobs.lifecycle.store import add_event
from jobs.model.origins import origin_of
from jobs.model.os_errors import in_words
from jobs.model.problems import InvalidSpec
from jobs.model.states import EndReason, EventKind
from jobs.runtime import script_user
from jobs.runtime.hints import Hints
from jobs.runtime.logs import configure_logging
from jobs.runtime.settings import Settings, settings
from jobs.runtime.space import is_full
from jobs.scheduling import registration
from worker.attempt.ending import Ending, requested_ending
from worker.attempt.members import Members
from worker.attempt.paths import paths_of
from worker.attempt.renewal import Renewal
from worker.attempt.script_launch import CannotRunScript
from worker.attempt.supervisor_task import GpusInUse, SupervisorTask, whole_task, why_not_started
from worker.copies import continuing
from worker.copies.awaited_data import NotStarted, wait_for_data
from worker.copies.fetching import PATIENCE_S, CannotFetch, Fetch, Fetched

_log = logging.getLogger(__name__)

_PERIOD_S = 0.2
_STOP_S = 5.0  # for the other thread to end when it is not needed any more


def make_ready(task: SupervisorTask, leave_signals: Collection[int] = ()) -> SupervisorTask:
    """Fetch what the attempt starts from. Returns the whole task.

    Does not return if something cannot be had, or the lease was lost.

    `leave_signals` fills when this process is told to end.
    """
    config = settings()
    configure_logging("supervisor", job=task.job_id, attempt=task.number, host=config.host)
    sessions = sessions_for(engine_for(config.database_url, pool_size=2, patience_s=config.database_patience_s))
    start = Start(task, sessions, config, leave_signals)
    if not start.run():
        logging.shutdown()
        os._exit(1)  # a store that hangs would keep its threads, and with them this process
    return start.task


class Start:
    """One attempt, from its claim to the start of its ranks."""

    def __init__(
        self, task: SupervisorTask, sessions: Sessions, config: Settings, leave_signals: Collection[int]
    ) -> None:
        self.task = task
        self._sessions = sessions
        self._config = config
        self._leave_signals = leave_signals
        self._paths = paths_of(config.runs_dir, task.job_id, task.number)
        self._renewal = Renewal(sessions, task.lease, config, Path(task.lease_file), Members())
        self._stopped_for: Ending | None = None
        self._stopped_at = 0.0
        self._waits_for: dict[str, Any] | None = None  # what the other thread waits for
        self._has_said = False
        self._asked_at = time.monotonic()  # when the other thread last asked whether to go on

    def run(self) -> bool:
        """Fetch. Returns whether the attempt goes on."""
        try:
            fetched = self._wait_for(self._begin())
            if fetched is not None:
                event = fetched.to_event()
                self._renewal.retry_while_away(lambda: self._store_event(EventKind.CHECKPOINT_FETCHED, event))
            return True
        except StaleLease:
            _log.warning("the lease was lost while files were fetched")
        except NotStarted as error:
            self._end(self._stopped_for or error.ending)
        except (CannotFetch, StoreAway) as error:
            away = Ending(EndReason.NO_STORE, f"what it starts from is in the store, and that is away: {error}")
            self._end(self._stopped_for or away)
        except OSError as error:
            reason = EndReason.NO_SPACE if is_full(error) else EndReason.LAUNCH_FAILED
            why = f"what it starts from cannot be fetched: {in_words(error)}"
            self._end(self._stopped_for or Ending(reason, why))
        except Exception as error:
            _log.exception("fetching failed")
            self._end(Ending(EndReason.INTERNAL_ERROR, f"fetching from the store failed: {cause_in_words(error)}"))
        return False

    def _begin(self) -> "Future[Fetched | None]":
        """Fetch in a thread of its own, which is not waited for at the end: a store may hang."""
        future: Future[Fetched | None] = Future()

        def fetch() -> None:
            try:
                future.set_result(self._fetch())
            except BaseException as error:
                future.set_exception(error)

        threading.Thread(target=fetch, name="fetch", daemon=True).start()
        return future

    def _fetch(self) -> Fetched | None:
        if self.task.waits_for_data:
            wait_for_data(
                self._sessions, self.task,
                host_timeout_s=self._config.host_timeout_s, still_needed=self._is_needed, waits=self._waits,
            )  # fmt: skip
            self.task = self._whole_task()
        if not self.task.fetches:
            return None
        fetch, fetched = self._fetch_of_store(), None
        if fetch is not None:
            if self.task.weights_of is not None:
                job_id, path = self.task.weights_of
                fetch.weights(job_id, Path(path))
            fetched = fetch.run()
        if (origin := origin_of(self.task.origin)) is not None:
            brought = continuing.bring(
                self._sessions, self._config, self._paths, origin,
                is_script=self.task.is_script, fetch=fetch, still_needed=self._is_needed,
            )  # fmt: skip
            fetched = fetched or brought
        if self.task.is_script:
            script_user.open_to_read([str(self._paths.checkpoints)], self._config.script_user)
        return fetched

    def _fetch_of_store(self) -> Fetch | None:
        store = store_of(self._config)
        if store is None:
            return None
        return Fetch(
            self._sessions, store, self._paths, self._config, still_needed=self._is_needed,
            waits=lambda why: self._waits({"dataset": None, "hosts": [self._config.host], "why": why}),
        )  # fmt: skip

    def _whole_task(self) -> SupervisorTask:
        try:
            return whole_task(self._sessions, self._config, self.task.lease)
        except (OSError, InvalidSpec, CannotRunScript) as error:
            if isinstance(error, GpusInUse):  # so that its job does not get the same ones again
                with self._sessions.begin() as session:
                    registration.mark_in_use(session, self._config.host, error.uuids)
            raise NotStarted(Ending(*why_not_started(error))) from None

    def _waits(self, what: dict[str, Any]) -> None:
        self._waits_for = what

    def _is_needed(self) -> bool:
        self._asked_at = time.monotonic()
        return self._stopped_for is None

    def _wait_for(self, fetching: "Future[Fetched | None]") -> Fetched | None:
        """Wait for the other thread. Raises what it raised, `CannotFetch` if it hangs, and `StaleLease`."""
        while not fetching.done():
            now = time.monotonic()
            if self._stopped_for is not None and now - self._stopped_at > _STOP_S:
                raise CannotFetch("it was not needed any more")
            if now - self._asked_at > PATIENCE_S:
                raise CannotFetch("it does not answer")
            try:
                self._renewal.renew_if_due()
                if self._waits_for is not None and not self._has_said:
                    self._store_event(EventKind.WAITS_FOR_FILES, self._waits_for)
                    self._has_said = True
                if self._stopped_for is None and (ending := self._requested_ending()) is not None:
                    self._stopped_for, self._stopped_at = ending, now
            except DBAPIError as error:
                if not is_away(error):
                    raise
                _log.warning("the database is away: %s", error.orig)
            time.sleep(_PERIOD_S)
        return fetching.result()

    def _requested_ending(self) -> Ending | None:
        if self._leave_signals:
            return Ending(EndReason.HOST_LOST, f"host {self._config.host} is shutting down")
        with self._sessions() as session:
            return requested_ending(leases.stop_requests(session, self.task.lease))

    def _store_event(self, kind: EventKind, data: dict[str, Any]) -> None:
        with self._sessions.begin() as session:
            leases.fence(session, self.task.lease)
            add_event(session, self.task.job_id, kind, attempt=self.task.number, data=data)

    def _end(self, ending: Ending) -> None:
        """End the attempt, of which no process has started."""
        _log.info("attempt ended before its ranks started: %s %s", ending.reason, ending.error or "")
        self._paths.tidy(self._config.script_user)
        with suppress(StaleLease):
            self._renewal.retry_while_away(lambda: self._store_end(ending))
        hints = Hints(self._config.broker_url)
        hints.dispatch()
        hints.close()

    def _store_end(self, ending: Ending) -> None:
        with self._sessions.begin() as session:
            leases.end(
                session, self.task.lease, ending.reason, error=ending.error,
                backoff_s=self._config.restart_backoff_s, backoff_limit_s=self._config.restart_backoff_limit_s,
            )  # fmt: skip
            leases.release(session, self.task.attempt_id)
