"""Keeps the process running that copies to the store. A thread of the worker, if `HORA_STORE` is set."""

import logging
import os
import subprocess
import sys
import time
from contextlib import suppress

from sqlalchemy.exc import DBAPIError

from jobs.db.engine import Sessions
from jobs.runtime.settings import Settings
from worker.copies import rows
from worker.periodic import PeriodicThread

_log = logging.getLogger(__name__)

_PERIOD_S = 5.0
_LOOK_S = 0.5
_GOODBYE_S = 5.0


class CopierKeeper(PeriodicThread):
    """Starts the copier, and starts it again when it has ended."""

    def __init__(self, sessions: Sessions, settings: Settings) -> None:
        super().__init__("copies", period_s=_PERIOD_S, rests_first=False)
        self._sessions = sessions
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None

    def once(self) -> None:
        """Start the copier if it does not run."""
        if self._process is not None and self._process.poll() is not None:
            _log.warning("the copier ended with code %s, it is started again", self._process.returncode)
            self._process = None
        if self._process is None and not self.stopped.is_set():
            self._process = subprocess.Popen(
                [sys.executable, "-m", "worker.copies.process"],
                stdin=subprocess.PIPE,
                env={**os.environ, "HORA_HOST_NAME": self._settings.host},  # or that of the pool
                start_new_session=True,
            )

    def finish(self, *, within_s: float) -> bool:
        """Wait until the store has all that ended jobs left here. False if that takes longer."""
        give_up_at = time.monotonic() + within_s
        while True:
            try:
                with self._sessions() as session:
                    if not rows.waits_for_copies(session, self._settings.host):
                        return True
            except DBAPIError as error:
                _log.warning("it cannot be seen what waits for the store: %s", error.orig)
            if time.monotonic() > give_up_at:
                _log.warning("the store lacks what jobs left on this host", extra={"host": self._settings.host})
                return False
            time.sleep(_LOOK_S)

    def end_process(self) -> None:
        """End the copier. What it was copying is copied again later."""
        self.stop(wait_s=_GOODBYE_S)
        if self._process is None:
            return
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(_GOODBYE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def keeper_of(sessions: Sessions, settings: Settings) -> CopierKeeper | None:
    """The thread, if there is a store. If there is none any more, nothing is wrong with it."""
    if settings.store is not None:
        return CopierKeeper(sessions, settings)
    with suppress(DBAPIError), sessions.begin() as session:
        rows.say_store(session, settings.host, None)
    return None
