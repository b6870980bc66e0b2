"""The copier of a host: copies what its jobs left to the store, in the background. Run by `worker.copies.process`.

Once a second it looks which attempts of this host have something that the store lacks. It copies the newest checkpoint
first, then the best one, then artifacts. After that it leaves attempts that run alone for a while, so that they have
the cores (`worker.copies.rest`). A checkpoint is only copied when the rows know it: then the records before it
are stored, and a restart that continues from it leaves no hole in a curve. Older checkpoints that were not copied in
time are left out.

Nothing here is waited for: not by ranks, not by supervisors. All of it may be repeated after any interruption.
"""

import logging
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sqlalchemy.exc import DBAPIError

from jobs.copies.marks import require_mark
from jobs.copies.store import Store, StoreAway
from jobs.db.engine import Sessions, is_away
from jobs.lifecycle.store import JobNotFound
from jobs.model.os_errors import in_words
from jobs.runtime.settings import Settings
from worker.copies import rows
from worker.copies.attempt_copies import AttemptCopies
from worker.copies.copying import JobHere
from worker.copies.holding import Changed
from worker.copies.rest import Rest
from worker.copies.rows import AttemptToCopy

_log = logging.getLogger(__name__)

_JOBS_AT_ONCE = 4
_CHECK_S = 30.0  # between two looks whether the store is there
_ANSWER_S = 120.0  # a store that takes longer for its answer is away
_BEHIND_S = 60.0  # what waits for longer is said on the job
_SAY_S = 15.0  # between two changes of what is said
_FIRST_REST_S, _LONGEST_REST_S = 1.0, 60.0  # after a failure


@dataclass
class _Work:
    """The copying of one attempt."""

    copies: AttemptCopies
    tried_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    why: str | None = None  # the last failure; None: the last try went well
    failures: int = 0
    retry_at: float = 0.0
    said_at: float = 0.0
    running: "Future[None] | None" = None


