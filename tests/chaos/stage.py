"""How far a round has come: the rows, read again and again, and the share of all training that is over.

`Stage` is a thread with a connection of its own. People and monkey wait for it. So they act at the same point of a
round on a fast machine and on a slow one.
"""

import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import psycopg

from tests.chaos.census import Slot
from tests.chaos.script import Script

PERIOD_S = 0.2
_IDLE_S = 8.0  # if no row changes for this long, the round continues anyway

_JOBS = """
SELECT name, id, status, attempt, paused_at IS NOT NULL, cancel_requested_at IS NOT NULL,
       coalesce((progress->>'epoch')::int, 0)
FROM jobs
"""
_ATTEMPTS = "SELECT job_id, number, shares, ended_at IS NOT NULL FROM attempts"
APPLICATION = "chaos"  # the name of connections that the monkey does not drop


AttemptKey = tuple[str, int]  # job id and number


@dataclass(frozen=True)
class JobRow:
    """The row of a job."""

    job_id: str
    status: str
    attempt: int
    paused: bool
    cancelled: bool
    epoch: int

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.status in ("succeeded", "failed", "cancelled")


@dataclass(frozen=True)
class Rows:
    """One look at the rows."""

    jobs: Mapping[str, JobRow] = field(default_factory=dict)  # by name
    slots: Mapping[AttemptKey, frozenset[Slot]] = field(default_factory=dict)
    ended: frozenset[AttemptKey] = frozenset()  # the attempts that have ended


def connect(url: str) -> psycopg.Connection:
    """A connection that the monkey does not drop."""
    return psycopg.connect(url, autocommit=True, connect_timeout=2, application_name=APPLICATION)


def read_rows(connection: psycopg.Connection) -> Rows:
    """Read the rows once."""
    jobs = {name: JobRow(*rest) for name, *rest in connection.execute(_JOBS).fetchall()}
    attempts = connection.execute(_ATTEMPTS).fetchall()
    slots = {
        (job_id, number): frozenset((share["host"], index) for share in shares for index in share["slots"])
        for job_id, number, shares, _ in attempts
    }
    return Rows(jobs, slots, frozenset((job_id, number) for job_id, number, _, has_ended in attempts if has_ended))


class Stage(threading.Thread):
    """Reads the rows until it is stopped. `tests.chaos.witness` notes what is forbidden in them."""

    def __init__(self, database_url: str, script: Script) -> None:
        super().__init__(name="stage", daemon=True)
        self.rows = Rows()
        self.begun = time.monotonic()
        self.undated: set[AttemptKey] = set()  # attempts that ran while a clock was wrong: their times say nothing
        self.position = 0.0  # the share of all training that is over; never falls
        self._last_change_at = self.begun
        self._wrong_clocks = 0
        self._clocks_were_right = True  # at the look before
        self._ended_before: frozenset[AttemptKey] = frozenset()  # before the first clock was wrong
        self._url = database_url
        self._epochs = {job.name: job.spec["epochs"] for job in script.jobs}
        self._ended = threading.Event()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the round began."""
        return time.monotonic() - self.begun

    def run(self) -> None:
        """Read the rows once a period. Connect again when a connection is lost."""
        while not self._ended.is_set():
            with suppress(psycopg.OperationalError), connect(self._url) as connection:
                while not self._ended.wait(PERIOD_S):
                    self._look(connection)
            self._ended.wait(PERIOD_S)

    def stop(self) -> None:
        """End after the current look."""
        self._ended.set()
        self.join()

    def may_continue(self, at: float) -> bool:
        """Whether the round has reached `at`. If no row changes for a while, it lets one caller at a time continue."""
        if self.position >= at:
            return True
        is_idle = time.monotonic() - self._last_change_at > _IDLE_S
        if is_idle:
            self._last_change_at = time.monotonic()
        return is_idle

    def expect_no_change_until(self, moment: float) -> None:
        """The monkey holds processes until then. So rows that do not change let no caller continue."""
        self._last_change_at = max(self._last_change_at, moment)

    def clock_was_set(self, *, right: bool) -> None:
        """The monkey has set a clock, wrong or right again."""
        self._wrong_clocks += -1 if right else 1

    def job(self, name: str) -> JobRow | None:
        """The row of a job at the newest look; None before the first look that found it."""
        return self.rows.jobs.get(name)

    def _look(self, connection: psycopg.Connection) -> None:
        clocks_are_right = self._wrong_clocks == 0
        rows = read_rows(connection)
        if rows.jobs != self.rows.jobs:
            self._last_change_at = max(self._last_change_at, time.monotonic())
        if not (clocks_are_right and self._clocks_were_right):
            self.undated |= rows.slots.keys() - self._ended_before
        else:
            self._ended_before = rows.ended
        self._clocks_were_right = clocks_are_right
        self.rows = rows
        self.position = max(self.position, self._share_over(rows))

    def _share_over(self, rows: Rows) -> float:
        shares = [
            1.0 if job.is_over else 0.99 * min(job.epoch / self._epochs[name], 1.0)
            for name, job in rows.jobs.items()
            if name in self._epochs
        ]
        return sum(shares) / len(self._epochs)
