"""A search whose trials are trained by the test: rows as a supervisor writes them, one epoch after the other."""

import math
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Engine, event, func, select

from jobs.db.engine import Sessions
from jobs.db.tables import Job, Study
from jobs.insight.studies.adviser import Told
from jobs.insight.studies.judging import spec_and_goal
from jobs.insight.studies.searching import LOCK, Memory, search_once
from jobs.insight.studies.trials import trials_in
from jobs.lifecycle import leases
from jobs.lifecycle.store import Lease
from jobs.model.states import EndReason
from jobs.telemetry import ingest
from jobs.telemetry.ingest import ALL_RANKS, MetricRow
from tests.integration.jobs import job_rows
from tests.waiting import until
from worker.attempt.ending import requested_ending

SPACE = {"learning_rate": {"log": [1e-4, 0.1]}, "model.dropout": {"uniform": [0, 0.5]}}
BASE = {"dataset": "digits", "model": "mlp", "epochs": 9, "early_stopping": None}
SEARCH = {"trials": 12, "parallel": 1, "space": SPACE, "prune": "asha"}


def accuracy(values: dict[str, Any], epoch: int) -> float:
    """The curve of a trial: the nearer its rate is to 0.003 and the less dropout, the higher it gets."""
    best = 0.95 - 0.2 * abs(math.log10(values["learning_rate"] / 0.003)) - 0.1 * values["model.dropout"]
    return best * (1 - math.exp(-epoch / 2))


class Killed(BaseException):
    """The worker is dead."""


class Lab:
    """Searches in a database, and the host that trains their trials."""

    def __init__(self, sessions: Sessions, *, most_queued: int = 1000) -> None:
        self.sessions = sessions
        self.most_queued = most_queued
        self.kills = 0
        self._leases: dict[str, Lease] = {}
        job_rows.a_host(sessions, slots=8)

    def search(self, memory: Memory | None = None) -> int:
        """A pass of a worker: one that has just started, unless it has a memory."""
        return search_once(self.sessions, memory or Memory(), most_queued=self.most_queued)

    def search_with_kills(self, generator: random.Random) -> None:
        """A pass that is killed in the middle again and again, until one comes to its end."""
        with killed_at_random(self.sessions.kw["bind"], generator) as begin:
            while True:
                begin()
                try:
                    self.search()
                    return
                except Killed:
                    self.kills += 1
                until(self._nobody_searches)  # the server ends the transaction of the killed one a moment later

    def _nobody_searches(self) -> bool:
        with self.sessions() as session:
            return bool(session.scalar(select(func.pg_try_advisory_xact_lock(LOCK))))

    def jobs(self, study_id: str) -> list[Job]:
        with self.sessions() as session:
            return list(session.scalars(select(Job).where(Job.study_id == study_id).order_by(Job.study_cell)))

    def told(self, study_id: str) -> list[Told]:
        """What Optuna would be told of the trials."""
        with self.sessions() as session:
            study = session.get_one(Study, study_id)
            _, goal = spec_and_goal(study)
            return [trial.told(goal) for trial in trials_in(session, study, goal)]

    def live(self, study_id: str) -> list[Job]:
        return [job for job in self.jobs(study_id) if job.ended_at is None]

    def begin(self, job: Job) -> Lease:
        """Place a job and start its rank."""
        slot = job.study_cell % 8
        lease = self._leases[job.id] = job_rows.an_attempt(self.sessions, job.id, slots=(slot,))
        with self.sessions.begin() as session:
            leases.claim(session, lease.attempt_id, lease_s=60)
            leases.first_rank_started(session, lease, datetime.now(UTC))
        return lease

    def epoch(self, job: Job, epoch: int, value: float, *, metric: str = "val_accuracy") -> None:
        """Store the value of an epoch."""
        lease = self._leases[job.id]
        row = MetricRow(job.id, metric, ALL_RANKS, 10 * epoch, lease.number, epoch, datetime.now(UTC), value)
        with self.sessions.begin() as session:
            ingest.store_metrics(session, [row])

    def end(self, job: Job, reason: EndReason = EndReason.COMPLETED) -> None:
        """End an attempt, and release its slot."""
        lease = self._leases[job.id]
        with self.sessions.begin() as session:
            leases.end(session, lease, reason)
            leases.release(session, lease.attempt_id)

    def is_asked_to_end(self, job: Job) -> EndReason | None:
        """As its supervisor sees it."""
        with self.sessions() as session:
            ending = requested_ending(leases.stop_requests(session, self._leases[job.id]))
        return None if ending is None else ending.reason

    def train(self, study_id: str, *, look: Callable[[], object] | None = None, epochs: int = 9) -> None:
        """Train all trials, one after the other, with a look of the worker after each epoch."""
        look = look or self.search
        look()
        while live := self.live(study_id):
            job = live[0]
            self.begin(job)
            values = self.values(study_id)[job.study_cell]
            for epoch in range(1, epochs + 1):
                self.epoch(job, epoch, accuracy(values, epoch))
                look()
                if (reason := self.is_asked_to_end(job)) is not None:
                    break
            self.end(job, reason or EndReason.COMPLETED)
            look()

    def values(self, study_id: str) -> list[dict[str, Any]]:
        """The values of the trials so far."""
        with self.sessions() as session:
            return list(session.get_one(Study, study_id).cells)


@contextmanager
def killed_at_random(engine: Engine, generator: random.Random) -> Iterator[Callable[[], None]]:
    """Kill at one of the next statements or commits, as the generator says, from each call of what this yields."""
    left = [0]

    def count(*_: Any) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise Killed

    def begin() -> None:
        left[0] = generator.randrange(1, 40)

    event.listen(engine, "before_cursor_execute", count)
    event.listen(engine, "commit", count)
    try:
        yield begin
    finally:
        event.remove(engine, "before_cursor_execute", count)
        event.remove(engine, "commit", count)
