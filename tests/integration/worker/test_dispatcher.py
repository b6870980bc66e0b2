"""Whoever dispatches, and however many: a job is placed once, in its turn, on slots that nobody holds."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
import redis
from sqlalchemy import func, select, text, update

from jobs.db.engine import Sessions, engine_for, sessions_for
from jobs.db.tables import Attempt, Job
from jobs.lifecycle import leases
from jobs.lifecycle.store import Lease, pause, request_cancel
from jobs.model.states import EndReason, EventKind, Status
from jobs.runtime.hints import Hints, host_queue
from jobs.runtime.settings import Settings
from tests.integration.jobs import job_rows
from tests.waiting import until
from worker import dispatcher as dispatcher_module
from worker.dispatcher import Dispatcher

NOWHERE = "redis+socket:///nowhere/broker.sock"
Make = Callable[..., Dispatcher]


@pytest.fixture
def make(database: str, broker: str) -> Iterator[Make]:
    """Make a dispatcher with connections and hints of its own, as every worker has."""
    opened = []

    def make(broker_url: str = broker, **values: float) -> Dispatcher:
        engine, hints = engine_for(database), Hints(broker_url)
        opened.append((engine, hints))
        return Dispatcher(sessions_for(engine), hints, Settings(**values))

    yield make
    for engine, hints in opened:
        hints.close(0.2)
        engine.dispose()


def live_leases(sessions: Sessions) -> list[Lease]:
    with sessions() as session:
        query = select(Attempt).where(Attempt.ended_at.is_(None)).order_by(Attempt.id)
        return [Lease(one.id, str(one.token), one.job_id, one.number) for one in session.scalars(query)]


def placed_jobs(sessions: Sessions) -> list[str]:
    return [lease.job_id for lease in live_leases(sessions)]


def complete(sessions: Sessions, lease: Lease) -> None:
    with sessions.begin() as session:
        leases.end(session, lease, EndReason.COMPLETED)
        leases.release(session, lease.attempt_id)


def test_a_job_is_placed_and_its_host_told(sessions: Sessions, make: Make, broker: str) -> None:
    job_rows.a_host(sessions)
    job_id = job_rows.a_job(sessions)
    assert make().run() == 1
    (lease,) = live_leases(sessions)
    assert lease.job_id == job_id
    assert job_rows.holders(sessions) == [lease.attempt_id] * 2
    with redis.Redis.from_url(broker.replace("redis+socket://", "unix://")) as connection:
        until(lambda: connection.llen(host_queue("ha")) == 1, what="the host's hint")


def test_a_broker_that_is_away_keeps_no_job_waiting(sessions: Sessions, make: Make) -> None:
    job_rows.a_host(sessions)
    job_id = job_rows.a_job(sessions)
    assert make(NOWHERE).run() == 1
    assert job_rows.the_job(sessions, job_id).status is Status.LAUNCHING


def test_the_queue_goes_by_priority_then_age(sessions: Sessions, make: Make) -> None:
    job_rows.a_host(sessions, slots=3)
    jobs = [job_rows.a_job(sessions, gpus=1, priority=priority) for priority in (50, 90, 50, 10)]
    assert make().run() == 3
    assert placed_jobs(sessions) == [jobs[1], jobs[0], jobs[2]]


def test_a_job_waits_out_its_pause(sessions: Sessions, make: Make) -> None:
    job_rows.a_host(sessions)
    job_id = job_rows.a_job(sessions)

    def pause_ends(in_s: float) -> None:
        with sessions.begin() as session:
            at = func.now() + timedelta(seconds=in_s)
            session.execute(update(Job).where(Job.id == job_id).values(not_before=at))

    pause_ends(60)
    dispatcher = make()
    assert dispatcher.run() == 0
    pause_ends(-1)
    assert dispatcher.run() == 1


def test_a_host_that_is_silent_gets_nothing(sessions: Sessions, make: Make) -> None:
    job_rows.a_host(sessions, "dead", slots=2)
    job_rows.a_host(sessions, "alive", slots=8)
    job_rows.host_went_silent(sessions, "dead", for_s=31)
    job_rows.a_job(sessions)
    assert make(host_timeout_s=30.0).run() == 1
    assert job_rows.holders(sessions, "dead") == [None, None]


@pytest.mark.parametrize("column", ["quarantined_at", "retired_at"])
def test_a_slot_that_is_not_to_be_used_is_passed_over(sessions: Sessions, make: Make, column: str) -> None:
    job_rows.a_host(sessions, slots=3)
    with sessions.begin() as session:
        session.execute(text(f"UPDATE slots SET {column} = now() WHERE index = 0"))  # noqa: S608 - from this test
    job_rows.a_job(sessions, gpus=3)
    job_rows.a_job(sessions, gpus=2)
    assert make().run() == 1
    (lease,) = live_leases(sessions)
    assert job_rows.holders(sessions) == [None, lease.attempt_id, lease.attempt_id]


def test_a_blocked_job_is_passed_only_by_those_that_end_in_time(sessions: Sessions, make: Make) -> None:
    job_rows.a_host(sessions, slots=4)
    busy = job_rows.an_attempt(sessions, job_rows.a_job(sessions, gpus=1, time_limit_s=1000), slots=[0])
    large = job_rows.a_job(sessions, gpus=4)
    unknown, long, short = (job_rows.a_job(sessions, gpus=1, time_limit_s=limit_s) for limit_s in (None, 2000, 500))
    dispatcher = make()
    assert dispatcher.run() == 1
    passing = live_leases(sessions)[1]
    assert passing.job_id == short
    due_at = job_rows.the_attempt(sessions, passing).due_at
    assert due_at is not None
    assert 900 < (due_at - job_rows.the_attempt(sessions, passing).created_at).total_seconds() <= 1000
    assert job_rows.kept_for(sessions) == {"ha": large}
    complete(sessions, busy)
    complete(sessions, passing)
    assert dispatcher.run() == 1
    assert placed_jobs(sessions) == [large]
    assert job_rows.kept_for(sessions) == {"ha": unknown}
    complete(sessions, live_leases(sessions)[0])
    assert dispatcher.run() == 2
    assert placed_jobs(sessions) == [unknown, long]
    assert job_rows.kept_for(sessions) == {"ha": None}


def test_a_limit_from_before_limits_were_bounded_stops_no_pass(sessions: Sessions, make: Make) -> None:
    job_rows.a_host(sessions, slots=2)
    job_rows.an_attempt(sessions, job_rows.a_job(sessions, gpus=1), slots=[0])
    job_rows.a_job(sessions, gpus=2)
    short = job_rows.a_job(sessions, gpus=1, time_limit_s=500)
    with sessions.begin() as session:
        endless = Job.spec.concat({"time_limit_s": 1e300})
        session.execute(update(Job).where(Job.id != short).values(spec=endless))
    assert make().run() == 1
    assert short in placed_jobs(sessions)
    assert job_rows.the_attempt(sessions, live_leases(sessions)[1]).due_at is not None


def test_what_overstays_makes_room_for_the_job_that_it_passed(sessions: Sessions, make: Make) -> None:
    job_rows.a_host(sessions, slots=2)
    busy = job_rows.an_attempt(sessions, job_rows.a_job(sessions, gpus=1, time_limit_s=1000), slots=[0])
    large = job_rows.a_job(sessions, gpus=2)
    job_rows.a_job(sessions, gpus=1, time_limit_s=500)
    dispatcher = make()
    assert dispatcher.run() == 1
    passing = live_leases(sessions)[1]
    complete(sessions, busy)
    assert dispatcher.run() == 0
    assert job_rows.the_attempt(sessions, passing).preempt_requested_at is None
    with sessions.begin() as session:
        past = func.now() - timedelta(seconds=1)
        session.execute(update(Attempt).where(Attempt.id == passing.attempt_id).values(due_at=past))
    assert dispatcher.run() == 0
    assert job_rows.the_attempt(sessions, passing).preempted_for == f"job {large}"


def test_a_job_like_those_before_is_expected_to_take_as_long(sessions: Sessions, make: Make) -> None:
    job_rows.a_host(sessions, slots=2)
    for took_s in (20, 30):
        job_rows.has_run(sessions, took_s=took_s, gpus=1, epochs=3)
    job_rows.an_attempt(sessions, job_rows.a_job(sessions, gpus=1, time_limit_s=60), slots=[0])
    job_rows.a_job(sessions, gpus=2)
    job_rows.a_job(sessions, gpus=1, epochs=4)
    like_those = job_rows.a_job(sessions, gpus=1, epochs=3)
    assert make().run() == 1
    assert placed_jobs(sessions)[1:] == [like_those]


def test_a_job_of_lower_priority_makes_room(sessions: Sessions, make: Make) -> None:
    job_rows.a_host(sessions, slots=3)
    low = [job_rows.an_attempt(sessions, job_rows.a_job(sessions, gpus=1, priority=10), slots=[n]) for n in (0, 1)]
    urgent = job_rows.a_job(sessions, gpus=2, priority=90)
    later = job_rows.a_job(sessions, gpus=1, priority=10, time_limit_s=1)
    dispatcher = make()
    assert dispatcher.run() == 0
    causes = [job_rows.the_attempt(sessions, lease).preempted_for for lease in low]
    assert causes == [None, f"job {urgent}"]  # the youngest
    assert EventKind.PREEMPT_REQUESTED in job_rows.kinds(sessions, low[1].job_id)
    assert dispatcher.run() == 0
    assert job_rows.the_attempt(sessions, low[0]).preempted_for is None  # one is enough
    with sessions.begin() as session:
        leases.end(session, low[1], EndReason.PREEMPTED)
        leases.release(session, low[1].attempt_id)
    assert dispatcher.run() == 1
    assert placed_jobs(sessions) == [low[0].job_id, urgent]
    assert job_rows.the_job(sessions, low[1].job_id).status is Status.QUEUED
    assert job_rows.the_job(sessions, later).status is Status.QUEUED


def test_a_job_goes_on_several_hosts_that_work_together(sessions: Sessions, make: Make) -> None:
    for name, peers in (("hc", "eth0"), ("ha", "ib0"), ("hb", "eth0")):
        job_rows.a_host(sessions, name, slots=2, peers=peers)
    job_rows.a_host(sessions, "hd", slots=2)
    job_id = job_rows.a_job(sessions, gpus=4)
    assert make().run() == 1
    (lease,) = live_leases(sessions)
    attempt = job_rows.the_attempt(sessions, lease)
    assert (attempt.job_id, attempt.host, attempt.gpus) == (job_id, "hb", 4)
    assert attempt.shares == [{"host": "hb", "slots": [0, 1]}, {"host": "hc", "slots": [0, 1]}]
    ranks = [slot.rank for host in ("hb", "hc") for slot in job_rows.the_slots(sessions, host)]
    assert ranks == [0, 1, 2, 3]
    assert job_rows.holders(sessions, "ha") == job_rows.holders(sessions, "hd") == [None, None]


def test_spread_takes_one_slot_of_each(sessions: Sessions, make: Make) -> None:
    job_rows.a_host(sessions, "ha", slots=2, peers="eth0")
    job_rows.a_host(sessions, "hb", slots=2, peers="eth0")
    job_rows.a_job(sessions, gpus=2, placement="spread")
    assert make().run() == 1
    (lease,) = live_leases(sessions)
    assert job_rows.the_attempt(sessions, lease).shares == [{"host": "ha", "slots": [0]}, {"host": "hb", "slots": [0]}]


def test_a_restart_goes_to_its_last_host(sessions: Sessions, make: Make) -> None:
    for name in ("ha", "hb", "hc"):
        job_rows.a_host(sessions, name)
    first = job_rows.an_attempt(sessions, job_rows.a_job(sessions), host="hb")
    with sessions.begin() as session:
        leases.end(session, first, EndReason.RANK_FAILED)
        leases.release(session, first.attempt_id)
    assert make().run() == 1
    assert job_rows.the_attempt(sessions, live_leases(sessions)[0]).host == "hb"


def test_nothing_is_placed_on_a_drained_host(sessions: Sessions, make: Make) -> None:
    job_rows.a_host(sessions, "ha")
    job_rows.a_host(sessions, "hb")
    job_rows.drained(sessions, "ha")
    job_rows.a_job(sessions)
    job_rows.a_job(sessions)
    dispatcher = make()
    assert dispatcher.run() == 1
    assert job_rows.holders(sessions, "ha") == [None, None]


@pytest.mark.parametrize("state", ["paused", "being cancelled"])
def test_a_paused_job_is_not_placed_and_one_that_leaves_is_waited_for(
    sessions: Sessions, make: Make, state: str
) -> None:
    job_rows.a_host(sessions, slots=4)
    leaving = job_rows.an_attempt(sessions, job_rows.a_job(sessions, gpus=2, priority=90), slots=[0, 1])
    low = job_rows.an_attempt(sessions, job_rows.a_job(sessions, gpus=2, priority=10), slots=[2, 3])
    urgent = job_rows.a_job(sessions, gpus=2)
    with sessions.begin() as session:
        (pause if state == "paused" else request_cancel)(session, leaving.job_id)
    dispatcher = make()
    assert dispatcher.run() == 0
    assert job_rows.the_attempt(sessions, low).preempt_requested_at is None
    with sessions.begin() as session:
        leases.end(session, leaving, EndReason.PAUSED)
        leases.release(session, leaving.attempt_id)
    assert dispatcher.run() == 1
    assert placed_jobs(sessions) == [low.job_id, urgent]


def test_a_pass_looks_beyond_its_first_page(sessions: Sessions, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatcher_module, "_PAGE", 3)
    job_rows.a_host(sessions, slots=2)
    for number in range(7):
        job_rows.a_job(sessions, device="gpu", priority=60 - number % 2)  # nobody has any
    jobs = [job_rows.a_job(sessions, gpus=1) for _ in range(2)]
    assert make().run() == 2
    assert placed_jobs(sessions) == jobs


def test_a_restart_after_a_lost_host_makes_do_with_fewer_gpus(sessions: Sessions, make: Make) -> None:
    job_rows.a_host(sessions, "large", slots=4)
    job_rows.a_host(sessions, "small", slots=3)
    job_id = job_rows.a_job(sessions, gpus=4, min_gpus=1, batch_size=64, batch_per="global")
    dispatcher = make(host_timeout_s=30.0)
    job_rows.host_went_silent(sessions, "large", for_s=31)
    assert dispatcher.run() == 0  # it starts with all that it asks for
    job_rows.host_went_silent(sessions, "large", for_s=0)
    assert dispatcher.run() == 1
    (first,) = live_leases(sessions)
    job_rows.host_went_silent(sessions, "large", for_s=31)
    with sessions.begin() as session:
        leases.end(session, first, EndReason.HOST_LOST)
    assert dispatcher.run() == 1
    (second,) = live_leases(sessions)
    assert job_rows.holders(sessions, "small") == [second.attempt_id, second.attempt_id, None]  # 3 do not divide 64
    assert job_rows.the_attempt(sessions, second).gpus == 2
    assert job_rows.the_job(sessions, job_id).gpus == 4


def test_a_restart_waits_for_a_host_that_is_only_busy(sessions: Sessions, make: Make) -> None:
    job_rows.a_host(sessions, slots=4)
    job_id = job_rows.a_job(sessions, gpus=4, min_gpus=1)
    dispatcher = make()
    dispatcher.run()
    (first,) = live_leases(sessions)
    with sessions.begin() as session:
        leases.end(session, first, EndReason.HOST_LOST)
        leases.release(session, first.attempt_id)
    job_rows.an_attempt(sessions, job_rows.a_job(sessions, gpus=1), slots=[0])
    assert dispatcher.run() == 0
    with sessions.begin() as session:
        session.execute(text("UPDATE slots SET quarantined_at = now() WHERE index = 0"))
    assert dispatcher.run() == 1
    assert job_rows.the_attempt(sessions, live_leases(sessions)[1]).gpus == 3
    assert live_leases(sessions)[1].job_id == job_id


def test_a_cancelled_job_is_not_placed(sessions: Sessions, make: Make) -> None:
    job_rows.a_host(sessions)
    job_id = job_rows.a_job(sessions)
    with sessions.begin() as session:
        request_cancel(session, job_id)
    assert make().run() == 0


def test_eight_dispatchers_never_lease_a_slot_twice(sessions: Sessions, make: Make) -> None:
    job_rows.a_host(sessions, "ha", slots=3)
    job_rows.a_host(sessions, "hb", slots=2)
    dispatchers = [make() for _ in range(8)]
    waiting = {job_rows.a_job(sessions, gpus=1 + number % 3) for number in range(24)}
    placed_job_ids: list[str] = []
    with ThreadPoolExecutor(8) as pool:
        while waiting:
            counts = list(pool.map(lambda dispatcher: dispatcher.run(), dispatchers))
            placed_leases = live_leases(sessions)
            assert sum(counts) == len(placed_leases) > 0
            slot_holders = [holder for host in ("ha", "hb") for holder in job_rows.holders(sessions, host)]
            for lease in placed_leases:
                assert slot_holders.count(lease.attempt_id) == job_rows.the_job(sessions, lease.job_id).gpus
                placed_job_ids.append(lease.job_id)
                waiting.remove(lease.job_id)
                complete(sessions, lease)
    assert len(placed_job_ids) == len(set(placed_job_ids)) == 24
    assert job_rows.count(sessions, Attempt) == 24


def test_calls_that_come_together_are_merged(sessions: Sessions, make: Make) -> None:
    """One pass runs, one waits for it, and the others leave: they would see nothing that the waiting one does not."""
    job_rows.a_host(sessions)
    dispatcher = make()
    results: list[int] = []
    with sessions() as session:
        session.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": 0x646973706174})  # a pass elsewhere
        threads = [threading.Thread(target=lambda: results.append(dispatcher.run())) for _ in range(10)]
        for thread in threads:
            thread.start()
        until(lambda: len(results) == 8, what="the calls that have nothing to add")
        job_rows.a_job(sessions)  # comes after the calls, before the passes
        session.commit()
    for thread in threads:
        thread.join(120)
    assert sorted(results) == [0] * 9 + [1]
    assert len(live_leases(sessions)) == 1


def test_calls_in_several_workers_are_merged_too(sessions: Sessions, make: Make) -> None:
    job_rows.a_host(sessions)
    dispatchers = [make() for _ in range(6)]
    with sessions() as session, ThreadPoolExecutor(6) as pool:
        session.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": 0x646973706174})
        runs = [pool.submit(dispatcher.run) for dispatcher in dispatchers]
        until(lambda: sum(run.done() for run in runs) == 5, what="the calls that have nothing to add")
        job_rows.a_job(sessions)
        session.commit()
        assert sorted(run.result(120) for run in runs) == [0] * 5 + [1]


def test_of_many_hosts_each_leaves_turns_to_the_others(
    sessions: Sessions, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_rows.a_host(sessions, slots=1)
    dispatcher = make()
    job_rows.a_job(sessions, gpus=1)
    assert dispatcher.run_in_turn() == 1  # it knows of no other
    for number in range(400):
        job_rows.a_host(sessions, f"h{number}", slots=1)
    job_rows.a_job(sessions, gpus=1)
    assert dispatcher.run() == 1
    waiting = {job_rows.a_job(sessions, gpus=1) for _ in range(2)}
    passes: list[int] = []

    def run() -> int:
        passes.append(Dispatcher.run(dispatcher))
        return passes[-1]

    monkeypatch.setattr(dispatcher, "run", run)
    for _ in range(2000):  # one in a hundred is taken: 20, give or take 4
        dispatcher.run_in_turn()
    assert 0 < len(passes) < 100
    assert waiting <= set(placed_jobs(sessions))
