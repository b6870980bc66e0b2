"""Slots that nobody uses: by stored samples a job is warned of, paused or ended, or left alone."""

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Engine, event, func, insert, select, update

from jobs.db.engine import Sessions
from jobs.db.tables import Attempt, Host, IdleStretch, Job, JobEvent, Project, Sample, WebhookDelivery
from jobs.insight.studies import control
from jobs.lifecycle import leases, store
from jobs.lifecycle.deliveries import JOB_IDLE
from jobs.lifecycle.store import get_job
from jobs.model.states import EndReason, EventKind, Status
from jobs.outward.webhooks import outbox
from jobs.people.project_admission import Applicant
from jobs.scheduling.queue import standings
from jobs.telemetry import idle_watch
from jobs.telemetry.idle_watch import watch_once
from tests.integration.jobs import job_rows
from tests.integration.jobs.test_outbox import a_webhook
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


@pytest.fixture
def run(sessions: Sessions) -> Run:
    return lambda **fields: Running(sessions, **{"idle": STOP} | fields)


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


def test_a_job_is_warned_of_before_anything_is_done(run: Run) -> None:
    running = run()
    running.samples(range(1, 95))
    assert running.watch() == 0
    assert running.job.idle is None
    running.pass_time(10)
    running.samples(range(1, 11))
    before = running.job.revision
    assert running.watch() == 1
    job = running.job
    assert job.idle is not None
    assert job.revision > before, "who polls sees it"
    said = {name: job.idle[name] for name in ("attempt", "action", "below", "for_s", "acted_at", "why")}
    assert said == {
        "attempt": 1, "action": "stop", "below": 5, "for_s": FOR_S, "acted_at": None,
        "why": "its 2 GPUs are used less than 5 %",
    }  # fmt: skip
    since, acts_at = (datetime.fromisoformat(job.idle[name]) for name in ("since", "acts_at"))
    assert timedelta(seconds=FOR_S) <= acts_at - since <= timedelta(seconds=FOR_S + 60)
    assert running.watch() == 0, "once"
    assert running.history == ["idle_warned"]
    assert running.ending() is None


def test_stop_ends_the_job_and_says_why(run: Run, sessions: Sessions) -> None:
    running = acted(run, "stop")
    why = "its 2 GPUs were below 5 % for 200 seconds"
    assert running.ending() == Ending(EndReason.IDLE, why)
    assert running.watch() == 0, "once"
    assert running.end(EndReason.IDLE, why) is Status.CANCELLED
    job = running.job
    assert (job.status, job.end_reason, job.error, job.idle) == (Status.CANCELLED, EndReason.IDLE, why, None)
    with sessions.begin() as session:
        store.request_cancel(session, job.id)
    assert running.job.revision == job.revision, "a job that is over does not change"
    assert running.history == ["idle_warned", "idle_acted"]


@pytest.mark.parametrize("reason", [EndReason.LEASE_EXPIRED, EndReason.RANK_FAILED, EndReason.PREEMPTED])
def test_a_job_that_is_to_stop_is_not_restarted_whatever_its_attempt_dies_of(run: Run, reason: EndReason) -> None:
    running = acted(run, "stop")
    assert running.end(reason, "lost") is Status.CANCELLED
    assert (running.job.end_reason, running.job.error) == (EndReason.IDLE, "its 2 GPUs were below 5 % for 200 seconds")


def test_an_attempt_that_got_to_its_end_first_has_succeeded(run: Run) -> None:
    running = acted(run, "stop")
    assert running.end(EndReason.COMPLETED) is Status.SUCCEEDED


