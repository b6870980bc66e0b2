"""The copier of a host: copies what its jobs left to the store, in the background. Run by `worker.copies.process`.

Once a second it looks which attempts of this host have something that the store lacks. It copies the newest checkpoint
first, then the best one, then artifacts. A checkpoint is only copied when the rows know it: then the records before it
are stored, and a restart that continues from it leaves no hole in a curve. Older checkpoints that were not copied in
time are left out.

Nothing here is waited for: not by ranks, not by supervisors. All of it may be repeated after any interruption.
"""

import json
import logging
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy.exc import DBAPIError

from jobs.copies import manifests
from jobs.copies.manifests import Manifests
from jobs.copies.marks import require_mark
from jobs.copies.resuming import SavedCheckpoint
from jobs.copies.store import Store, StoreAway
from jobs.db.engine import Sessions, is_away
from jobs.model.os_errors import in_words
from jobs.runtime.checkpoint_folders import (
    SCRIPT_STATES,
    LocalCheckpoint,
    attempt_folder,
    complete_below,
    complete_in,
)
from jobs.runtime.files import bytes_below
from jobs.runtime.settings import Settings
from worker.copies import rows
from worker.copies.copying import ArtifactCopies, Changed, JobHere, copy_checkpoint
from worker.copies.rows import AttemptToCopy, Checkpoints

_log = logging.getLogger(__name__)

_JOBS_AT_ONCE = 4
_CHECK_S = 30.0  # between two looks whether the store is there
_ANSWER_S = 120.0  # a store that takes longer for its answer is away
_BEHIND_S = 60.0  # what waits for longer is said on the job
_SAY_S = 15.0  # between two changes of what is said
_FIRST_REST_S, _LONGEST_REST_S = 1.0, 60.0  # after a failure


@dataclass
class _Work:
    """What the copier knows of one attempt."""

    artifacts: ArtifactCopies
    settled_steps: set[int] = field(default_factory=set)  # of its checkpoints on disk: they are copied, or not needed
    copied: set[tuple[int, int]] | None = None  # attempt and step of the checkpoints of its job in the store
    waiting: list[tuple[SavedCheckpoint, int]] = field(default_factory=list)  # with their size
    why: str | None = None  # the last failure; None: the last try went well
    failures: int = 0
    retry_at: float = 0.0
    said_at: float = 0.0
    running: "Future[None] | None" = None


