"""The one writer of a status refuses stale leases and illegal changes."""

import dataclasses
from uuid import uuid4

import pytest

from jobs.db.engine import Sessions
from jobs.db.tables import Job
from jobs.lifecycle.store import Lease, StaleTransition, transition
from jobs.model.states import NEXT, EndReason, Status
from tests.integration.jobs import job_rows


def all_columns(job: Job) -> dict[str, object]:
    return {column.name: getattr(job, column.key) for column in Job.__table__.columns}


@pytest.mark.parametrize("at", Status)
def test_only_the_transitions_of_the_table_are_made(sessions: Sessions, at: Status) -> None:
    for to in Status:
        job_id = job_rows.a_job_that_is(sessions, at)
        before = job_rows.the_job(sessions, job_id)
        with sessions.begin() as session:
            if to in NEXT[at]:
                transition(session, job_id, to)
            else:
                with pytest.raises(StaleTransition):
                    transition(session, job_id, to, error="must not be seen")
        after = job_rows.the_job(sessions, job_id)
        if to in NEXT[at]:
            assert (after.status, after.revision) == (to, before.revision + 1)
        else:
            assert all_columns(after) == all_columns(before)


def test_an_unknown_job_makes_no_transition(sessions: Sessions) -> None:
    with sessions.begin() as session, pytest.raises(StaleTransition):
        transition(session, "nothere", Status.LAUNCHING)


def stale_leases(sessions: Sessions, lease: Lease) -> list[Lease]:
    """Leases that look like `lease` and are not good."""
    job_rows.a_host(sessions, "hb")
    other_lease = job_rows.an_attempt(sessions, job_rows.a_job(sessions), host="hb")
    return [
        dataclasses.replace(lease, token=str(uuid4())),
        dataclasses.replace(lease, attempt_id=lease.attempt_id + 1000),
        dataclasses.replace(lease, attempt_id=other_lease.attempt_id),
        other_lease,  # good, but of another job
    ]


def test_a_lease_that_is_not_the_jobs_own_writes_nothing(sessions: Sessions) -> None:
    lease = job_rows.a_claimed_attempt(sessions)
    before = all_columns(job_rows.the_job(sessions, lease.job_id))
    for stale in stale_leases(sessions, lease):
        with sessions.begin() as session, pytest.raises(StaleTransition):
            transition(session, lease.job_id, Status.RUNNING, lease=stale)
    assert all_columns(job_rows.the_job(sessions, lease.job_id)) == before
    with sessions.begin() as session:
        transition(session, lease.job_id, Status.RUNNING, lease=lease)


def test_the_lease_of_an_ended_attempt_writes_nothing(sessions: Sessions) -> None:
    old = job_rows.a_running_attempt(sessions)
    job_rows.end_attempt(sessions, old, EndReason.LEASE_EXPIRED)
    job_rows.an_attempt(sessions, old.job_id)  # the job is launching again
    with sessions.begin() as session, pytest.raises(StaleTransition):
        transition(session, old.job_id, Status.RUNNING, lease=old)
    assert job_rows.the_job(sessions, old.job_id).status is Status.LAUNCHING
