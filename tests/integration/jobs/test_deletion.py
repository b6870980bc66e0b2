"""Deleting jobs: which rows go at once, which bit by bit, what refuses it, and what is done again after a crash."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import delete, func, select, text, update
from sqlalchemy.exc import OperationalError

from jobs.db.engine import Sessions
from jobs.db.tables import (
    Allocation,
    DeletedJob,
    IdempotencyKey,
    Job,
    LogLine,
    MetricBlock,
    MetricPoint,
    Mirror,
    ProjectUsage,
    Rollup,
    Sample,
    Slot,
    Webhook,
    WebhookDelivery,
)
from jobs.lifecycle import deletion, leases
from jobs.lifecycle.named_jobs import lock_named, problems_of_named
from jobs.lifecycle.store import JobInUse, JobNotEnded, JobNotFound, locked_job
from jobs.model.spec import spec_from
from jobs.model.states import EndReason, Status
from jobs.telemetry import ingest
from jobs.telemetry.ingest import LogRow, MetricRow, SampleRow
from tests.integration.api.starting_rows import seconds
from tests.integration.jobs import job_rows
from tests.integration.jobs.job_rows import tables_with
from tests.integration.jobs.test_races import at_once
from tests.integration.jobs.writing import change

SERIES: tuple[type[Any], ...] = (LogLine, MetricPoint, MetricBlock, Sample, Rollup)


def add_series(sessions: Sessions, job_id: str, *, lines: int = 3) -> None:
    """A few rows in each table of series, and so many lines."""
    with sessions.begin() as session:
        ingest.store_logs(session, [LogRow(job_id, 1, 0, seconds(i), f"line {i}") for i in range(lines)])
        ingest.store_metrics(session, [MetricRow(job_id, "loss", 0, i, 1, 1, seconds(i), 0.5) for i in range(3)])
        ingest.store_samples(session, [SampleRow(job_id, 1, 0, seconds(i), "ha", 0, i, 1, {}) for i in range(3)])
        block = {"rank": 0, "attempt": 1, "first_step": 9, "last_step": 9}
        packed = dict.fromkeys(("epochs", "times", "numbers"), b"")
        session.add(MetricBlock(job_id=job_id, name="loss", **block, **packed))
        at = {"first_at": func.now(), "last_at": func.now()}
        session.add(Rollup(job_id=job_id, source="metric", name="loss", rank=0, attempt=0, bin=0, count=1, **at))


def an_ended_job(sessions: Sessions, *, lines: int = 3) -> str:
    """A job that ran on host `ha`, gave its slots back, and left rows in many tables."""
    lease = job_rows.a_running_attempt(sessions)
    with sessions.begin() as session:
        leases.end(session, lease, EndReason.COMPLETED)
        leases.release(session, lease.attempt_id)
        session.add(IdempotencyKey(owner="me", key="k", request_sha256="0" * 64, job_id=lease.job_id))
        session.add(Mirror(job_id=lease.job_id))
        session.add(Webhook(id="hook", owner="me", url="https://x", events=["job.ended"], secret="s"))
        session.flush()
        for subject_id, event in ((lease.job_id, "job.ended"), (lease.job_id, "job.alert"), ("other", "job.ended")):
            session.add(WebhookDelivery(webhook_id="hook", event=event, subject_id=subject_id))
    add_series(sessions, lease.job_id, lines=lines)
    return lease.job_id


def delete_job(sessions: Sessions, job_id: str) -> None:
    with sessions.begin() as session:
        deletion.delete_job(session, locked_job(session, job_id))


def remove_rows(sessions: Sessions) -> int:
    """All that are due; says in how many batches."""
    for number in range(10**6):
        with sessions.begin() as session:
            if not deletion.remove_rows(session):
                return number
    raise AssertionError


def test_all_rows_of_a_job_go_and_its_gpu_hours_stay(sessions: Sessions) -> None:
    job_rows.a_host(sessions)
    kept, job_id = job_rows.a_job_that_is(sessions, Status.FAILED), an_ended_job(sessions)
    add_series(sessions, kept)
    with_kept = tables_with(sessions, kept)
    with sessions() as session:
        used = session.scalar(select(func.sum(ProjectUsage.slot_seconds)))
    assert {"attempts", "job_events", "job_texts", "mirrors", "idempotency_keys"} <= set(tables_with(sessions, job_id))
    delete_job(sessions, job_id)
    kept_of_it = ["deleted_attempts", "deleted_jobs"]
    assert tables_with(sessions, job_id) == [*kept_of_it, *sorted(table.__tablename__ for table in SERIES)]
    with sessions() as session:
        assert list(session.scalars(select(WebhookDelivery.subject_id))) == ["other"]
        assert session.scalar(select(func.sum(ProjectUsage.slot_seconds))) == used
    remove_rows(sessions)
    assert tables_with(sessions, job_id) == kept_of_it
    assert tables_with(sessions, kept) == with_kept


def test_many_rows_go_in_batches_and_a_batch_that_was_interrupted_is_done_again(sessions: Sessions) -> None:
    job_rows.a_host(sessions)
    job_id = an_ended_job(sessions, lines=12_000)
    delete_job(sessions, job_id)
    for commits, left in ((True, 7000), (False, 7000), (True, 2000)):
        with sessions() as session:
            assert deletion.remove_rows(session)
            session.commit() if commits else session.rollback()
        assert job_rows.count(sessions, LogLine) == left
    assert remove_rows(sessions) == 1
    assert [job_rows.count(sessions, table) for table in SERIES] == [0] * 5
    assert remove_rows(sessions) == 0


def test_what_somebody_still_wrote_goes_a_day_later(sessions: Sessions) -> None:
    job_rows.a_host(sessions)
    job_id = an_ended_job(sessions)
    delete_job(sessions, job_id)
    assert remove_rows(sessions) == 1
    add_series(sessions, job_id)  # by a sampler that had read the lease before
    assert remove_rows(sessions) == 0
    with sessions.begin() as session:
        past = {name: getattr(DeletedJob, name) - timedelta(days=1.1) for name in ("deleted_at", "rows_due_at")}
        session.execute(update(DeletedJob).values(past))
    assert remove_rows(sessions) == 1
    assert tables_with(sessions, job_id) == ["deleted_attempts", "deleted_jobs"]
    with sessions.begin() as session:
        assert session.scalar(select(DeletedJob.rows_due_at)) is None
        deletion.forget(session, keep_days=2)
        assert deletion.deleted_among(session, [job_id, "other"]) == {job_id}
        deletion.forget(session, keep_days=1)
        assert deletion.deleted_among(session, [job_id]) == set()


def test_of_two_deletions_at_once_one_finds_the_job(sessions: Sessions) -> None:
    job_rows.a_host(sessions)
    job_id = an_ended_job(sessions)

    def attempt() -> str:
        try:
            delete_job(sessions, job_id)
        except JobNotFound:
            return "not found"
        return "deleted"

    assert sorted(at_once([attempt] * 8)) == ["deleted"] + ["not found"] * 7
    assert job_rows.count(sessions, DeletedJob) == 1


def test_a_submission_that_names_the_job_and_its_deletion_take_turns(sessions: Sessions) -> None:
    first, second = (job_rows.a_job_that_is(sessions, Status.SUCCEEDED) for _ in range(2))
    model = {"name": "lenet5", "weights": f"job:{first}"}
    starting = job_rows.a_job(sessions, model=model)
    with pytest.raises(JobInUse, match=f"job {starting} starts from its weights"):
        delete_job(sessions, first)
    spec = spec_from(job_rows.SPEC | {"after": [second]})
    with sessions.begin() as submitting:
        assert problems_of_named(spec, lock_named(submitting, [spec])) == []
        with sessions() as deleting:
            deleting.execute(text("SET LOCAL lock_timeout = '100ms'"))
            with pytest.raises(OperationalError, match="lock timeout"):
                locked_job(deleting, second)
    delete_job(sessions, second)
    with sessions.begin() as submitting:
        (problem,) = problems_of_named(spec, lock_named(submitting, [spec]))
        assert "there is no such job" in problem.message


def _waiting(sessions: Sessions) -> tuple[str, str]:
    job_id = job_rows.a_job_that_is(sessions, Status.FAILED)
    waiting = job_rows.a_job(sessions)
    with sessions.begin() as session:  # a worker of an older version ended the job
        session.execute(text("INSERT INTO job_waits VALUES (:waiting, :on)"), {"waiting": waiting, "on": job_id})
    return job_id, f"job {waiting} waits for it"


def _of_study(sessions: Sessions) -> tuple[str, str]:
    study_id, (job_id, _) = job_rows.a_study(sessions)
    change(sessions, update(Job).values(status=Status.FAILED, ended_at=func.now()))
    return job_id, f"it belongs to study {study_id}"


def _with_slots(sessions: Sessions) -> tuple[str, str]:
    lease = job_rows.a_running_attempt(sessions)
    with sessions.begin() as session:
        leases.end(session, lease, EndReason.COMPLETED)
        leases.quarantine(session, lease.attempt_id, host="ha")
    return lease.job_id, "host ha has not released its slots"


def _with_nodes(sessions: Sessions) -> tuple[str, str]:
    job_id = job_rows.a_job_that_is(sessions, Status.CANCELLED)
    with sessions.begin() as session:
        session.add(Allocation(job_id=job_id, number=1, pool="gpus", shape={}, gpus=1))
    return job_id, "the pool gpus has not given back its nodes"


@pytest.mark.parametrize("needed", [_waiting, _of_study, _with_slots, _with_nodes])
def test_a_job_that_something_needs_stays(sessions: Sessions, needed: Callable[[Sessions], tuple[str, str]]) -> None:
    job_rows.a_host(sessions)
    job_id, why = needed(sessions)
    before = tables_with(sessions, job_id)
    with pytest.raises(JobInUse, match=f"job {job_id} cannot be deleted: {why}"):
        delete_job(sessions, job_id)
    assert tables_with(sessions, job_id) == before
    change(sessions, delete(Slot))


@pytest.mark.parametrize("status", [Status.QUEUED, Status.LAUNCHING, Status.RUNNING])
def test_a_job_that_has_not_ended_stays(sessions: Sessions, status: Status) -> None:
    job_id = job_rows.a_job_that_is(sessions, status)
    with pytest.raises(JobNotEnded, match=f"job {job_id} is {status}: it can be deleted when it has ended"):
        delete_job(sessions, job_id)
    assert job_rows.the_job(sessions, job_id).status == status
