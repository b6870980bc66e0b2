"""What the idle watch does to jobs: a warning, its withdrawal, a pause or an end."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import cast, update
from sqlalchemy.dialects.postgresql import JSONB

from jobs.db.engine import Sessions
from jobs.db.tables import Job, Project
from jobs.insight.studies import control
from jobs.lifecycle import leases, store
from jobs.lifecycle.deliveries import JOB_IDLE
from jobs.model.states import EndReason, Status
from jobs.people.project_admission import Applicant
from jobs.scheduling.queue import standings
from tests.integration.jobs import job_rows
from tests.integration.jobs.idle_jobs import FOR_S, STOP, Run, Running, acted, warned
from tests.integration.jobs.test_outbox import a_webhook, messages
from worker.attempt.ending import Ending


@pytest.fixture
def run(sessions: Sessions) -> Run:
    return lambda **fields: Running(sessions, **{"idle": STOP} | fields)


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
    job_rows.cancel(sessions, job.id)
    assert running.job.revision == job.revision, "a job that is over does not change"
    assert running.history == ["idle_warned", "idle_acted"]


@pytest.mark.parametrize("reason", [EndReason.LEASE_EXPIRED, EndReason.PREEMPTED, EndReason.COMPLETED])
def test_a_job_that_is_to_stop_is_not_restarted_whatever_its_attempt_dies_of(run: Run, reason: EndReason) -> None:
    """It has succeeded if it got to its end first."""
    running, is_done = acted(run, "stop"), reason is EndReason.COMPLETED
    assert running.end(reason, "lost") is (Status.SUCCEEDED if is_done else Status.CANCELLED)
    assert running.job.end_reason is (reason if is_done else EndReason.IDLE)
    assert is_done or running.job.error == "its 2 GPUs were below 5 % for 200 seconds"


@pytest.mark.parametrize("by", ["itself", "its study", "cancel"])
def test_pause_queues_the_job_and_says_why_until_it_is_resumed_or_cancelled(
    run: Run, sessions: Sessions, by: str
) -> None:
    running = acted(run, "pause")
    why = "its 2 GPUs were below 5 % for 200 seconds"
    assert running.ending() == Ending(EndReason.PAUSED, why)
    assert running.history == ["idle_warned", "idle_acted", "pause_requested"]
    assert running.end(EndReason.PAUSED, why) is Status.QUEUED
    job = running.job
    assert job.paused_at is not None
    assert job.idle is not None
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


def test_a_cancel_wins_over_a_stop(run: Run, sessions: Sessions) -> None:
    running = acted(run, "stop")
    job_rows.cancel(sessions, running.lease.job_id)
    assert running.ending() == Ending(EndReason.CANCELLED)
    assert running.end(EndReason.IDLE) is Status.CANCELLED
    assert running.job.end_reason is EndReason.CANCELLED


def test_warn_only_warns(run: Run) -> None:
    running = run(idle=STOP | {"action": "warn"})
    running.samples(range(1, 210))
    assert running.watch() == 1
    assert (running.job.idle or {})["acts_at"] is None
    assert running.ending() is None


def set_default(sessions: Sessions, policy: dict[str, Any] | None) -> None:
    with sessions.begin() as session:
        session.execute(update(Project).values(idle=policy))


def set_spec(sessions: Sessions, policy: dict[str, Any]) -> None:
    with sessions.begin() as session:
        session.execute(update(Job).values(spec=Job.spec.op("||")(cast({"idle": policy}, JSONB))))


def test_a_project_says_it_for_jobs_that_do_not(run: Run, sessions: Sessions) -> None:
    running = run(idle=None)
    running.samples(range(1, 110))
    assert running.watch() == 0
    set_default(sessions, STOP | {"action": "pause"})
    assert running.watch() == 1
    assert (running.job.idle or {})["action"] == "pause"
    for withdraw in (
        lambda: set_default(sessions, None),
        lambda: set_spec(sessions, STOP | {"for_s": 10_000}),  # what the spec says comes first
    ):
        withdraw()
        assert running.watch() == 1
        assert running.job.idle is None
        set_default(sessions, STOP | {"action": "pause"})
        running.watch()
    assert running.history == ["idle_warned", "idle_withdrawn"] * 2


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


def test_webhooks_are_told_before_and_when_it_acts_and_what_was_true_then(run: Run, sessions: Sessions) -> None:
    a_webhook(sessions, events=[JOB_IDLE])
    a_webhook(sessions, events=["job.ended"])
    running = warned(run, idle=STOP | {"action": "pause"})
    said = running.job.idle
    running.pass_time(101)
    running.samples(range(1, 102))
    assert running.watch() == 1
    warning, pause = messages(sessions)
    job = warning["job"]
    assert (warning["event"], job["id"], job["status"]) == ("job.idle", running.lease.job_id, "running")
    assert (warning["idle"], pause["idle"]) == (said, running.job.idle)
    assert warning["idle"]["acted_at"] is None