def test_pause_queues_the_job_and_says_why_until_it_is_resumed(run: Run, sessions: Sessions) -> None:
    running = acted(run, "pause")
    why = "its 2 GPUs were below 5 % for 200 seconds"
    assert running.ending() == Ending(EndReason.PAUSED, why)
    assert running.history == ["idle_warned", "idle_acted", "pause_requested"]
    assert running.end(EndReason.PAUSED, why) is Status.QUEUED
    job = running.job
    assert job.paused_at is not None
    assert job.idle is not None
    assert (job.idle["why"], job.idle["acted_at"]) == (why, job.paused_at.isoformat().replace("+00:00", "Z"))
    with sessions.begin() as session:
        assert standings(session, [job.id], host_timeout_s=30)[job.id].reason == f"paused: {why}"
        store.resume(session, job.id)
    assert (running.job.paused_at, running.job.idle) == (None, None)


def test_a_study_that_is_resumed_resumes_it_too(run: Run, sessions: Sessions) -> None:
    running = acted(run, "pause")
    running.end(EndReason.PAUSED)
    study_id, _ = job_rows.a_study(sessions, jobs=1)
    with sessions.begin() as session:
        session.execute(update(Job).where(Job.id == running.lease.job_id).values(study_id=study_id, study_cell=0))
        session.execute(update(Job).where(Job.id == running.lease.job_id).values(study_repeat=1))
    with sessions.begin() as session:
        control.resume(session, study_id, by=Applicant("ada"))
    assert (running.job.paused_at, running.job.idle) == (None, None)


def test_a_job_that_is_cancelled_while_it_is_paused_is_only_cancelled(run: Run, sessions: Sessions) -> None:
    running = acted(run, "pause")
    running.end(EndReason.PAUSED)
    with sessions.begin() as session:
        store.request_cancel(session, running.lease.job_id)
    assert (running.job.end_reason, running.job.idle) == (EndReason.CANCELLED, None)


def test_a_cancel_wins_over_a_stop(run: Run, sessions: Sessions) -> None:
    running = acted(run, "stop")
    with sessions.begin() as session:
        store.request_cancel(session, running.lease.job_id)
    assert running.ending() == Ending(EndReason.CANCELLED)
    assert running.end(EndReason.IDLE) is Status.CANCELLED
    assert running.job.end_reason is EndReason.CANCELLED


def test_warn_only_warns_and_at_the_whole_time(run: Run) -> None:
    running = run(idle=STOP | {"action": "warn"})
    running.samples(range(1, 190))
    assert running.watch() == 0
    running.pass_time(20)
    running.samples(range(1, 21))
    assert running.watch() == 1
    assert (running.job.idle or {})["acts_at"] is None
    running.pass_time(100)
    running.samples(range(1, 101))
    assert running.watch() == 0
    assert running.ending() is None
    assert running.history == ["idle_warned"]


def test_a_use_of_one_slot_withdraws_the_warning(run: Run) -> None:
    running = warned(run)
    running.pass_time(101)
    running.samples(range(1, 102), ranks=[0])
    running.samples([*range(1, 50), *range(51, 102)], ranks=[1])
    running.samples([50], 60, ranks=[1])
    assert running.watch() == 1
    assert running.job.idle is None
    assert running.history == ["idle_warned", "idle_withdrawn"]
    assert running.watch() == 0
    running.pass_time(60)
    running.samples(range(1, 61))
    assert running.watch() == 1, "idle again for long enough"
    assert running.history == ["idle_warned", "idle_withdrawn", "idle_warned"]


def test_no_samples_are_no_proof(run: Run) -> None:
    assert run().watch() == 0


def test_unknown_figures_are_no_proof(run: Run) -> None:
    running = run()
    running.samples(range(1, 500), None)
    assert running.watch() == 0
    assert running.job.idle is None


def test_one_slot_without_samples_is_no_proof(run: Run) -> None:
    running = run()
    running.samples(range(1, 500), ranks=[0])
    assert running.watch() == 0


def test_a_sampler_that_dies_stops_the_clock_and_then_withdraws_the_warning(run: Run) -> None:
    running = warned(run)
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