class Copier:
    """Copies for one host. `once` is called again and again; `close` ends what is under way."""

    def __init__(self, sessions: Sessions, store: Store, settings: Settings) -> None:
        self._sessions = sessions
        self._store = store
        self._settings = settings
        self._stopped = threading.Event()
        self._pool = ThreadPoolExecutor(_JOBS_AT_ONCE, "copier")
        self._checks = ThreadPoolExecutor(1, "store-check")
        self._works: dict[int, _Work] = {}
        self._check: Future[None] | None = None
        self._checked_at = float("-inf")
        self._problem: str | None = "unknown"  # as it is stored; not known yet

    def once(self) -> None:
        """Look at the store and at all attempts of this host, and begin what is to be done."""
        self._look_at_store()
        keep_days = self._settings.keep_files_days
        with self._sessions() as session:
            attempts = rows.attempts_to_copy(session, self._settings.host, keep_files_days=keep_days)
        ids = {attempt.id for attempt in attempts}
        self._works = {id_: work for id_, work in self._works.items() if id_ in ids or work.running is not None}
        for attempt in attempts:
            work = self._works.setdefault(attempt.id, self._new_work(attempt))
            self._finish(attempt, work)
            if work.running is None and time.monotonic() >= work.retry_at:
                work.running = self._pool.submit(self._copy, attempt, work)
            self._say(attempt, work)

    def close(self) -> None:
        """End all transfers, and wait for that. What is half in the store is no copy, and is copied again later."""
        self._stopped.set()
        self._pool.shutdown(cancel_futures=True)
        self._checks.shutdown(cancel_futures=True)

    def _new_work(self, attempt: AttemptToCopy) -> _Work:
        return _Work(ArtifactCopies(self._job_of(attempt)))

    def _job_of(self, attempt: AttemptToCopy) -> JobHere:
        return JobHere(attempt.job_id, attempt.number, self._settings.host, self._settings.runs_dir)

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
        if problem != self._problem:
            with self._sessions.begin() as session:
                rows.say_store(session, self._settings.host, problem)
            self._problem = problem
            if problem is not None:
                _log.warning("the store is away: %s", problem)

    def _finish(self, attempt: AttemptToCopy, work: _Work) -> None:
        """Take the result of the last try, if there is one."""
        if work.running is None or not work.running.done():
            return
        error, work.running = work.running.exception(), None
        if error is None:
            work.why, work.failures, work.retry_at = None, 0, 0.0
            return
        work.failures += 1
        work.retry_at = time.monotonic() + min(_FIRST_REST_S * 2.0 ** min(work.failures - 1, 32), _LONGEST_REST_S)
        if isinstance(error, Changed):
            return
        tags = {"job": attempt.job_id, "attempt": attempt.number}
        if isinstance(error, DBAPIError) and is_away(error):
            _log.warning("the database is away: %s", error.orig, extra=tags)
        elif isinstance(error, StoreAway | OSError):
            work.why = str(error) if isinstance(error, StoreAway) else in_words(error)
            _log.warning("nothing is copied to the store now: %s", work.why, extra=tags)
        else:
            work.why = "the copier failed; see the log of the worker"
            _log.error("copying failed, the next pass tries again", exc_info=error, extra=tags)

    def _copy(self, attempt: AttemptToCopy, work: _Work) -> None:
        """Copy what an attempt left, as far as it is there now."""
        has_all = True
        if not attempt.is_superseded:
            if attempt.keeps_checkpoints:
                has_all = self._copy_checkpoints(attempt, work)
            if attempt.keeps_artifacts:
                is_final = attempt.ended_at is not None
                work.artifacts.copy(self._store, is_final=is_final, still_needed=self._still_needed)
        if attempt.ended_at is not None and has_all:
            work.waiting = []
            if attempt.is_newest and attempt.keeps_artifacts:
                self._remove_earlier_artifacts(attempt)
            with self._sessions.begin() as session:
                rows.all_copied(session, attempt.id)

    def _copy_checkpoints(self, attempt: AttemptToCopy, work: _Work) -> bool:
        """Copy the newest checkpoint or the best one, if the store lacks it. True if there is nothing left to do."""
        root = self._job_of(attempt).job_dir / "checkpoints"
        on_disk = {
            found.step: found
            for found in complete_in(attempt.number, attempt_folder(root, attempt.number), of_script=attempt.is_script)
        }
        if on_disk.keys() <= work.settled_steps:
            return True
        with self._sessions() as session:
            known = rows.checkpoints_of(session, attempt.job_id)
        own = [one for one in known.saved if one.attempt == attempt.number and one.step in on_disk]
        if work.copied is None:
            require_mark(self._sessions, self._store)
            work.copied = set(Manifests(self._store, attempt.job_id).checkpoints())
        wanted = own[:1] + [one for one in own[1:] if one == known.best]
        lacking = [one for one in wanted if (one.attempt, one.step) not in work.copied]
        work.waiting = [(one, _size_of(on_disk[one.step])) for one in lacking]
        for one in lacking:
            self._copy_one(attempt, work, on_disk[one.step], one)
            work.waiting = work.waiting[1:]
        if lacking:
            self._prune(attempt, work)
        known_steps = {one.step for one in own}
        work.settled_steps = set(on_disk) if attempt.ended_at is not None else known_steps
        return not lacking  # a newer one may have come meanwhile

    def _copy_one(self, attempt: AttemptToCopy, work: _Work, found: LocalCheckpoint, saved: SavedCheckpoint) -> None:
        began, root = time.monotonic(), found.path.parent.parent
        manifest = copy_checkpoint(
            self._store, self._job_of(attempt), found.path, saved,
            script=_script_state(root, found.step) if attempt.is_script else None,
            is_whole=lambda: _is_whole(found, root, attempt),
            still_needed=self._still_needed,
        )  # fmt: skip
        with self._sessions() as session:
            known = rows.checkpoints_of(session, attempt.job_id)
        if saved not in known.saved:
            return  # a later attempt trained these steps again meanwhile
        manifests.write_checkpoint_manifest(self._store, manifest)
        assert work.copied is not None
        work.copied.add((saved.attempt, saved.step))
        with self._sessions.begin() as session:
            rows.checkpoint_copied(session, manifest, duration_s=time.monotonic() - began)

    def _prune(self, attempt: AttemptToCopy, work: _Work) -> None:
        """Remove the checkpoints of the job from the store that are neither new nor the best.

        Only the newest attempt does it: another one may be the work of a host that was cut off.
        """
        with self._sessions() as session:
            known = rows.checkpoints_of(session, attempt.job_id)
        if known.newest_attempt != attempt.number:
            return
        there = set(Manifests(self._store, attempt.job_id).checkpoints())
        kept = _kept(known, there)
        has_files = manifests.checkpoints_with_files(self._store, attempt.job_id)  # some were begun and not finished
        for number, step in sorted((there | has_files) - kept):
            manifests.remove_checkpoint(self._store, attempt.job_id, number, step)
        work.copied = kept

    def _remove_earlier_artifacts(self, attempt: AttemptToCopy) -> None:
        """The last attempt of a job has fetched what earlier ones left elsewhere, and has copied it with its own."""
        written = Manifests(self._store, attempt.job_id).artifact_attempts()
        if attempt.number in written:
            earlier = [number for number in written if number < attempt.number]
            manifests.remove_artifacts(self._store, attempt.job_id, earlier)

    def _say(self, attempt: AttemptToCopy, work: _Work) -> None:
        """Say on the job what waits for too long, and when it does not wait any more."""
        behind, before = self._behind(attempt, work), attempt.copies_behind
        if behind == before:
            return
        if behind is None:
            is_due = attempt.is_newest or (before or {}).get("host") == self._settings.host
        else:
            is_due = time.monotonic() - work.said_at >= _SAY_S
        if is_due:
            work.said_at = time.monotonic()
            with self._sessions.begin() as session:
                rows.say_behind(session, attempt, behind)

    def _behind(self, attempt: AttemptToCopy, work: _Work) -> dict[str, Any] | None:
        waiting = list(work.waiting)
        since = min((saved.saved_at for saved, _ in waiting), default=attempt.ended_at)
        if since is None or (not waiting and not work.artifacts.waits_bytes and work.why is None):
            return None
        if (datetime.now(UTC) - since).total_seconds() < _BEHIND_S:
            return None
        return {
            "since": since.isoformat(),
            "host": self._settings.host,
            "step": waiting[0][0].step if waiting else None,
            "bytes": sum(size for _, size in waiting) + work.artifacts.waits_bytes,
            "why": work.why,
        }


