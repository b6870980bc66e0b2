"""Submitting, looking up and cancelling, on PostgreSQL."""

import math
from concurrent.futures import ThreadPoolExecutor

from sqlalchemy import select

from jobs.db.engine import Sessions
from jobs.db.tables import IdempotencyKey, Job, JobEvent
from jobs.lifecycle.store import add_event, request_cancel, touch
from jobs.lifecycle.submission import Idempotency, write_job
from jobs.model.plan import resolve_plan
from jobs.model.spec import Spec, spec_from
from jobs.model.states import EndReason, EventKind, Status
from tests.integration.jobs import job_rows
from tests.integration.jobs.job_rows import Submission

WHOLE: Spec = spec_from(job_rows.SPEC | {"name": "chips-8gpu", "labels": {"team": "ü'\"\\"}, "priority": 7})


def submit(sessions: Sessions, key: str) -> Submission:
    with sessions.begin() as session:
        return job_rows.submit_once(session, spec_from(job_rows.SPEC), idempotency=Idempotency(key, "a" * 64))


def test_a_submission_writes_the_job_and_its_first_event_when_it_is_committed(sessions: Sessions) -> None:
    with sessions() as session:
        job_rows.submit_once(session, spec_from(job_rows.SPEC), idempotency=Idempotency("k", "a" * 64))
        session.rollback()
    assert [job_rows.count(sessions, table) for table in (Job, JobEvent, IdempotencyKey)] == [0, 0, 0]
    with sessions.begin() as session:
        plan = resolve_plan(WHOLE, None)
        job_id = write_job(session, spec=WHOLE, plan=plan, owner="me").id
    job = job_rows.the_job(sessions, job_id)
    assert spec_from(job.spec) == WHOLE
    assert job.plan == plan.model_dump(mode="json")
    assert (job.name, job.owner, job.status, job.gpus, job.priority) == (WHOLE.name, "me", Status.QUEUED, 2, 7)
    assert (job.labels, job.attempt, job.restarts, job.revision) == ({"team": "ü'\"\\"}, 0, 0, 1)
    assert (job.started_at, job.ended_at, job.end_reason) == (None, None, None)
    assert job_rows.kinds(sessions, job_id) == [EventKind.SUBMITTED]


def test_eight_concurrent_submissions_with_one_key_create_one_job(sessions: Sessions) -> None:
    for round_ in range(3):
        with ThreadPoolExecutor(8) as pool:
            submissions = list(pool.map(lambda _, key=f"k{round_}": submit(sessions, key), range(8)))
        assert len({one.job.id for one in submissions}) == 1
        assert sum(one.created for one in submissions) == 1
        assert job_rows.count(sessions, Job) == round_ + 1


def test_a_queued_job_is_cancelled_at_once_and_only_once(sessions: Sessions) -> None:
    job_id = job_rows.a_job(sessions)
    with sessions() as session:
        request_cancel(session, job_id)
        session.rollback()
    assert job_rows.the_job(sessions, job_id).status is Status.QUEUED
    job = job_rows.cancel(sessions, job_id)
    assert (job.status, job.end_reason) == (Status.CANCELLED, EndReason.CANCELLED)
    assert job.ended_at is not None
    assert job.cancel_requested_at is not None
    again = job_rows.cancel(sessions, job_id)
    assert (again.revision, again.cancel_requested_at) == (job.revision, job.cancel_requested_at)
    assert job_rows.kinds(sessions, job.id) == [EventKind.SUBMITTED, EventKind.CANCEL_REQUESTED, EventKind.ENDED]


def test_nan_and_infinity_are_stored_as_null_and_a_nul_is_replaced(sessions: Sessions) -> None:
    job_id = job_rows.a_job(sessions)
    with sessions.begin() as session:
        touch(session, job_id, summary={"val_loss": math.nan, "inner": {"x": -math.inf}, "epochs_run": 3})
        add_event(session, job_id, EventKind.EPOCH_ENDED, data={"loss": math.inf, "step": 1, "error": "torn\x00file"})
    job = job_rows.the_job(sessions, job_id)
    assert job.summary == {"val_loss": None, "inner": {"x": None}, "epochs_run": 3}
    assert job.revision == 2
    with sessions() as session:
        newest = session.scalars(select(JobEvent.data).order_by(JobEvent.id.desc())).first()
    assert newest == {"loss": None, "step": 1, "error": "torn\ufffdfile"}
