"""Where queued jobs stand, and what a cluster has no room for, read from the rows."""

from datetime import timedelta

from sqlalchemy import func, update

from jobs.db.engine import Sessions
from jobs.db.tables import Host, Job
from jobs.lifecycle import leases
from jobs.lifecycle.store import pause, request_cancel
from jobs.model.preemption import PreemptionCause
from jobs.model.spec import spec_from
from jobs.scheduling import placing
from jobs.scheduling.hosts import capacity_problem, request_of, shared_period_s
from jobs.scheduling.queue import Standing, standings
from tests.integration.jobs import job_rows


def standings_of(sessions: Sessions, *jobs: str) -> list[Standing | None]:
    with sessions() as session:
        standings_by_job = standings(session, jobs, host_timeout_s=30.0)
    return [standings_by_job.get(job) for job in jobs]


def test_jobs_have_their_positions_in_the_queue(sessions: Sessions) -> None:
    job_rows.a_host(sessions)
    running = job_rows.an_attempt(sessions, job_rows.a_job(sessions)).job_id
    low, high, paused, cancelled, last = (
        job_rows.a_job(sessions, priority=priority) for priority in (1, 90, 50, 50, 0)
    )
    with sessions.begin() as session:
        pause(session, paused)
        request_cancel(session, cancelled)
        later = func.now() + timedelta(seconds=100)
        session.execute(update(Job).where(Job.id == last).values(not_before=later))
    reason = "needs 2 slots on one host; best host has 0 free"
    of_last, *others = standings_of(sessions, last, low, high, paused, cancelled, running, "nobody")
    assert others == [Standing(2, reason), Standing(1, reason), Standing(None, "paused"), None, None, None]
    assert of_last is not None
    assert (of_last.position, of_last.reason[-30:]) == (3, " s more after a failed attempt")


def test_waiting_jobs_name_the_job_that_makes_room_and_the_reservation(sessions: Sessions) -> None:
    job_rows.a_host(sessions, slots=3)
    low = job_rows.an_attempt(sessions, job_rows.a_job(sessions, priority=1))
    urgent, small = job_rows.a_job(sessions, priority=90), job_rows.a_job(sessions, gpus=1)
    with sessions.begin() as session:
        placing.request_preemption(session, [low.attempt_id], PreemptionCause.for_job(urgent))
        session.execute(update(Host).values(kept_for=urgent))
    assert standings_of(sessions, urgent, small) == [
        Standing(1, f"waits for job {low.job_id} to save and make room"),
        Standing(2, f"1 slot is free, but kept for job {urgent}, which comes first"),
    ]


def test_a_restart_on_fewer_gpus_says_how_many_slots_it_needs(sessions: Sessions) -> None:
    job_rows.a_host(sessions, slots=3)
    job_rows.a_host(sessions, "hb", slots=4)
    lease = job_rows.an_attempt(sessions, job_rows.a_job(sessions, gpus=4, min_gpus=2), host="hb", slots=range(4))
    job_rows.host_went_silent(sessions, "hb")
    with sessions.begin() as session:
        leases.end(session, lease, leases.EndReason.HOST_LOST)
        session.execute(update(Job).values(not_before=None))
    assert standings_of(sessions, lease.job_id) == [Standing(1, "is next")]
    job_rows.an_attempt(sessions, job_rows.a_job(sessions, gpus=1), slots=[0])
    assert standings_of(sessions, lease.job_id) == [Standing(1, "needs 3 slots on one host; best host has 2 free")]


def lack_of_room(sessions: Sessions, gpus: int, **fields: object) -> str | None:
    spec = spec_from(job_rows.SPEC | {"gpus": gpus} | fields)
    with sessions() as session:
        problem = capacity_problem(session, request_of(spec))
        return None if problem is None else problem.text


def test_a_job_too_large_for_the_cluster_is_recognised(sessions: Sessions) -> None:
    assert lack_of_room(sessions, 4096) is None  # no host is known yet
    job_rows.a_host(sessions, "ha", slots=4)
    job_rows.a_host(sessions, "hb", slots=4)
    job_rows.host_went_silent(sessions, "ha")
    job_rows.drain_host(sessions, "hb")
    assert lack_of_room(sessions, 4) is None
    assert lack_of_room(sessions, 5) == "more than this cluster has: its largest host has 4 slots"
    assert lack_of_room(sessions, 1, device="gpu") == "more than this cluster has: its largest host has 0 gpu slots"
    for name in ("ha", "hb"):
        job_rows.a_host(sessions, name, slots=4, peers="eth0")
    assert lack_of_room(sessions, 8) is lack_of_room(sessions, 8, placement="spread") is None
    assert lack_of_room(sessions, 9) == "more than this cluster has: its hosts that work together have 8 slots"
    assert (
        lack_of_room(sessions, 8, placement="single_host") == "more than this cluster has: its largest host has 4 slots"
    )
    assert lack_of_room(sessions, 7) == (
        "a job takes the same number of slots on each of its hosts, and 7 cannot be divided so: "
        "of the 8 slots of hosts that work together, at most 4 are on one host"
    )


def test_the_period_between_passes_grows_with_more_than_fifty_live_hosts(sessions: Sessions) -> None:
    def period_s() -> float:
        with sessions() as session:
            return shared_period_s(session, 2.0, host_timeout_s=15)

    periods_s = [period_s()]
    for number in range(100):
        job_rows.a_host(sessions, f"h{number}", slots=1)
        if number in (49, 99):
            periods_s.append(period_s())
    for number in range(25):
        job_rows.host_went_silent(sessions, f"h{number}")
    assert [*periods_s, period_s()] == [2, 2, 4, 3]