def test_an_attempt_whose_ranks_have_not_started_is_not_idle(run: Run, sessions: Sessions) -> None:
    running = run()
    running.samples(range(1, 500))
    with sessions.begin() as session:
        session.execute(update(Attempt).values(started_at=None))
    assert running.watch() == 0
    with sessions.begin() as session:
        session.execute(update(Attempt).values(started_at=func.now() - timedelta(seconds=50)))
    assert running.watch() == 0


def test_a_cpu_slot_is_measured_by_its_share_of_the_host(run: Run, sessions: Sessions) -> None:
    """Two slots on eight cores: a slot has four of them, and 20 % of a core is 5 % of a slot."""
    running = run(kind="cpu")
    with sessions.begin() as session:
        session.execute(update(Host).values(info=Host.info.op("||")(func.jsonb_build_object("cores", 8))))
    running.samples(range(1, 300), 20.5)
    assert running.watch() == 0
    running.pass_time(110)
    running.samples(range(1, 111), 19.5)
    assert running.watch() == 1
    assert (running.job.idle or {})["why"] == "its 2 CPU slots are used less than 5 %"


def test_a_busy_core_is_a_tenth_of_a_cpu_slot_however_many_cores_that_has(run: Run, sessions: Sessions) -> None:
    """Two slots on 64 cores: a script of one thread would use 3 % of its share."""
    running = run(kind="cpu")
    with sessions.begin() as session:
        session.execute(update(Host).values(info=Host.info.op("||")(func.jsonb_build_object("cores", 64))))
    running.samples(range(1, 300), 51)
    assert running.watch() == 0
    running.pass_time(110)
    running.samples(range(1, 111), 49)
    assert running.watch() == 1


def test_a_cpu_slot_of_unknown_share_is_never_idle(run: Run) -> None:
    running = run(kind="cpu")
    running.samples(range(1, 500), 0)
    assert running.watch() == 0


@pytest.mark.parametrize("ahead", [-300, 300])
def test_a_host_whose_clock_is_wrong_is_judged_by_the_time_of_the_database(
    run: Run, sessions: Sessions, ahead: float
) -> None:
    running = run()
    with sessions.begin() as session:
        off = func.jsonb_build_object("clock_offset_s", ahead)
        session.execute(update(Host).values(info=Host.info.op("||")(off)))
    running.samples(range(1, 110), ahead=ahead)
    assert running.watch() == 1
    since = datetime.fromisoformat((running.job.idle or {})["since"])
    assert timedelta(seconds=100) < datetime.now(UTC) - since < timedelta(seconds=170)


def test_a_start_by_a_clock_that_is_far_ahead_hides_no_idle_slots(run: Run, sessions: Sessions) -> None:
    running = run()
    with sessions.begin() as session:
        off = func.jsonb_build_object("clock_offset_s", 86_400)
        session.execute(update(Host).values(info=Host.info.op("||")(off)))
        session.execute(update(Attempt).values(started_at=Attempt.started_at + timedelta(days=1)))
    running.samples(range(1, 110), ahead=86_400)
    assert running.watch() == 1


def test_a_clock_that_is_set_back_brings_no_proof_from_the_future(run: Run, sessions: Sessions) -> None:
    running = run()
    running.samples(range(1, 300), ahead=1000)  # of a clock that was ahead, and nobody knew it
    running.samples(range(1, 110), 80)
    assert running.watch() == 0


def test_a_clock_of_the_database_that_is_set_back_begins_the_watch_again(run: Run, sessions: Sessions) -> None:
    running = warned(run)
    running.pass_time(-10_000)  # what was said and judged lies in the future now
    with sessions.begin() as session:
        session.execute(update(IdleStretch).values(looked_at=func.now() + timedelta(seconds=10_000)))
    assert watch_once(sessions, period_s=15, sample_period_s=1.0) == 1
    assert running.job.idle is None
    running.pass_time(110)
    running.samples(range(1, 110))
    assert running.watch() == 1
    assert running.history == ["idle_warned", "idle_withdrawn", "idle_warned"]


