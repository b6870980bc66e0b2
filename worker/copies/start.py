"""Makes an attempt ready that starts from what is in the store. Called by the supervisor before the ranks start.

While files travel the lease is renewed. A request to stop ends the wait: the supervision that follows obeys it.
"""

import logging
import time
from collections.abc import Collection
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from sqlalchemy.exc import DBAPIError

from jobs.copies.store import StoreAway, store_of
from jobs.db.engine import Sessions, cause_in_words, engine_for, is_away, sessions_for
from jobs.lifecycle import leases
from jobs.lifecycle.leases import StaleLease
from jobs.lifecycle.store import add_event
from jobs.model.os_errors import in_words
from jobs.model.states import EndReason, EventKind
from jobs.runtime import script_user
from jobs.runtime.hints import Hints
from jobs.runtime.logs import configure_logging
from jobs.runtime.settings import Settings, settings
from jobs.runtime.space import is_full
from worker.attempt.launcher import SupervisorTask
from worker.attempt.members import Members
from worker.attempt.paths import paths_of
from worker.attempt.renewal import Renewal
from worker.copies.fetching import CannotFetch, Fetch, Fetched

_log = logging.getLogger(__name__)

_PERIOD_S = 0.2


def make_ready(task: SupervisorTask, leave_signals: Collection[int] = ()) -> bool:
    """Fetch what the attempt starts from. False: it has ended, because that cannot be had, or its lease was lost.

    `leave_signals` fills when this process is told to end.
    """
    config = settings()
    configure_logging("supervisor", job=task.job_id, attempt=task.number, host=config.host)
    sessions = sessions_for(engine_for(config.database_url, pool_size=2, patience_s=config.database_patience_s))
    return _Start(task, sessions, config, leave_signals).run()


class _Start:
    def __init__(
        self, task: SupervisorTask, sessions: Sessions, config: Settings, leave_signals: Collection[int]
    ) -> None:
        self._task = task
        self._sessions = sessions
        self._config = config
        self._leave_signals = leave_signals
        self._paths = paths_of(config.runs_dir, task.job_id, task.number)
        self._renewal = Renewal(sessions, task.lease, config, Path(task.lease_file), Members())
        self._is_asked_to_stop = False

    def run(self) -> bool:
        """Fetch. Returns whether the attempt goes on."""
        pool = ThreadPoolExecutor(1, "fetch")
        try:
            fetched = self._wait_for(pool.submit(self._fetch))
            if fetched is not None:
                self._renewal.retry_while_away(lambda: self._store_event(fetched))
            return True
        except StaleLease:
            _log.warning("the lease was lost while files were fetched")
        except (CannotFetch, StoreAway) as error:
            if self._is_asked_to_stop:
                return True
            self._end(EndReason.NO_STORE, f"what it starts from is in the store, and that is away: {error}")
        except OSError as error:
            reason = EndReason.NO_SPACE if is_full(error) else EndReason.LAUNCH_FAILED
            self._end(reason, f"what it starts from cannot be fetched from the store: {in_words(error)}")
        except Exception as error:
            _log.exception("fetching failed")
            self._end(EndReason.INTERNAL_ERROR, f"fetching from the store failed: {cause_in_words(error)}")
        finally:
            self._is_asked_to_stop = True  # so that the other thread ends
            pool.shutdown(wait=False)
        return False

    def _fetch(self) -> Fetched | None:
        store = store_of(self._config)
        assert store is not None
        fetch = Fetch(self._sessions, store, self._paths, self._config, still_needed=lambda: not self._is_asked_to_stop)
        if self._task.weights_of is not None:
            job_id, path = self._task.weights_of
            fetch.weights(job_id, Path(path))
        fetched = fetch.run()
        script_user.open_to_read([str(self._paths.checkpoints)], self._config.script_user)
        return fetched

    def _wait_for(self, fetching: "Future[Fetched | None]") -> Fetched | None:
        """Wait for the other thread. Raises what it raised, and `StaleLease`."""
        while not fetching.done():
            try:
                self._renewal.renew_if_due()
                self._is_asked_to_stop |= bool(self._leave_signals) or self._has_stop_request()
            except DBAPIError as error:
                if not is_away(error):
                    raise
                _log.warning("the database is away: %s", error.orig)
            time.sleep(_PERIOD_S)
        return fetching.result()

    def _has_stop_request(self) -> bool:
        with self._sessions() as session:
            requests = leases.stop_requests(session, self._task.lease)
        return requests.cancel_requested or requests.pause_requested or requests.preemption is not None

    def _store_event(self, fetched: Fetched) -> None:
        with self._sessions.begin() as session:
            leases.fence(session, self._task.lease)
            add_event(
                session, self._task.job_id, EventKind.CHECKPOINT_FETCHED,
                attempt=self._task.number, data=fetched.to_event(),
            )  # fmt: skip

    def _end(self, reason: EndReason, error: str) -> None:
        """End the attempt, of which no process has started."""
        self._paths.tidy(self._config.script_user)
        with suppress(StaleLease):
            self._renewal.retry_while_away(lambda: self._store_end(reason, error))
        hints = Hints(self._config.broker_url)
        hints.dispatch()
        hints.close()

    def _store_end(self, reason: EndReason, error: str) -> None:
        with self._sessions.begin() as session:
            leases.end(
                session, self._task.lease, reason, error=error,
                backoff_s=self._config.restart_backoff_s, backoff_limit_s=self._config.restart_backoff_limit_s,
            )  # fmt: skip
            leases.release(session, self._task.attempt_id)
