"""Jobs whose slots nobody uses, for tests of the idle watch."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import func, insert, select, update

from jobs.db.engine import Sessions
from jobs.db.tables import Attempt, IdleStretch, Job, JobEvent, Sample
from jobs.lifecycle import leases
from jobs.lifecycle.store import get_job
from jobs.model.states import EndReason, EventKind, Status
from jobs.telemetry.idle_watch import watch_once
from tests.integration.jobs import job_rows
from worker.attempt.ending import Ending, requested_ending

FOR_S = 200  # warned after 100 s
STOP = {"below": 5, "for_s": FOR_S, "action": "stop"}
OF_IDLE_SLOTS = {EventKind.IDLE_WARNED, EventKind.IDLE_WITHDRAWN, EventKind.IDLE_ACTED, EventKind.PAUSE_REQUESTED}


class Running:
    """A job of two slots whose ranks started ten minutes ago, and the watch over it."""

    def __init__(self, sessions: Sessions, *, kind: str = "gpu", **fields: Any) -> None:
        self.sessions, self.column = sessions, f"{kind}_percent"
        job_rows.a_host(sessions, kind=kind)
        self.lease = job_rows.an_attempt(sessions, job_rows.a_job(sessions, **fields))
        with sessions.begin() as session:
            leases.claim(session, self.lease.attempt_id, lease_s=60)
            leases.first_rank_started(session, self.lease, datetime.now(UTC))
            long_ago = func.now() - timedelta(seconds=580)
            session.execute(update(Attempt).values(created_at=long_ago, started_at=long_ago))

    def samples(
        self,
        seconds_ago: Sequence[float],
        percent: float | None = 0,
        *,
        ranks: Sequence[int] = (0, 1),
        ahead: float = 0,
    ) -> None:
        """Samples of these ranks so many seconds ago, on a host whose clock is ahead by so many seconds."""
        with self.sessions.begin() as session:
            now = session.execute(select(func.now())).scalar_one()
            of_lease = {"job_id": self.lease.job_id, "attempt": 1, "host": "ha"}
            session.execute(
                insert(Sample),
                [
                    {
                        **of_lease,
                        "rank": rank,
                        "slot": rank,
                        "at": now - timedelta(seconds=ago - ahead),
                        self.column: percent,
                    }
                    for ago in seconds_ago
                    for rank in ranks
                ],
            )

    def watch(self) -> int:
        return watch_once(self.sessions, period_s=0.0, sample_period_s=1.0)

    @property
    def job(self) -> Job:
        with self.sessions() as session:
            return get_job(session, self.lease.job_id)

    @property
    def history(self) -> list[str]:
        """What its history says of idle slots."""
        with self.sessions() as session:
            kinds = session.scalars(select(JobEvent.kind).order_by(JobEvent.id))
            return [kind.value for kind in kinds if kind in OF_IDLE_SLOTS]

    def pass_time(self, seconds: float) -> None:
        """Let so many seconds pass: what was measured, judged and said lies so much longer ago."""
        earlier = timedelta(seconds=seconds, microseconds=1)  # so that no sample meets another on its way
        with self.sessions.begin() as session:
            created_at, started_at = Attempt.created_at - earlier, Attempt.started_at - earlier
            session.execute(update(Attempt).values(created_at=created_at, started_at=started_at))
            session.execute(update(Sample).values(at=Sample.at - earlier))
            since, until = IdleStretch.since - earlier, IdleStretch.until - earlier
            session.execute(update(IdleStretch).values(since=since, until=until))
            notice = session.scalars(select(Job.idle)).one()
            if notice is not None:
                for name in ("since", "acts_at"):
                    if notice[name] is not None:
                        notice[name] = (datetime.fromisoformat(notice[name]) - earlier).isoformat()
                session.execute(update(Job).values(idle=notice))

    def ending(self) -> Ending | None:
        """What its supervisor is asked for."""
        with self.sessions() as session:
            return requested_ending(leases.stop_requests(session, self.lease))

    def end(self, reason: EndReason, error: str | None = None) -> Status:
        with self.sessions.begin() as session:
            return leases.end(session, self.lease, reason, error=error)


Run = Callable[..., Running]


def warned(run: Run, **fields: Any) -> Running:
    """A job that was warned of."""
    running = run(**fields)
    running.samples(range(1, 110))
    assert running.watch() == 1
    return running


def acted(run: Run, action: str) -> Running:
    """A job that was warned of and to which the action was done."""
    running = warned(run, idle=STOP | {"action": action})
    running.pass_time(101)
    running.samples(range(1, 102))
    assert running.watch() == 1
    return running