def test_only_jobs_that_say_so_are_watched(run: Run) -> None:
    running = run(idle=None)
    running.samples(range(1, 500))
    assert running.watch() == 0


def set_default(sessions: Sessions, policy: dict[str, Any] | None) -> None:
    with sessions.begin() as session:
        session.execute(update(Project).values(idle=policy))


def test_a_project_says_it_for_jobs_that_do_not(run: Run, sessions: Sessions) -> None:
    set_default(sessions, STOP | {"action": "pause"})
    running = run(idle=None)
    running.samples(range(1, 110))
    assert running.watch() == 1
    assert (running.job.idle or {})["action"] == "pause"
    set_default(sessions, None)
    assert running.watch() == 1
    assert running.job.idle is None
    assert running.history == ["idle_warned", "idle_withdrawn"]


def test_what_a_spec_says_comes_before_its_project(run: Run, sessions: Sessions) -> None:
    set_default(sessions, STOP | {"for_s": 60})
    running = run(idle=STOP | {"for_s": 10_000})
    running.samples(range(1, 500))
    assert running.watch() == 0


def test_a_limit_that_is_tightened_gives_notice_first(run: Run, sessions: Sessions) -> None:
    set_default(sessions, STOP | {"for_s": 100_000})
    running = run(idle=None)
    running.samples(range(1, 500))
    assert running.watch() == 0
    set_default(sessions, STOP)
    assert running.watch() == 1
    acts_at = datetime.fromisoformat((running.job.idle or {})["acts_at"])
    assert acts_at > datetime.now(UTC) + timedelta(seconds=FOR_S / 2 - 60)
    assert running.ending() is None


@pytest.mark.parametrize("request_end", [store.pause, store.request_cancel])
def test_a_job_that_a_person_ends_is_left_alone(run: Run, sessions: Sessions, request_end: Any) -> None:
    running = warned(run)
    with sessions.begin() as session:
        request_end(session, running.lease.job_id)
    running.pass_time(101)
    running.samples(range(1, 102))
    assert running.watch() == 0
    running.end(EndReason.PAUSED)
    assert running.job.idle is None, "the warning ends with its attempt"


def test_a_warning_of_an_attempt_that_is_over_is_gone(run: Run) -> None:
    running = warned(run)
    assert running.end(EndReason.LEASE_EXPIRED) is Status.QUEUED
    assert running.job.idle is None
    assert running.watch() == 0


@pytest.mark.parametrize("action", ["stop", "pause"])
def test_what_was_done_to_an_earlier_attempt_ends_no_later_one(run: Run, sessions: Sessions, action: str) -> None:
    """A process of an older version requeues the job and leaves the notice on its row."""
    running = acted(run, action)
    left = running.job.idle
    with sessions.begin() as session:
        session.execute(update(Job).values(idle=None, paused_at=None))
    running.end(EndReason.LEASE_EXPIRED)
    with sessions.begin() as session:
        leases.release(session, running.lease.attempt_id)
        session.execute(update(Job).values(idle=left))
    running.lease = job_rows.an_attempt(sessions, running.lease.job_id)
    assert running.lease.number == 2
    assert running.ending() is None
    with sessions.begin() as session:
        leases.first_rank_started(session, running.lease, datetime.now(UTC))
    assert running.watch() == 1
    assert running.job.idle is None
    assert running.history[-1] == "idle_withdrawn"
    with sessions.begin() as session:
        session.execute(update(Job).values(idle=left))
    assert running.end(EndReason.LEASE_EXPIRED) is Status.QUEUED
    assert running.job.idle is None


def test_another_worker_goes_on_from_the_rows(run: Run, sessions: Sessions) -> None:
    """Samples that were judged are not read again: here they are even gone."""
    running = run()
    running.samples(range(1, 95))
    running.watch()
    with sessions.begin() as session:
        session.execute(Sample.__table__.delete())
    running.pass_time(10)
    running.samples(range(1, 11))
    assert running.watch() == 1


