"""Several at once: threads with connections of their own, on one database.

That cancels agree with ends and placements: `tests.integration.histories`.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier
from typing import TypeVar

import pytest
from sqlalchemy import select, text, update
from sqlalchemy.exc import OperationalError

from jobs.db.engine import Sessions
from jobs.db.tables import Attempt, Job, Slot
from jobs.lifecycle import leases
from jobs.lifecycle.leases import StaleLease
from jobs.lifecycle.store import JobEnded, locked_job
from jobs.model.job_changes import changes_from
from jobs.model.spec import spec_from
from jobs.model.states import EndReason, EventKind, Status
from jobs.people import job_changes, projects
from jobs.people.project_admission import Applicant, QueueFull, admit
from jobs.people.queue_share import TooManyQueuedJobs, require_queue_share
from tests.integration.jobs import job_rows
from tests.integration.jobs.writing import write
from tests.waiting import until

T = TypeVar("T")
THREADS = 8


def at_once(actions: list[Callable[[], T]]) -> list[T]:
    """Run the actions in threads that start together."""
    start = Barrier(len(actions))

    def run(action: Callable[[], T]) -> T:
        start.wait(120)
        return action()

    with ThreadPoolExecutor(len(actions)) as pool:
        return [one.result() for one in [pool.submit(run, action) for action in actions]]


def placed(sessions: Sessions, job_id: str, host: str = "ha") -> leases.Lease | None:
    """The lease of a job if it is placed."""
    try:
        return job_rows.an_attempt(sessions, job_id, host=host)
    except job_rows.NotPlaced:
        return None


def test_only_one_of_eight_concurrent_claims_succeeds(sessions: Sessions) -> None:
    job_rows.a_host(sessions)
    for _ in range(10):
        lease = job_rows.an_attempt(sessions, job_rows.a_job(sessions))
        claim = partial(write, sessions, leases.claim, lease.attempt_id, lease_s=60)
        claims = at_once([claim] * THREADS)
        assert [one for one in claims if one is not None] == [lease]
        job_rows.end_attempt(sessions, lease)


def test_a_late_release_leaves_the_next_attempt_its_slots(sessions: Sessions) -> None:
    job_rows.a_host(sessions)
    first, other = (job_rows.an_attempt(sessions, job_rows.a_job(sessions), slots=slots) for slots in ([0], [1]))
    job_rows.end_attempt(sessions, first, EndReason.COMPLETED, releases=False)
    with ThreadPoolExecutor(1) as pool:
        with sessions.begin() as session:
            leases.release(session, first.attempt_id)
            late = pool.submit(write, sessions, leases.release, first.attempt_id)
            until(lambda: job_rows.waiting_for_locks(sessions) == 1, what="the late release")
            session.execute(update(Slot).where(Slot.index == 0).values(attempt_id=other.attempt_id))
        late.result()
    assert job_rows.holders(sessions) == [other.attempt_id] * 2


def test_only_one_of_eight_placements_of_the_same_slots_or_of_the_same_job_succeeds(sessions: Sessions) -> None:
    job_rows.a_host(sessions)
    for _ in range(10):
        jobs = [job_rows.a_job(sessions) for _ in range(THREADS)]
        (won,) = filter(None, at_once([lambda job_id=job_id: placed(sessions, job_id) for job_id in jobs]))
        assert job_rows.holders(sessions) == [won.attempt_id] * 2
        assert [job_rows.the_job(sessions, job_id).status for job_id in jobs].count(Status.QUEUED) == THREADS - 1
        job_rows.end_attempt(sessions, won)
    hosts = [f"h{index}" for index in range(THREADS)]
    for name in hosts:
        job_rows.a_host(sessions, name)
    job_id = job_rows.a_job(sessions)
    (won,) = filter(None, at_once([lambda name=name: placed(sessions, job_id, name) for name in hosts]))
    with sessions() as session:
        assert session.scalars(select(Attempt.id).where(Attempt.job_id == job_id)).all() == [won.attempt_id]


@pytest.mark.parametrize("limit", ["share of the user", "queue of the project"])
def test_jobs_that_are_submitted_at_once_stay_within_a_limit(sessions: Sessions, limit: str) -> None:
    write(sessions, projects.create, "vision", max_queued=5)

    def submit() -> bool:
        try:
            with sessions.begin() as session:
                if limit == "share of the user":
                    require_queue_share(session, "me", jobs=1, most=5)
                else:
                    admit(session, "vision", Applicant("me"), jobs=1)
                job_rows.submit_once(session, spec_from(job_rows.SPEC | {"project": "vision"}))
        except (TooManyQueuedJobs, QueueFull):
            return False
        return True

    assert sum(at_once([submit] * THREADS)) == 5 == job_rows.count(sessions, Job)


def test_a_renewal_and_a_concurrent_reaper_agree(sessions: Sessions) -> None:
    for _ in range(10):
        lease = job_rows.a_running_attempt(sessions)
        job_rows.expire_lease(sessions, lease)

        def renew(lease: leases.Lease = lease) -> bool:
            try:
                write(sessions, leases.renew, lease, lease_s=60)
            except StaleLease:
                return False
            return True

        def reap(lease: leases.Lease = lease) -> bool:
            try:
                with sessions.begin() as session:
                    leases.fence_expired(session, lease)
                    leases.end(session, lease, EndReason.LEASE_EXPIRED)
            except StaleLease:
                return False
            return True

        renewed, reaped = at_once([renew, reap])
        assert renewed != reaped
        assert (job_rows.the_attempt(sessions, lease).ended_at is not None) == reaped
        if renewed:
            job_rows.end_attempt(sessions, lease, EndReason.LEASE_EXPIRED, releases=False)
        write(sessions, leases.release, lease.attempt_id)


def test_nobody_ends_an_attempt_while_its_writer_holds_the_fence(sessions: Sessions) -> None:
    lease = job_rows.a_running_attempt(sessions)
    with sessions.begin() as writer:
        leases.fence(writer, lease)
        with sessions() as session:
            session.execute(text("SET LOCAL lock_timeout = '50ms'"))
            leases.fence(session, lease)  # another writer may hold it too: the sampler beside the intake
            session.commit()
            session.execute(text("SET LOCAL lock_timeout = '50ms'"))
            with pytest.raises(OperationalError):
                leases.end(session, lease, EndReason.LEASE_EXPIRED)
    job_rows.end_attempt(sessions, lease, EndReason.LEASE_EXPIRED, releases=False)


def test_changes_of_one_job_at_once_are_all_kept_or_refused_by_its_end(sessions: Sessions) -> None:
    job_id = job_rows.a_job(sessions)

    def change(number: int) -> bool:
        changes = changes_from({"priority": 10 + number, "labels": {f"l{number}": "x"}})
        try:
            with sessions.begin() as session:
                job_changes.change(session, locked_job(session, job_id), changes, by=Applicant("me"))
        except JobEnded:
            return False
        return True

    def cancel() -> bool:
        job_rows.cancel(sessions, job_id)
        return True

    assert all(at_once([lambda number=number: change(number) for number in range(THREADS)]))
    job = job_rows.the_job(sessions, job_id)
    assert job.labels.keys() == {f"l{number}" for number in range(THREADS)}
    assert (job.spec["labels"], job.spec["priority"]) == (job.labels, job.priority)
    ended, *changed = at_once([cancel, *(lambda number=number: change(number) for number in range(10, 10 + THREADS))])
    job = job_rows.the_job(sessions, job_id)
    assert (ended, job.status) == (True, Status.CANCELLED)
    assert len(job.labels) == THREADS + sum(changed)
    assert job_rows.kinds(sessions, job_id)[-1] is EventKind.ENDED