def _kept(known: Checkpoints, there: set[tuple[int, int]]) -> set[tuple[int, int]]:
    """Those in the store that stay: the newest ones from which the job may continue, and the best."""
    valid = [(one.attempt, one.step) for one in known.saved if (one.attempt, one.step) in there]
    best = [] if known.best is None else [(known.best.attempt, known.best.step)]
    return {*valid[: known.most_kept], *best} & there


def _is_whole(found: LocalCheckpoint, root: Path, attempt: AttemptToCopy) -> bool:
    """Whether nobody has begun to remove the checkpoint: the rank of a script does so when it has enough newer ones."""
    newer = [one for one in complete_below(root, of_script=True) if one.step > found.step]
    return found.path.exists() and len(newer) < attempt.kept_on_disk


def _size_of(found: LocalCheckpoint) -> int:
    try:
        return bytes_below(found.path) if found.path.is_dir() else found.path.stat().st_size
    except FileNotFoundError:
        return 0


def _script_state(root: Path, step: int) -> dict[str, Any] | None:
    """What the rank of a script knew of the run at a checkpoint."""
    try:
        states: dict[str, dict[str, Any]] = json.loads((root / SCRIPT_STATES).read_bytes())
        return states.get(str(step))
    except (OSError, ValueError):
        return None
