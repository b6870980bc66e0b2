"""Renews an attempt's lease, and with it the ranks' right to run. Used by the supervision of an attempt.

The lease counts from just before the request to the database, by this host's steady clock. For the ranks it ends a
little earlier than in the database. So they have exited on every host before the job can be placed again.
"""

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from sqlalchemy.exc import DBAPIError

from jobs.db.engine import Sessions, is_away
from jobs.lifecycle import leases
from jobs.lifecycle.leases import StaleLease
from jobs.lifecycle.store import Lease
from jobs.runtime.settings import Settings
from worker.attempt import lease_file
from worker.attempt.members import Members

_log = logging.getLogger(__name__)
_Result = TypeVar("_Result")
_RETRY_S = 0.5  # between two attempts to reach a database that is away


class Renewal:
    """Renews the lease when it is time, and reports when that has failed for too long."""

    def __init__(self, sessions: Sessions, lease: Lease, config: Settings, path: Path, members: Members) -> None:
        self._sessions = sessions
        self._lease = lease
        self._config = config
        self._path = path
        self._members = members
        ranks_until = lease_file.read_until(path)
        # The attempt was claimed before the ranks' first lease was written.
        self._renewed_at = time.monotonic() if ranks_until is None else ranks_until - config.ranks_lease_s
        self._due_at = 0.0  # at once

    @property
    def is_over(self) -> bool:
        """Whether the ranks must have exited by now."""
        return time.monotonic() >= self._renewed_at + self._config.ranks_lease_s

    def check(self) -> None:
        """Raises `StaleLease` when the ranks' time is over, because another attempt of the job may run by now."""
        if self.is_over:
            raise StaleLease(self._lease)

    def renew_if_due(self) -> None:
        """Renew the lease if it is time. Raises `StaleLease`, or the database's error while it is away."""
        self.check()
        now = time.monotonic()
        if now < self._due_at:
            return
        self._due_at = now + _RETRY_S
        with self._sessions.begin() as session:
            leases.renew(session, self._lease, lease_s=self._config.lease_s)
        self._renewed_at = now
        self._due_at = now + self._config.lease_renewal_s
        try:
            lease_file.extend(self._path, now + self._config.ranks_lease_s)
        except OSError as error:  # then the ranks leave at the end of their lease
            _log.warning("the lease of the ranks cannot be extended: %s", error)
        self._members.extend(now + self._config.ranks_lease_s - time.monotonic())

    def retry_while_away(self, action: Callable[[], _Result]) -> _Result:
        """Run `action` until the database answers, for as long as the lease may hold. Raises `StaleLease`."""
        while True:
            self.check()
            try:
                self.renew_if_due()
                return action()
            except DBAPIError as error:
                if not is_away(error):
                    raise
                _log.warning("the database is away: %s", error.orig)
                time.sleep(_RETRY_S)