class Copier:
    """Copies for one host. `once` is called again and again; `close` ends what is under way."""

    def __init__(self, sessions: Sessions, store: Store, settings: Settings, *, cores: int | None = None) -> None:
        """`cores`: how many the host has. None is all that this process may use."""
        self._sessions = sessions
        self._store = store
        self._settings = settings
        self._stopped = threading.Event()
        self._pool = ThreadPoolExecutor(_JOBS_AT_ONCE, "copier")
        self._checks = ThreadPoolExecutor(1, "store-check")
        self._rest = Rest(cores)
        self._works: dict[int, _Work] = {}
        self._check: Future[None] | None = None
        self._checked_at = float("-inf")
        self._problem: str | None = None  # why the store is away, as it is stored
        self._has_said = False

    def once(self) -> None:
        """Look at the store and at all attempts of this host, and begin what is to be done."""
        self._look_at_store()
        keep_days = self._settings.keep_files_days
        with self._sessions() as session:
            attempts = rows.attempts_to_copy(session, self._settings.host, keep_files_days=keep_days)
        for work in self._works.values():
            _take_result(work)
        ids = {attempt.id for attempt in attempts}
        self._works = {id_: work for id_, work in self._works.items() if id_ in ids or work.running is not None}
        is_rest = self._rest.is_on  # for all alike: otherwise the first one could take each turn
        for attempt in attempts:
            work = self._works.get(attempt.id) or self._new_work(attempt)
            self._works[attempt.id] = work
            rests = is_rest and attempt.ended_at is None
            if not rests and self._has_turn(attempt) and time.monotonic() >= work.retry_at:
                work.tried_at = datetime.now(UTC)
                work.running = self._pool.submit(work.copies.copy, attempt)
            self._say(attempt, work)

    def close(self) -> None:
        """End all transfers, and wait for that. What is half in the store is no copy, and is copied again later."""
        self._stopped.set()
        self._pool.shutdown(cancel_futures=True)
        self._checks.shutdown(cancel_futures=True)

    def _new_work(self, attempt: AttemptToCopy) -> _Work:
        job = JobHere(attempt.job_id, attempt.number, self._settings.host, self._settings.runs_dir)
        return _Work(AttemptCopies(self._sessions, self._store, job, self._still_needed, self._rest))

    def _has_turn(self, attempt: AttemptToCopy) -> bool:
        """Whether a thread is free for the attempt. One is kept for attempts that run.

        Of two attempts of a job only one is copied at a time.
        """
        busy_jobs = [work.copies.job.job_id for work in self._works.values() if work.running is not None]
        most = _JOBS_AT_ONCE if attempt.ended_at is None else _JOBS_AT_ONCE - 1
        return len(busy_jobs) < most and attempt.job_id not in busy_jobs

    def _still_needed(self) -> bool:
        return not self._stopped.is_set()

    def _look_at_store(self) -> None:
        """Store whether the store answers. It is asked in a thread of its own: it may not answer at all."""
        now = time.monotonic()
        if self._check is None:
            if now - self._checked_at >= _CHECK_S:
                self._checked_at = now
                self._check = self._checks.submit(require_mark, self._sessions, self._store)
            return
        if self._check.done():
            error = self._check.exception()
            self._check = None
            if error is None or isinstance(error, StoreAway):
                self._say_store(None if error is None else str(error))
            elif not (isinstance(error, DBAPIError) and is_away(error)):
                raise error
        elif now - self._checked_at > _ANSWER_S:
            self._say_store(f"it does not answer: it was asked {_ANSWER_S:.0f} s ago")

    def _say_store(self, problem: str | None) -> None:
        if problem != self._problem or not self._has_said:
            with self._sessions.begin() as session:
                rows.say_store(session, self._settings.host, problem)
            self._problem, self._has_said = problem, True
            for work in self._works.values() if problem is None else ():
                work.retry_at = 0.0  # it is back
            if problem is not None:
                _log.warning("the store is away: %s", problem)

    def _say(self, attempt: AttemptToCopy, work: _Work) -> None:
        """Say on the job what waits for too long, and when it does not wait any more."""
        behind, before = self._behind(attempt, work), attempt.copies_behind
        # What another host said holds until a later attempt has begun to train without it.
        may_say = before is None or before.get("host") == self._settings.host or attempt.is_training
        if behind != before and may_say and (behind is None or time.monotonic() - work.said_at >= _SAY_S):
            work.said_at = time.monotonic()
            with suppress(JobNotFound), self._sessions.begin() as session:
                rows.say_behind(session, attempt, behind)

    def _behind(self, attempt: AttemptToCopy, work: _Work) -> dict[str, Any] | None:
        waiting, waiting_bytes = list(work.copies.waiting), work.copies.waiting_bytes
        since = min((one.saved.saved_at for one in waiting), default=attempt.ended_at)
        if since is None or (not waiting_bytes and work.why is None):
            return None
        delayed_since = since if work.why is not None else max(since, work.tried_at)  # a rest before it is no delay
        if (datetime.now(UTC) - delayed_since).total_seconds() < _BEHIND_S:
            return None
        return {
            "since": since.isoformat(),
            "host": self._settings.host,
            "step": waiting[0].saved.step if waiting else None,
            "bytes": waiting_bytes,
            "why": work.why or self._problem,
        }


def _take_result(work: _Work) -> None:
    """Take the result of the last try, if it has ended."""
    if work.running is None or not work.running.done():
        return
    error, work.running = work.running.exception(), None
    if error is None:
        work.why, work.failures, work.retry_at = None, 0, 0.0
        return
    work.failures += 1
    work.retry_at = time.monotonic() + min(_FIRST_REST_S * 2.0 ** min(work.failures - 1, 32), _LONGEST_REST_S)
    job = work.copies.job
    tags = {"job": job.job_id, "attempt": job.attempt}
    if isinstance(error, Changed):
        work.retry_at = time.monotonic() + _FIRST_REST_S
    elif isinstance(error, JobNotFound):
        _log.info("the job was deleted while it was copied", extra=tags)
    elif isinstance(error, DBAPIError) and is_away(error):
        _log.warning("the database is away: %s", error.orig, extra=tags)
    elif isinstance(error, StoreAway | OSError):
        work.why = str(error) if isinstance(error, StoreAway) else in_words(error)
        _log.warning("nothing is copied to the store now: %s", work.why, extra=tags)
    else:
        work.why = "the copier failed; see the log of the worker"
        _log.error("copying failed, the next pass tries again", exc_info=error, extra=tags)
