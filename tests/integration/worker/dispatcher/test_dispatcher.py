"""A job is placed once, in its turn, on free slots of hosts that are alive."""

from datetime import timedelta

import pytest
import redis
from sqlalchemy import func, text, update

from jobs.db.engine import Sessions
from jobs.db.tables import Job
from jobs.lifecycle.store import request_cancel
from jobs.model.states import Status
from jobs.runtime.hints import host_queue
from tests.integration.jobs import job_rows
from tests.integration.worker.dispatcher.live_attempts import MakeDispatcher, live_leases, placed_jobs
from tests.waiting import until
from worker import dispatcher as dispatcher_module

NOWHERE = "redis+socket:///nowhere/broker.sock"


def test_a_job_is_placed_and_its_host_gets_a_hint(
    sessions: Sessions, make_dispatcher: MakeDispatcher, broker: str
) -> None:
    job_rows.a_host(sessions)
    job_id = job_rows.a_job(sessions)
    assert make_dispatcher().run() == 1
    (lease,) = live_leases(sessions)
    assert lease.job_id == job_id
    assert job_rows.holders(sessions) == [lease.attempt_id] * 2
    with redis.Redis.from_url(broker.replace("redis+socket://", "unix://")) as connection:
        until(lambda: connection.llen(host_queue("ha")) == 1, what="the host's hint")


def test_jobs_are_placed_without_a_broker(sessions: Sessions, make_dispatcher: MakeDispatcher) -> None:
    job_rows.a_host(sessions)
    job_id = job_rows.a_job(sessions)
    assert make_dispatcher(NOWHERE).run() == 1
    assert job_rows.the_job(sessions, job_id).status is Status.LAUNCHING


def test_the_queue_goes_by_priority_then_age(sessions: Sessions, make_dispatcher: MakeDispatcher) -> None:
    job_rows.a_host(sessions, slots=3)
    jobs = [job_rows.a_job(sessions, gpus=1, priority=priority) for priority in (50, 90, 50, 10)]
    assert make_dispatcher().run() == 3
    assert placed_jobs(sessions) == [jobs[1], jobs[0], jobs[2]]


def test_a_job_is_not_placed_before_its_pause_ends(sessions: Sessions, make_dispatcher: MakeDispatcher) -> None:
    job_rows.a_host(sessions)
    job_id = job_rows.a_job(sessions)

    def pause_ends(in_s: float) -> None:
        with sessions.begin() as session:
            at = func.now() + timedelta(seconds=in_s)
            session.execute(update(Job).where(Job.id == job_id).values(not_before=at))

    pause_ends(60)
    dispatcher = make_dispatcher()
    assert dispatcher.run() == 0
    pause_ends(-1)
    assert dispatcher.run() == 1


def test_no_job_is_placed_on_a_silent_host(sessions: Sessions, make_dispatcher: MakeDispatcher) -> None:
    job_rows.a_host(sessions, "dead", slots=2)
    job_rows.a_host(sessions, "alive", slots=8)
    job_rows.host_went_silent(sessions, "dead", for_s=31)
    job_rows.a_job(sessions)
    assert make_dispatcher(host_timeout_s=30.0).run() == 1
    assert job_rows.holders(sessions, "dead") == [None, None]


@pytest.mark.parametrize("column", ["quarantined_at", "retired_at"])
def test_a_quarantined_or_retired_slot_is_not_used(
    sessions: Sessions, make_dispatcher: MakeDispatcher, column: str
) -> None:
    job_rows.a_host(sessions, slots=3)
    with sessions.begin() as session:
        session.execute(text(f"UPDATE slots SET {column} = now() WHERE index = 0"))  # noqa: S608 - from this test
    job_rows.a_job(sessions, gpus=3)
    job_rows.a_job(sessions, gpus=2)
    assert make_dispatcher().run() == 1
    (lease,) = live_leases(sessions)
    assert job_rows.holders(sessions) == [None, lease.attempt_id, lease.attempt_id]


def test_a_job_goes_on_several_hosts_that_work_together(sessions: Sessions, make_dispatcher: MakeDispatcher) -> None:
    for name, peers in (("hc", "eth0"), ("ha", "ib0"), ("hb", "eth0")):
        job_rows.a_host(sessions, name, slots=2, peers=peers)
    job_rows.a_host(sessions, "hd", slots=2)
    job_id = job_rows.a_job(sessions, gpus=4)
    assert make_dispatcher().run() == 1
    (lease,) = live_leases(sessions)
    attempt = job_rows.the_attempt(sessions, lease)
    assert (attempt.job_id, attempt.host, attempt.gpus) == (job_id, "hb", 4)
    assert attempt.shares == [{"host": "hb", "slots": [0, 1]}, {"host": "hc", "slots": [0, 1]}]
    ranks = [slot.rank for host in ("hb", "hc") for slot in job_rows.the_slots(sessions, host)]
    assert ranks == [0, 1, 2, 3]
    assert job_rows.holders(sessions, "ha") == job_rows.holders(sessions, "hd") == [None, None]


def test_spread_placement_takes_one_slot_of_each_host(sessions: Sessions, make_dispatcher: MakeDispatcher) -> None:
    job_rows.a_host(sessions, "ha", slots=2, peers="eth0")
    job_rows.a_host(sessions, "hb", slots=2, peers="eth0")
    job_rows.a_job(sessions, gpus=2, placement="spread")
    assert make_dispatcher().run() == 1
    (lease,) = live_leases(sessions)
    assert job_rows.the_attempt(sessions, lease).shares == [{"host": "ha", "slots": [0]}, {"host": "hb", "slots": [0]}]


def test_nothing_is_placed_on_a_drained_host(sessions: Sessions, make_dispatcher: MakeDispatcher) -> None:
    job_rows.a_host(sessions, "ha")
    job_rows.a_host(sessions, "hb")
    job_rows.drain_host(sessions, "ha")
    job_rows.a_job(sessions)
    job_rows.a_job(sessions)
    dispatcher = make_dispatcher()
    assert dispatcher.run() == 1
    assert job_rows.holders(sessions, "ha") == [None, None]


def test_a_pass_reads_beyond_the_first_page_of_the_queue(
    sessions: Sessions, make_dispatcher: MakeDispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher_module, "_PAGE", 3)
    job_rows.a_host(sessions, slots=2)
    for number in range(7):
        job_rows.a_job(sessions, device="gpu", priority=60 - number % 2)  # no host has GPUs
    jobs = [job_rows.a_job(sessions, gpus=1) for _ in range(2)]
    assert make_dispatcher().run() == 2
    assert placed_jobs(sessions) == jobs


def test_a_cancelled_job_is_not_placed(sessions: Sessions, make_dispatcher: MakeDispatcher) -> None:
    job_rows.a_host(sessions)
    job_id = job_rows.a_job(sessions)
    with sessions.begin() as session:
        request_cancel(session, job_id)
    assert make_dispatcher().run() == 0