def test_one_worker_at_a_time_looks(run: Run, sessions: Sessions) -> None:
    running = run()
    running.samples(range(1, 110))
    with sessions.begin() as session:
        session.execute(select(func.pg_advisory_xact_lock(idle_watch.LOCK)))
        assert running.watch() == 0
    assert running.watch() == 1
    assert watch_once(sessions, period_s=3600, sample_period_s=1.0) == 0
    with sessions() as session:
        before = session.scalars(select(IdleStretch.looked_at)).one()
    watch_once(sessions, period_s=3600, sample_period_s=1.0)
    with sessions() as session:
        assert session.scalars(select(IdleStretch.looked_at)).one() == before, "another worker has just looked"


def test_nothing_is_kept_of_attempts_that_are_over(run: Run, sessions: Sessions) -> None:
    running = warned(run)
    running.end(EndReason.COMPLETED)
    running.watch()
    with sessions() as session:
        assert session.scalars(select(IdleStretch)).all() == []


def messages(sessions: Sessions) -> list[dict[str, Any]]:
    """The messages of all deliveries, as they are sent."""
    payloads = []
    while True:
        with sessions.begin() as session:
            claimed = outbox.claim(session, lease_s=600)
        if claimed is None:
            return payloads
        payloads.append(json.loads(json.dumps(claimed.payload)))


def test_webhooks_are_told_before_it_acts_and_what_was_true_then(run: Run, sessions: Sessions) -> None:
    a_webhook(sessions, events=[JOB_IDLE])
    a_webhook(sessions, events=["job.ended"])
    running = warned(run)
    said = running.job.idle
    running.pass_time(20)
    running.samples(range(1, 21), 90)
    assert running.watch() == 1
    assert running.job.idle is None
    (message,) = messages(sessions)
    assert (message["event"], message["job"]["id"], message["job"]["status"]) == (
        "job.idle",
        running.lease.job_id,
        "running",
    )
    assert message["idle"] == said


def test_webhooks_are_told_of_a_pause(run: Run, sessions: Sessions) -> None:
    a_webhook(sessions, events=[JOB_IDLE])
    running = acted(run, "pause")
    with sessions() as session:
        assert session.scalar(select(func.count(WebhookDelivery.id))) == 2
    warning, pause = messages(sessions)
    assert (warning["idle"]["acted_at"], pause["idle"]) == (None, running.job.idle)


def test_many_jobs_cost_as_many_statements_as_one(run: Run, sessions: Sessions, engine: Engine) -> None:
    running = run()

    def cost() -> int:
        """How many statements a look takes, besides the one that reads samples, of which there is one too."""
        statements: list[str] = []
        count = partial(_append_statement, statements)
        event.listen(engine, "before_cursor_execute", count)
        try:
            assert running.watch() == 0
        finally:
            event.remove(engine, "before_cursor_execute", count)
        return len(statements)

    of_one = cost()
    for number in range(20):
        job_rows.a_host(sessions, f"h{number}", kind="gpu")
        job_rows.an_attempt(sessions, job_rows.a_job(sessions, idle=STOP), host=f"h{number}")
    with sessions.begin() as session:
        session.execute(update(Attempt).values(started_at=func.now()))
    assert cost() == of_one
    with sessions() as session:
        assert session.scalar(select(func.count(IdleStretch.attempt_id))) == 21


def test_more_attempts_can_be_watched_than_a_statement_has_parameters(run: Run, sessions: Sessions) -> None:
    attempt_id = run().lease.attempt_id
    now = datetime.now(UTC)
    row = {"attempt_id": attempt_id, "below": 5.0, "since": now, "until": now, "looked_at": now}
    with sessions.begin() as session:
        idle_watch._store(session, [row] * 70_000)
        assert session.scalars(select(IdleStretch.attempt_id)).all() == [attempt_id]


def _append_statement(
    statements: list[str], _connection: object, _cursor: object, statement: str, *_others: object
) -> None:
    statements.append(statement)
