"""The life of an attempt and of the slots it holds."""

import dataclasses
from datetime import UTC, datetime
from uuid import uuid4

import pytest
from sqlalchemy import select, update

from jobs.db.engine import Sessions
from jobs.db.tables import Attempt, Host, Job, Slot
from jobs.lifecycle import leases
from jobs.lifecycle.leases import StaleLease
from jobs.lifecycle.store import Lease, pause, request_cancel
from jobs.model.preemption import PreemptionCause
from jobs.model.states import EndReason, EventKind, Status
from jobs.runtime.processes import ProcessId
from jobs.scheduling import placing
from jobs.scheduling.decisions import Placement, Share
from tests.integration.jobs import job_rows


def place(sessions: Sessions, job_id: str, slots: list[int], *, host: str = "ha") -> Lease:
    return job_rows.an_attempt(sessions, job_id, host=host, slots=slots)


def test_a_placement_leases_every_slot_and_launches_the_job(sessions: Sessions) -> None:
    job_rows.a_host(sessions, slots=4)
    job_id = job_rows.a_job(sessions)
    lease = place(sessions, job_id, [1, 3])
    job, attempt = job_rows.the_job(sessions, job_id), job_rows.the_attempt(sessions, lease)
    assert (job.status, job.attempt, job.not_before) == (Status.LAUNCHING, 1, None)
    assert (attempt.number, attempt.host, attempt.gpus, str(attempt.token)) == (1, "ha", 2, lease.token)
    assert (attempt.claimed_at, attempt.ended_at) == (None, None)
    assert [(slot.attempt_id, slot.rank) for slot in job_rows.the_slots(sessions)] == [
        (None, None),
        (lease.attempt_id, 0),
        (None, None),
        (lease.attempt_id, 1),
    ]
    assert job_rows.kinds(sessions, job_id)[-1] is EventKind.PLACED


def test_shares_of_several_hosts_are_leased_in_the_order_of_the_ranks(sessions: Sessions) -> None:
    for name in ("ha", "hb"):
        job_rows.a_host(sessions, name, slots=3)
    job_id = job_rows.a_job(sessions, gpus=4)
    both = Placement(job_id, (Share("hb", (2, 0), ("A100", "H100")), Share("ha", (0, 1), ("cpu", "cpu"))), due_s=60.0)
    with sessions.begin() as session:
        (lease,) = placing.place(session, [both], lease_s=60)
    attempt = job_rows.the_attempt(sessions, lease)
    assert (attempt.host, attempt.gpus) == ("hb", 4)
    assert attempt.shares == [
        {"host": "hb", "slots": [2, 0], "devices": ["A100", "H100"]},
        {"host": "ha", "slots": [0, 1], "devices": ["cpu", "cpu"]},
    ]
    assert attempt.due_at is not None
    assert (attempt.due_at - attempt.created_at).total_seconds() == 60
    assert [slot.rank for slot in job_rows.the_slots(sessions, "hb")] == [1, None, 0]
    assert [slot.rank for slot in job_rows.the_slots(sessions, "ha")] == [2, 3, None]


def test_only_the_possible_ones_of_several_placements_are_made(sessions: Sessions) -> None:
    job_rows.a_host(sessions, slots=6)
    held_lease = place(sessions, job_rows.a_job(sessions, gpus=1), [5])
    jobs = [job_rows.a_job(sessions) for _ in range(4)]
    with sessions.begin() as session:
        request_cancel(session, jobs[1])
    slots = [(0, 1), (2, 3), (1, 2), (4, 5)]  # free; of a cancelled job; taken by the first; one held
    placements = [Placement(job_id, (Share("ha", of),)) for job_id, of in zip(jobs, slots, strict=True)]
    with sessions.begin() as session:
        (lease,) = placing.place(session, placements, lease_s=60)
    assert lease.job_id == jobs[0]
    mine = lease.attempt_id
    assert job_rows.holders(sessions) == [mine, mine, None, None, None, held_lease.attempt_id]
    assert job_rows.count(sessions, Attempt) == 2


