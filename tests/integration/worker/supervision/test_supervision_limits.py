"""A running attempt has the time limit that its job has now."""

import time
from typing import Any

from jobs.lifecycle import store
from jobs.lifecycle.store import locked_job
from jobs.model.job_changes import changes_from
from jobs.model.states import EndReason, Status
from jobs.people import job_changes
from jobs.people.project_admission import Applicant
from tests.integration.jobs import job_rows
from tests.integration.worker.supervision.conftest import Run, Supervised, short_limit_s, stored_rows
from tests.waiting import until


def change(supervised: Supervised, **fields: Any) -> None:
    with supervised.sessions.begin() as session:
        job = locked_job(session, supervised.lease.job_id)
        assert job_changes.change(session, job, changes_from(fields), by=Applicant("ada"))


def test_a_limit_that_has_passed_when_it_is_set_ends_the_attempt(run: Run) -> None:
    supervised = run()
    supervised.wait_for_steps()
    change(supervised, time_limit_s=3600)
    change(supervised, time_limit_s=0.5)
    assert supervised.wait_for_end() is EndReason.TIME_LIMIT
    assert supervised.attempt.error == "still running after its time limit of 0.5 s"
    job = job_rows.the_job(supervised.sessions, supervised.lease.job_id)
    assert (job.status, job.end_reason) == (Status.FAILED, EndReason.TIME_LIMIT)


def test_an_attempt_goes_on_after_its_first_limit_if_that_was_lengthened_or_removed(run: Run) -> None:
    limit_s = short_limit_s(4)
    supervised = run(time_limit_s=limit_s)
    supervised.wait_for_steps()
    first_limit_at = time.monotonic() + limit_s  # or earlier: it counts from before the steps
    change(supervised, time_limit_s=3600)
    change(supervised, time_limit_s=None)
    until(lambda: time.monotonic() > first_limit_at, what="the first limit")
    rows = stored_rows(supervised.sessions)
    until(lambda: stored_rows(supervised.sessions) > rows, what="steps after the first limit")
    assert supervised.attempt.ended_at is None
    with supervised.sessions.begin() as session:
        store.request_cancel(session, supervised.lease.job_id)
    assert supervised.wait_for_end() is EndReason.CANCELLED
