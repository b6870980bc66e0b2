"""What the idle watch proves by samples, and what it does to jobs: a warning, its withdrawal, a pause or an end."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import cast, func, insert, select, text, update
from sqlalchemy.dialects.postgresql import JSONB

from jobs.db.engine import Sessions
from jobs.db.tables import Attempt, Host, IdleStretch, Job, JobEvent, Project, Sample, Slot
from jobs.insight.studies import control
from jobs.lifecycle import leases, store
from jobs.lifecycle.deliveries import JOB_IDLE
from jobs.lifecycle.store import get_job
from jobs.model.states import EndReason, EventKind, Status
from jobs.people.project_admission import Applicant
from jobs.scheduling.queue import standings
from jobs.telemetry import idle_watch
from jobs.telemetry.idle_watch import watch_once
from tests.integration.jobs import job_rows
from tests.integration.jobs.test_outbox import a_webhook, messages
from tests.integration.jobs.writing import change, write
from worker.attempt.ending import Ending, requested_ending

FOR_S = 200  # warned after 100 s
STOP = {"below": 5, "for_s": FOR_S, "action": "stop"}
OF_IDLE_SLOTS = {EventKind.IDLE_WARNED, EventKind.IDLE_WITHDRAWN, EventKind.IDLE_ACTED, EventKind.PAUSE_REQUESTED}


class Running:
    """A job of two slots whose ranks started ten minutes ago, and the watch over it."""

    def __init__(
        self, sessions: Sessions, *, kind: str = "gpu", idle: dict[str, Any] | None = STOP, **fields: Any
    ) -> None:
        self.sessions, self.column = sessions, f"{kind}_percent"
        job_rows.a_host(sessions, kind=kind)
        self.lease = job_rows.an_attempt(sessions, job_rows.a_job(sessions, idle=idle, **fields))
        with sessions.begin() as session:
            leases.claim(session, self.lease.attempt_id, lease_s=60)
            leases.first_rank_started(session, self.lease, datetime.now(UTC))
            long_ago = func.now() - timedelta(seconds=580)
            session.execute(update(Attempt).values(created_at=long_ago, started_at=long_ago))

    def samples(
        self, seconds_ago: Sequence[float], percent: float | None = 0, *, ranks: Sequence[int] = (0, 1),
        ahead: float = 0,
    ) -> None:  # fmt: skip
        """Samples of these ranks so many seconds ago, on a host whose clock is ahead by so many seconds."""
        with self.sessions.begin() as session:
            now = session.execute(select(func.now())).scalar_one()
            of_lease = {"job_id": self.lease.job_id, "attempt": 1, "host": "ha", self.column: percent}
            rows = [
                {**of_lease, "rank": rank, "slot": rank, "at": now - timedelta(seconds=ago - ahead)}
                for ago in seconds_ago
                for rank in ranks
            ]
            session.execute(insert(Sample), rows)

    def later(self, seconds: int, percent: float = 0) -> int:
        """Let so many seconds pass, with a sample in each, and look at them."""
        self.pass_time(seconds)
        self.samples(range(1, seconds + 1), percent)
        return self.watch()

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
        return write(self.sessions, leases.end, self.lease, reason, error=error)


def warned(sessions: Sessions, **fields: Any) -> Running:
    """A job that was warned of."""
    running = Running(sessions, **fields)
    running.samples(range(1, 110))
    assert running.watch() == 1
    return running


def acted(sessions: Sessions, action: str) -> Running:
    """A job that was warned of and to which the action was done."""
    running = warned(sessions, idle=STOP | {"action": action})
    assert running.later(101) == 1
    return running


def test_a_job_is_warned_of_before_anything_is_done(sessions: Sessions) -> None:
    running = Running(sessions)
    running.samples(range(1, 95))
    assert running.watch() == 0
    assert running.job.idle is None
    running.pass_time(10)
    running.samples(range(1, 11))
    before = running.job.revision
    assert running.watch() == 1
    job = running.job
    assert job.revision > before, "who polls sees it"
    said = STOP | {"attempt": 1, "acted_at": None, "why": "its 2 GPUs are used less than 5 %"}
    assert job.idle.items() >= said.items()
    since, acts_at = (datetime.fromisoformat(job.idle[name]) for name in ("since", "acts_at"))
    assert timedelta(seconds=FOR_S) <= acts_at - since <= timedelta(seconds=FOR_S + 60)
    assert running.watch() == 0, "once"
    assert running.history == ["idle_warned"]
    assert running.ending() is None


def test_stop_ends_the_job_and_says_why(sessions: Sessions) -> None:
    running = acted(sessions, "stop")
    why = "its 2 GPUs were below 5 % for 200 seconds"
    assert running.ending() == Ending(EndReason.IDLE, why)
    assert running.watch() == 0, "once"
    assert running.end(EndReason.IDLE, why) is Status.CANCELLED
    job = running.job
    assert (job.status, job.end_reason, job.error, job.idle) == (Status.CANCELLED, EndReason.IDLE, why, None)
    job_rows.cancel(sessions, job.id)
    assert running.job.revision == job.revision, "a job that is over does not change"
    assert running.history == ["idle_warned", "idle_acted"]


@pytest.mark.parametrize("reason", [EndReason.LEASE_EXPIRED, EndReason.PREEMPTED, EndReason.COMPLETED])
def test_a_job_that_is_to_stop_is_not_restarted_whatever_its_attempt_dies_of(
    sessions: Sessions, reason: EndReason
) -> None:
    """It has succeeded if it got to its end first."""
    running, is_done = acted(sessions, "stop"), reason is EndReason.COMPLETED
    assert running.end(reason, "lost") is (Status.SUCCEEDED if is_done else Status.CANCELLED)
    assert running.job.end_reason is (reason if is_done else EndReason.IDLE)
    assert is_done or running.job.error == "its 2 GPUs were below 5 % for 200 seconds"


@pytest.mark.parametrize("by", ["itself", "its study", "cancel"])
def test_pause_queues_the_job_and_says_why_until_it_is_resumed_or_cancelled(sessions: Sessions, by: str) -> None:
    running = acted(sessions, "pause")
    why = "its 2 GPUs were below 5 % for 200 seconds"
    assert running.ending() == Ending(EndReason.PAUSED, why)
    assert running.history == ["idle_warned", "idle_acted", "pause_requested"]
    assert running.end(EndReason.PAUSED, why) is Status.QUEUED
    job = running.job
    assert (job.idle["why"], job.idle["acted_at"]) == (why, job.paused_at.isoformat().replace("+00:00", "Z"))
    study_id, _ = job_rows.a_study(sessions, jobs=1)
    with sessions.begin() as session:
        assert standings(session, [job.id], host_timeout_s=30)[job.id].reason == f"paused: {why}"
        if by == "cancel":
            store.request_cancel(session, job.id)
        elif by == "itself":
            store.resume(session, job.id)
        else:
            of_study = {"study_id": study_id, "study_cell": 0, "study_repeat": 1}
            session.execute(update(Job).where(Job.id == job.id).values(of_study))
            control.resume(session, study_id, by=Applicant("ada"))
    assert running.job.idle is None
    assert (running.job.paused_at is None) == (by != "cancel")
    assert running.job.end_reason is (EndReason.CANCELLED if by == "cancel" else None)


def test_warn_only_warns_and_a_slot_without_samples_is_no_proof(sessions: Sessions) -> None:
    running = Running(sessions, idle=STOP | {"action": "warn"})
    running.samples(range(1, 210), ranks=[0])
    assert running.watch() == 0
    assert running.later(230) == 1
    assert (running.job.idle or {})["acts_at"] is None
    assert running.ending() is None


def test_a_slot_whose_share_of_its_host_is_not_known_is_no_proof(sessions: Sessions) -> None:
    running = Running(sessions)
    change(sessions, update(Slot).where(Slot.rank == 1).values(kind="cpu"))
    running.samples(range(1, 300))
    assert running.watch() == 0


def set_default(sessions: Sessions, policy: dict[str, Any] | None) -> None:
    change(sessions, update(Project).values(idle=policy))


def test_a_project_says_it_for_jobs_that_do_not(sessions: Sessions) -> None:
    running = Running(sessions, idle=None)
    running.samples(range(1, 110))
    assert running.watch() == 0
    set_default(sessions, STOP | {"action": "pause"})
    assert running.watch() == 1
    assert (running.job.idle or {})["action"] == "pause"
    of_spec = cast({"idle": STOP | {"for_s": 10_000}}, JSONB)
    for withdraw in (
        lambda: set_default(sessions, None),
        lambda: change(sessions, update(Job).values(spec=Job.spec.op("||")(of_spec))),  # it comes first
    ):
        withdraw()
        assert running.watch() == 1
        assert running.job.idle is None
        set_default(sessions, STOP | {"action": "pause"})
        running.watch()
    assert running.history == ["idle_warned", "idle_withdrawn"] * 2


def test_a_limit_that_is_tightened_gives_notice_first(sessions: Sessions) -> None:
    set_default(sessions, STOP | {"for_s": 100_000})
    running = Running(sessions, idle=None)
    running.samples(range(1, 500))
    assert running.watch() == 0
    set_default(sessions, STOP)
    assert running.watch() == 1
    acts_at = datetime.fromisoformat((running.job.idle or {})["acts_at"])
    assert acts_at > datetime.now(UTC) + timedelta(seconds=FOR_S / 2 - 60)
    assert running.ending() is None


@pytest.mark.parametrize("request_end", [store.pause, store.request_cancel])
def test_a_job_that_a_person_ends_is_left_alone(sessions: Sessions, request_end: Any) -> None:
    running = warned(sessions)
    write(sessions, request_end, running.lease.job_id)
    assert running.later(101) == 0
    running.end(EndReason.PAUSED)
    assert running.job.idle is None, "the warning ends with its attempt"


@pytest.mark.parametrize("action", ["stop", "pause"])
def test_what_was_done_to_an_earlier_attempt_ends_no_later_one(sessions: Sessions, action: str) -> None:
    """A process of an older version requeues the job and leaves the notice on its row."""
    running = acted(sessions, action)
    left = running.job.idle
    change(sessions, update(Job).values(idle=None, paused_at=None))
    running.end(EndReason.LEASE_EXPIRED)
    with sessions.begin() as session:
        leases.release(session, running.lease.attempt_id)
        session.execute(update(Job).values(idle=left))
    running.lease = job_rows.an_attempt(sessions, running.lease.job_id)
    assert running.lease.number == 2
    assert running.ending() is None
    write(sessions, leases.first_rank_started, running.lease, datetime.now(UTC))
    assert running.watch() == 1
    assert running.job.idle is None
    assert running.history[-1] == "idle_withdrawn"
    change(sessions, update(Job).values(idle=left))
    assert running.end(EndReason.LEASE_EXPIRED) is Status.QUEUED
    assert running.job.idle is None


def test_webhooks_are_told_before_and_when_it_acts_and_what_was_true_then(sessions: Sessions) -> None:
    a_webhook(sessions, events=[JOB_IDLE])
    a_webhook(sessions, events=["job.ended"])
    running = warned(sessions, idle=STOP | {"action": "pause"})
    said = running.job.idle
    assert running.later(101) == 1
    warning, pause = messages(sessions)
    job = warning["job"]
    assert (warning["event"], job["id"], job["status"]) == ("job.idle", running.lease.job_id, "running")
    assert (warning["idle"], pause["idle"]) == (said, running.job.idle)
    assert warning["idle"]["acted_at"] is None


def test_a_sampler_that_dies_stops_the_clock_and_then_withdraws_the_warning(sessions: Sessions) -> None:
    running = warned(sessions)
    running.pass_time(101)  # past the time of the action, and nothing was measured
    assert running.watch() == 0
    assert running.ending() is None
    running.pass_time(30)
    running.watch()
    running.watch()
    assert running.history == ["idle_warned", "idle_withdrawn"]
    assert running.job.idle is None
    running.samples(range(1, 25))
    assert running.watch() == 0, "the time without samples does not count"


def test_an_attempt_whose_ranks_have_not_started_is_not_idle(sessions: Sessions) -> None:
    running = Running(sessions)
    running.samples(range(1, 500))
    for started_at in (None, func.now() - timedelta(seconds=50)):
        change(sessions, update(Attempt).values(started_at=started_at))
        assert running.watch() == 0


@pytest.mark.parametrize(
    ("cores", "used", "idle"),
    [
        (8, 20.5, 19.5),  # a slot has four cores, and 20 % of a core is 5 % of a slot
        (64, 51, 49),  # a script of one thread would use 3 % of its share: a busy core is a tenth of a slot
    ],
)
def test_a_cpu_slot_is_measured_by_its_share_of_the_host(
    sessions: Sessions, cores: int, used: float, idle: float
) -> None:
    running = Running(sessions, kind="cpu")
    running.samples(range(301, 500), 0)
    assert running.watch() == 0, "its share is not known yet"
    change(sessions, update(Host).values(info=Host.info.op("||")(func.jsonb_build_object("cores", cores))))
    running.samples(range(1, 300), used)
    assert running.watch() == 0
    assert running.later(110, idle) == 1
    assert (running.job.idle or {})["why"] == "its 2 CPU slots are used less than 5 %"


@pytest.mark.parametrize(("ahead", "start_ahead"), [(-300, 0), (300, 0), (86_400, 86_400)])
def test_a_host_whose_clock_is_wrong_is_judged_by_the_time_of_the_database(
    sessions: Sessions, ahead: float, start_ahead: float
) -> None:
    running = Running(sessions)
    with sessions.begin() as session:
        off = func.jsonb_build_object("clock_offset_s", ahead)
        session.execute(update(Host).values(info=Host.info.op("||")(off)))
        session.execute(update(Attempt).values(started_at=Attempt.started_at + timedelta(seconds=start_ahead)))
    running.samples(range(1, 110), ahead=ahead)
    assert running.watch() == 1
    since = datetime.fromisoformat((running.job.idle or {})["since"])
    assert timedelta(seconds=100) < datetime.now(UTC) - since < timedelta(seconds=170)


def test_a_clock_that_is_set_back_brings_no_proof_from_the_future(sessions: Sessions) -> None:
    running = Running(sessions)
    running.samples(range(1, 300), ahead=1000)  # of a clock that was ahead, and nobody knew it
    running.samples(range(1, 110), 80)
    assert running.watch() == 0


def test_a_clock_of_the_database_that_is_set_back_begins_the_watch_again(sessions: Sessions) -> None:
    running = warned(sessions)
    running.pass_time(-10_000)  # what was said and judged lies in the future now
    change(sessions, update(IdleStretch).values(looked_at=func.now() + timedelta(seconds=10_000)))
    assert watch_once(sessions, period_s=15, sample_period_s=1.0) == 1
    assert running.job.idle is None
    running.pass_time(110)
    running.samples(range(1, 110))
    assert running.watch() == 1
    assert running.history == ["idle_warned", "idle_withdrawn", "idle_warned"]


def test_another_worker_goes_on_from_the_rows_until_the_attempt_is_over(sessions: Sessions) -> None:
    """Samples that were judged are not read again: here they are even gone."""
    running = Running(sessions)
    running.samples(range(1, 95))
    running.watch()
    change(sessions, Sample.__table__.delete())
    assert running.later(10) == 1
    running.end(EndReason.COMPLETED)
    running.watch()
    with sessions() as session:
        assert session.scalars(select(IdleStretch)).all() == []


def test_one_worker_at_a_time_looks(sessions: Sessions) -> None:
    running = Running(sessions)
    running.samples(range(1, 110))
    with sessions.begin() as session:
        session.execute(select(func.pg_advisory_xact_lock(idle_watch.LOCK)))
        assert running.watch() == 0
    assert running.watch() == 1

    def looked_at() -> datetime:
        with sessions() as session:
            return session.scalars(select(IdleStretch.looked_at)).one()

    before = looked_at()
    assert watch_once(sessions, period_s=3600, sample_period_s=1.0) == 0
    assert looked_at() == before, "another worker has just looked"


def test_more_attempts_can_be_watched_than_a_statement_has_parameters(sessions: Sessions) -> None:
    now, count = datetime.now(UTC), 70_000
    times = {"since": now, "until": now, "looked_at": now}
    with sessions.begin() as session:
        session.execute(text("SET LOCAL session_replication_role = replica"))  # there need be no such attempts
        idle_watch._store(session, [{"attempt_id": number, "below": 5.0, **times} for number in range(count)])
        assert session.scalar(select(func.count(IdleStretch.attempt_id))) == count