@pytest.mark.parametrize("obstacle", ["leased", "quarantined", "retired", "unknown", "drained"])
def test_a_placement_on_a_slot_that_is_not_free_changes_nothing(sessions: Sessions, obstacle: str) -> None:
    job_rows.a_host(sessions, slots=2 if obstacle == "unknown" else 3)
    if obstacle == "leased":
        place(sessions, job_rows.a_job(sessions, gpus=1), [2])
    elif obstacle == "drained":
        job_rows.drain_host(sessions, "ha")
    elif obstacle != "unknown":
        with sessions.begin() as session:
            slot = session.get_one(Slot, ("ha", 2))
            column = f"{obstacle}_at"
            setattr(slot, column, session.get_one(Job, job_rows.a_job(sessions)).created_at)
    job_id = job_rows.a_job(sessions)
    before, holders_before = job_rows.count(sessions, Attempt), job_rows.holders(sessions)
    with pytest.raises(job_rows.NotPlaced):
        place(sessions, job_id, [1, 2])
    job = job_rows.the_job(sessions, job_id)
    assert (job.status, job.attempt, job.revision) == (Status.QUEUED, 0, 1)
    assert job_rows.count(sessions, Attempt) == before
    assert job_rows.holders(sessions) == holders_before
    assert job_rows.kinds(sessions, job_id) == [EventKind.SUBMITTED]


def test_a_job_that_was_cancelled_meanwhile_is_not_placed(sessions: Sessions) -> None:
    job_rows.a_host(sessions)
    job_id = job_rows.a_job(sessions)
    with sessions.begin() as session:
        request_cancel(session, job_id)
    with pytest.raises(job_rows.NotPlaced):
        place(sessions, job_id, [0, 1])
    assert job_rows.holders(sessions) == [None, None]


def test_a_paused_job_is_not_placed(sessions: Sessions) -> None:
    job_rows.a_host(sessions)
    job_id = job_rows.a_job(sessions)
    with sessions.begin() as session:
        pause(session, job_id)
    with pytest.raises(job_rows.NotPlaced):
        place(sessions, job_id, [0, 1])
    assert job_rows.holders(sessions) == [None, None]


def test_an_attempt_is_asked_once_to_make_room(sessions: Sessions) -> None:
    lease = job_rows.a_running_attempt(sessions)
    for job_id in ("a", "b"):
        with sessions.begin() as session:
            placing.request_preemption(session, [lease.attempt_id], PreemptionCause.for_job(job_id))
    with sessions() as session:
        assert leases.stop_requests(session, lease).preemption == PreemptionCause.for_job("a")
    assert job_rows.kinds(sessions, lease.job_id).count(EventKind.PREEMPT_REQUESTED) == 1


def test_an_attempt_is_claimed_once(sessions: Sessions) -> None:
    job_rows.a_host(sessions)
    lease = job_rows.an_attempt(sessions, job_rows.a_job(sessions))
    with sessions.begin() as session:
        assert leases.claim(session, lease.attempt_id, lease_s=60) == lease
        assert leases.claim(session, lease.attempt_id, lease_s=60) is None
        assert leases.claim(session, lease.attempt_id + 1, lease_s=60) is None


def test_an_ended_attempt_is_not_claimed(sessions: Sessions) -> None:
    job_rows.a_host(sessions)
    lease = job_rows.an_attempt(sessions, job_rows.a_job(sessions))
    with sessions.begin() as session:
        leases.end(session, lease, EndReason.LAUNCH_FAILED)
        assert leases.claim(session, lease.attempt_id, lease_s=60) is None


