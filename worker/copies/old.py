"""Removes from the store what is kept there no more: old checkpoints, artifacts that were given up, used-up uploads.

A thread of the copier's process, not of the worker: a store that does not answer must not stop the retention of the
host. `jobs.lifecycle.old_copies` says what is old, and whose turn it is.
"""

import logging
import re

from jobs.copies.removing import jobs_in, remove_kept_no_more
from jobs.copies.store import Store, StoreAway
from jobs.data import pieces_in_store, upload_pieces
from jobs.db.engine import Sessions
from jobs.lifecycle import old_copies
from jobs.runtime.settings import Settings
from jobs.scheduling.hosts import shared_period_s
from worker.periodic import PeriodicThread

_log = logging.getLogger(__name__)

_AT_ONCE = 500
_ID = re.compile(r"[0-9a-z]{1,32}")


class OldCopies(PeriodicThread):
    """Takes its turn about once an hour for the whole stack, and goes through the jobs and the uploads in the store.

    It does not touch folders that belong to no job and no upload of this database: another stack may use the same
    place.
    """

    def __init__(self, sessions: Sessions, store: Store, settings: Settings) -> None:
        super().__init__("old-copies", period_s=settings.retention_period_s)
        self._sessions = sessions
        self._store = store
        self._settings = settings
        self._turn_s = settings.retention_period_s

    def pause_s(self) -> float:
        """A period; longer if there are many hosts."""
        return self._turn_s

    def once(self) -> None:
        """Remove what is kept no more, if it is the turn of this host. A store that is away ends the pass."""
        config = self._settings
        with self._sessions.begin() as session:
            period_s, timeout_s = config.retention_period_s, config.host_timeout_s
            self._turn_s = shared_period_s(session, period_s, host_timeout_s=timeout_s)
            has_turn = old_copies.take_turn(session, self._store.url)
        try:
            if has_turn:
                self._remove_copies()
                self._remove_uploads()
        except StoreAway as error:  # hosts say so: `hosts.no_store`
            _log.info("what is old stays in the store for now: %s", error)

    def _remove_uploads(self) -> None:
        """Remove the pieces of uploads from which nothing is made any more."""
        upload_ids = [name for name in pieces_in_store.uploads_in(self._store) if _ID.fullmatch(name)]
        for start in range(0, len(upload_ids), _AT_ONCE):
            with self._sessions() as session:
                unneeded = upload_pieces.unneeded_uploads(session, upload_ids[start : start + _AT_ONCE])
            for upload_id in unneeded:
                if self.stopped.is_set():
                    return
                pieces_in_store.remove(self._store, upload_id)
                with self._sessions.begin() as session:
                    upload_pieces.forget_pieces(session, upload_id)

    def _remove_copies(self) -> None:
        job_ids = [name for name in jobs_in(self._store) if _ID.fullmatch(name)]
        count = 0
        for start in range(0, len(job_ids), _AT_ONCE):
            batch = job_ids[start : start + _AT_ONCE]
            with self._sessions() as session:
                due = old_copies.old_copies(session, batch, keep_days=self._settings.keep_files_days)
            for old in due:
                if self.stopped.is_set():
                    return
                remove_kept_no_more(self._store, old.job_id, checkpoints=old.checkpoints, artifacts=old.artifacts)
                with self._sessions.begin() as session:
                    old_copies.copies_removed(session, self._store.url, old.job_id)
                count += 1
        if count:
            _log.info("copies of %d jobs that are kept no more are removed from the store", count)
