"""Notices that the database's clock was set, or that another server with another clock took over.

Leases and heartbeats end by that clock. When it jumps ahead, all of them seem to be over at once. The agent uses this
to give their holders time to renew them.
"""

import time

from sqlalchemy import Float, cast, func, select
from sqlalchemy.orm import Session


class DatabaseClock:
    """Compares the database's clock with this process's own. The own one is monotonic: nobody can set it."""

    def __init__(self, tolerance_s: float) -> None:
        self._tolerance_s = tolerance_s
        self._ahead_s: float | None = None  # of the own clock, at the last look
        self._took_s = 0.0  # the last look; now() lies somewhere in it

    def jump_s(self, session: Session) -> float:
        """By how much it was set since the last look; 0 for less than the tolerance.

        Make this the first statement of a transaction: all its statements have the same `now()`.
        """
        begun = time.monotonic()
        now = session.scalar(select(cast(func.extract("epoch", func.now()), Float(53)))) or 0.0
        last_ahead_s, last_took_s = self._ahead_s, self._took_s
        self._ahead_s, self._took_s = now - begun, time.monotonic() - begun
        if last_ahead_s is None:
            return 0.0
        difference_s = self._ahead_s - last_ahead_s
        return difference_s if abs(difference_s) > self._tolerance_s + last_took_s + self._took_s else 0.0