def test_a_claim_and_a_renewal_move_the_end_of_the_lease(sessions: Sessions) -> None:
    job_rows.a_host(sessions)
    lease = job_rows.an_attempt(sessions, job_rows.a_job(sessions))
    ends = [job_rows.the_attempt(sessions, lease).lease_expires_at]
    for lease_s, step in ((1000, leases.claim), (2000, leases.renew)):
        with sessions.begin() as session:
            step(session, lease.attempt_id if step is leases.claim else lease, lease_s=lease_s)
        ends.append(job_rows.the_attempt(sessions, lease).lease_expires_at)
    assert 900 < (ends[1] - ends[0]).total_seconds() < 1100
    assert 900 < (ends[2] - ends[1]).total_seconds() < 1100


def test_the_supervisor_is_recorded(sessions: Sessions) -> None:
    lease = job_rows.a_claimed_attempt(sessions)
    with sessions.begin() as session:
        leases.record_supervisor(session, lease, ProcessId(42, 15))
    attempt = job_rows.the_attempt(sessions, lease)
    assert (attempt.supervisor_pid, attempt.supervisor_start_ticks) == (42, 15)
    assert job_rows.kinds(sessions, lease.job_id)[-1] is EventKind.LAUNCHED


def test_a_launch_notes_the_software_of_each_host(sessions: Sessions) -> None:
    lease = job_rows.a_claimed_attempt(sessions)
    [share] = job_rows.the_attempt(sessions, lease).shares
    info = {"versions": {"hora": "1.2"}, "python": "3.11.2", "system": "Linux"}
    with sessions.begin() as session:
        session.execute(update(Host).where(Host.name == share["host"]).values(info=info))
        shares = [{"host": "gone", "slots": [1], "devices": ["cpu"]}, share]
        session.execute(update(Attempt).where(Attempt.id == lease.attempt_id).values(shares=shares))
        leases.record_supervisor(session, lease, ProcessId(42, 15))
    software = {"hora": "1.2", "python": "3.11.2", "system": "Linux"}
    assert job_rows.the_attempt(sessions, lease).shares == [shares[0], share | {"software": software}]


def test_a_supervisor_is_not_recorded_for_an_attempt_that_has_ended(sessions: Sessions) -> None:
    lease = job_rows.a_claimed_attempt(sessions)
    with sessions.begin() as session:
        leases.end(session, lease, EndReason.COMPLETED)
        leases.record_supervisor(session, lease, ProcessId(42, 15))
    assert job_rows.the_attempt(sessions, lease).supervisor_pid is None
    assert job_rows.kinds(sessions, lease.job_id)[-1] is EventKind.ENDED


def test_a_supervisor_sees_a_requested_cancel(sessions: Sessions) -> None:
    lease = job_rows.a_claimed_attempt(sessions)
    with sessions.begin() as session:
        assert not leases.stop_requests(session, lease).cancel_requested
        request_cancel(session, lease.job_id)
        assert leases.stop_requests(session, lease).cancel_requested


@pytest.mark.parametrize("stale", ["ended", "token"])
def test_a_writer_without_the_lease_is_refused(sessions: Sessions, stale: str) -> None:
    lease = job_rows.a_claimed_attempt(sessions)
    if stale == "ended":
        with sessions.begin() as session:
            leases.end(session, lease, EndReason.LEASE_EXPIRED)
    else:
        lease = dataclasses.replace(lease, token=str(uuid4()))
    before = job_rows.the_attempt(sessions, lease)
    with sessions() as session:
        for writes in (
            lambda: leases.renew(session, lease, lease_s=1),
            lambda: leases.stop_requests(session, lease),
            lambda: leases.fence(session, lease),
            lambda: leases.fence_expired(session, lease),
            lambda: leases.end(session, lease, EndReason.COMPLETED),
        ):
            with pytest.raises(StaleLease):
                writes()
        session.commit()
    after = job_rows.the_attempt(sessions, lease)
    assert (after.ended_at, after.end_reason) == (before.ended_at, before.end_reason)
    assert after.lease_expires_at == before.lease_expires_at


