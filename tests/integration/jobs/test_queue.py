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
from jobs.scheduling.hosts import capacity_problem
from jobs.scheduling.queue import Standing, standings
from tests.integration.jobs import given


def standing(sessions: Sessions, *jobs: str) -> list[Standing | None]:
    with sessions() as session:
        found = standings(session, jobs, host_timeout_s=30.0)
    return [found.get(job) for job in jobs]


def test_the_queue_is_told_in_its_order(sessions: Sessions) -> None:
    given.a_host(sessions)
    running = given.an_attempt(sessions, given.a_job(sessions)).job_id
    low, high, paused, cancelled, last = (given.a_job(sessions, priority=priority) for priority in (1, 90, 50, 50, 0))
    with sessions.begin() as session:
        pause(session, paused)
        request_cancel(session, cancelled)
        later = func.now() + timedelta(seconds=100)
        session.execute(update(Job).where(Job.id == last).values(not_before=later))
    reason = "needs 2 slots on one host; best host has 0 free"
    told = standing(sessions, last, low, high, paused, cancelled, running, "nobody")
    assert told[1:] == [Standing(2, reason), Standing(1, reason), Standing(None, "paused"), None, None, None]
    assert told[0] is not None
    assert told[0].position == 3
    assert told[0].reason in {f"waits {seconds} s more after a failed attempt" for seconds in (98, 99, 100)}


def test_what_is_kept_and_who_leaves_is_told(sessions: Sessions) -> None:
    given.a_host(sessions, slots=3)
    low = given.an_attempt(sessions, given.a_job(sessions, priority=1))
    urgent, small = given.a_job(sessions, priority=90), given.a_job(sessions, gpus=1)
    with sessions.begin() as session:
        placing.request_preemption(session, [low.attempt_id], PreemptionCause.for_job(urgent))
        session.execute(update(Host).values(kept_for=urgent))
    assert standing(sessions, urgent, small) == [
        Standing(1, f"waits for job {low.job_id} to save and make room"),
        Standing(2, f"1 slot is free, but kept for job {urgent}, which comes first"),
    ]


def test_a_restart_that_makes_do_with_fewer_says_with_how_many(sessions: Sessions) -> None:
    given.a_host(sessions, slots=3)
    given.a_host(sessions, "hb", slots=4)
    lease = given.an_attempt(sessions, given.a_job(sessions, gpus=4, min_gpus=2), host="hb", slots=range(4))
    given.host_went_silent(sessions, "hb")
    with sessions.begin() as session:
        leases.end(session, lease, leases.EndReason.HOST_LOST)
        session.execute(update(Job).values(not_before=None))
    assert standing(sessions, lease.job_id) == [Standing(1, "is next")]
    given.an_attempt(sessions, given.a_job(sessions, gpus=1), slots=[0])
    assert standing(sessions, lease.job_id) == [Standing(1, "needs 3 slots on one host; best host has 2 free")]


def lack(sessions: Sessions, gpus: int, **fields: object) -> str | None:
    spec = spec_from(given.SPEC | {"gpus": gpus} | fields)
    with sessions() as session:
        return capacity_problem(session, spec)


def test_what_a_cluster_has_no_room_for(sessions: Sessions) -> None:
    assert lack(sessions, 4096) is None  # no host is known yet
    given.a_host(sessions, "ha", slots=4)
    given.a_host(sessions, "hb", slots=4)
    given.host_went_silent(sessions, "ha")
    given.drained(sessions, "hb")
    assert lack(sessions, 4) is None
    assert lack(sessions, 5) == "more than this cluster has: its largest host has 4 slots"
    assert lack(sessions, 1, device="gpu") == "more than this cluster has: its largest host has 0 gpu slots"
    for name in ("ha", "hb"):
        given.a_host(sessions, name, slots=4, peers="eth0")
    assert lack(sessions, 8) is lack(sessions, 8, placement="spread") is None
    assert lack(sessions, 9) == "more than this cluster has: its hosts that work together have 8 slots"
    assert lack(sessions, 8, placement="single_host") == "more than this cluster has: its largest host has 4 slots"
    assert lack(sessions, 7) == (
        "a job takes the same number of slots on each of its hosts, and 7 cannot be divided so: "
        "of the 8 slots of hosts that work together, at most 4 are on one host"
    )
