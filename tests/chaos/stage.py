"""How far a round has come: what the rows say, read again and again, and the share of all training that is over.

`Stage` is a thread with a connection of its own. People and monkey wait for it, so that what they do comes at the same
place of the story on a fast machine and on a slow one.
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
_IDLE_S = 8.0  # so long may nothing move before the story goes on all the same

_JOBS = """
SELECT name, id, status, attempt, paused_at IS NOT NULL, cancel_requested_at IS NOT NULL,
       coalesce((progress->>'epoch')::int, 0)
FROM jobs
"""
_SHARES = "SELECT job_id, number, shares FROM attempts"
_LIVE = """
SELECT a.job_id, a.number, a.gpus, (SELECT count(*) FROM slots s WHERE s.attempt_id = a.id)
FROM attempts a WHERE a.ended_at IS NULL
"""
APPLICATION = "chaos"  # by which the monkey knows this connection, and lets it be


@dataclass(frozen=True)
class JobRow:
    """A job as its row says."""

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
    slots: Mapping[tuple[str, int], frozenset[Slot]] = field(default_factory=dict)  # of each attempt


def connect(url: str) -> psycopg.Connection:
    """A connection that the monkey lets be."""
    return psycopg.connect(url, autocommit=True, connect_timeout=2, application_name=APPLICATION)


def read_rows(connection: psycopg.Connection) -> Rows:
    """Look once."""
    jobs = {name: JobRow(*rest) for name, *rest in connection.execute(_JOBS).fetchall()}
    slots = {
        (job_id, number): frozenset((share["host"], index) for share in shares for index in share["slots"])
        for job_id, number, shares in connection.execute(_SHARES).fetchall()
    }
    return Rows(jobs, slots)


class Stage(threading.Thread):
    """Reads the rows until it is stopped. `violations` has a sentence for each thing in them that must not be."""

    def __init__(self, database_url: str, script: Script) -> None:
        super().__init__(name="stage", daemon=True)
        self.rows = Rows()
        self.violations: dict[str, None] = {}
        self.begun = time.monotonic()
        self.position = 0.0  # the share of all training that is over; never falls
        self._moved = self.begun
        self._url = database_url
        self._epochs = {job.name: job.spec["epochs"] for job in script.jobs}
        self._ended = threading.Event()

    @property
    def elapsed_s(self) -> float:
        """Since the round began."""
        return time.monotonic() - self.begun

    def run(self) -> None:
        """Look once a period, through whatever connection there is."""
        while not self._ended.is_set():
            with suppress(psycopg.OperationalError), connect(self._url) as connection:
                while not self._ended.wait(PERIOD_S):
                    self._look(connection)
            self._ended.wait(PERIOD_S)

    def stop(self) -> None:
        """End after the look at hand."""
        self._ended.set()
        self.join()

    def lets_through(self, at: float) -> bool:
        """Whether the round is that far; where it stands still, one caller after the other is let through."""
        if self.position >= at:
            return True
        stands_still = time.monotonic() - self._moved > _IDLE_S
        if stands_still:
            self._moved = time.monotonic()
        return stands_still

    def stands_still_until(self, moment: float) -> None:
        """Until then nothing may move, and that lets nobody through."""
        self._moved = max(self._moved, moment)

    def job(self, name: str) -> JobRow | None:
        """The newest look at a job; None before its row was seen."""
        return self.rows.jobs.get(name)

    def _look(self, connection: psycopg.Connection) -> None:
        for job_id, number, gpus, leased in connection.execute(_LIVE).fetchall():
            if gpus != leased:
                self.violations.setdefault(f"attempt {job_id}.{number} lives and holds {leased} slots of its {gpus}")
        rows = read_rows(connection)
        for name, before in self.rows.jobs.items():
            if name not in rows.jobs or rows.jobs[name].job_id != before.job_id:
                self.violations.setdefault(f"job {name} ({before.job_id}) is no longer there")
        if rows.jobs != self.rows.jobs:
            self._moved = max(self._moved, time.monotonic())
        self.rows = rows
        self.position = max(self.position, self._share_over(rows))

    def _share_over(self, rows: Rows) -> float:
        shares = [
            1.0 if job.is_over else 0.99 * min(job.epoch / self._epochs[name], 1.0)
            for name, job in rows.jobs.items()
            if name in self._epochs
        ]
        return sum(shares) / len(self._epochs)