def test_the_first_rank_starts_the_job_and_the_attempt(sessions: Sessions) -> None:
    lease = job_rows.a_running_attempt(sessions)
    job, attempt = job_rows.the_job(sessions, lease.job_id), job_rows.the_attempt(sessions, lease)
    assert job.status is Status.RUNNING
    assert job.started_at is not None
    assert attempt.started_at == job.started_at


def test_the_start_of_a_job_is_never_before_its_placement(sessions: Sessions) -> None:
    lease = job_rows.a_claimed_attempt(sessions)
    with sessions.begin() as session:
        leases.first_rank_started(session, lease, datetime(2000, 1, 1, tzinfo=UTC))
    assert job_rows.the_job(sessions, lease.job_id).started_at == job_rows.the_attempt(sessions, lease).created_at


def test_a_later_attempt_does_not_change_the_start_of_the_job(sessions: Sessions) -> None:
    first = job_rows.a_running_attempt(sessions)
    started = job_rows.the_job(sessions, first.job_id).started_at
    with sessions.begin() as session:
        leases.end(session, first, EndReason.RANK_FAILED)
        leases.release(session, first.attempt_id)
    second = job_rows.an_attempt(sessions, first.job_id)
    with sessions.begin() as session:
        leases.first_rank_started(session, second, datetime.now(UTC))
        leases.resumed(session, second, 120)
    assert job_rows.the_job(sessions, first.job_id).started_at == started
    attempt = job_rows.the_attempt(sessions, second)
    assert (attempt.number, attempt.resumed_step) == (2, 120)
    assert attempt.started_at is not None
    assert attempt.started_at > started


def test_slots_are_released_only_after_the_end(sessions: Sessions) -> None:
    lease = job_rows.a_running_attempt(sessions)
    with sessions.begin() as session:
        leases.release(session, lease.attempt_id)
    assert job_rows.holders(sessions) == [lease.attempt_id] * 2
    with sessions.begin() as session:
        leases.end(session, lease, EndReason.COMPLETED)
    assert job_rows.holders(sessions) == [lease.attempt_id] * 2
    with sessions.begin() as session:
        leases.release(session, lease.attempt_id)
    assert [(slot.attempt_id, slot.rank) for slot in job_rows.the_slots(sessions)] == [(None, None)] * 2


def test_a_release_does_not_free_the_slots_of_other_attempts(sessions: Sessions) -> None:
    job_rows.a_host(sessions, slots=2)
    ended, live = (place(sessions, job_rows.a_job(sessions, gpus=1), [index]) for index in (0, 1))
    with sessions.begin() as session:
        leases.end(session, ended, EndReason.COMPLETED)
        leases.release(session, ended.attempt_id)
    assert job_rows.holders(sessions) == [None, live.attempt_id]


def test_a_quarantined_slot_is_free_again_only_by_its_release(sessions: Sessions) -> None:
    lease = job_rows.a_running_attempt(sessions)
    with sessions.begin() as session:
        leases.end(session, lease, EndReason.CANCELLED)
        leases.quarantine(session, lease.attempt_id, host="ha")
    first = [slot.quarantined_at for slot in job_rows.the_slots(sessions)]
    with sessions.begin() as session:
        leases.quarantine(session, lease.attempt_id, host="ha")
    assert None not in first
    assert [slot.quarantined_at for slot in job_rows.the_slots(sessions)] == first  # since when, not when last seen
    with pytest.raises(job_rows.NotPlaced):
        place(sessions, job_rows.a_job(sessions), [0, 1])
    with sessions.begin() as session:
        leases.release(session, lease.attempt_id)
    place(sessions, job_rows.a_job(sessions), [0, 1])


def test_a_job_has_one_live_attempt(sessions: Sessions) -> None:
    lease = job_rows.a_running_attempt(sessions)
    job_rows.a_host(sessions, "hb")
    with pytest.raises(job_rows.NotPlaced):
        place(sessions, lease.job_id, [0, 1], host="hb")
    with sessions() as session:
        assert len(session.scalars(select(Attempt).where(Attempt.job_id == lease.job_id)).all()) == 1
