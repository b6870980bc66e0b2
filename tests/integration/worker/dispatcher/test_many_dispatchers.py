"""Many dispatchers at once place each job once, and together make no more passes than needed."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import text

from jobs.db.engine import Sessions
from jobs.db.tables import Attempt
from tests.integration.jobs import job_rows
from tests.integration.worker.dispatcher.live_attempts import MakeDispatcher, complete, live_leases
from tests.waiting import until


def test_eight_dispatchers_never_lease_a_slot_twice(sessions: Sessions, make_dispatcher: MakeDispatcher) -> None:
    job_rows.a_host(sessions, "ha", slots=3)
    job_rows.a_host(sessions, "hb", slots=2)
    dispatchers = [make_dispatcher() for _ in range(8)]
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


@pytest.mark.parametrize(("dispatchers", "calls", "waiting"), [(1, 10, 2), (6, 6, 1)], ids=["one", "several workers"])
def test_concurrent_calls_are_merged(
    sessions: Sessions, make_dispatcher: MakeDispatcher, dispatchers: int, calls: int, waiting: int
) -> None:
    """One pass runs, one call waits for it, and the others return: the waiting one will see all that they would.

    Here the pass is elsewhere. Of one worker, a second call waits for the first one.
    """
    job_rows.a_host(sessions)
    made = [make_dispatcher() for _ in range(dispatchers)]
    with sessions() as session, ThreadPoolExecutor(calls) as pool:
        session.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": 0x646973706174})
        runs = [pool.submit(made[number % dispatchers].run) for number in range(calls)]
        until(lambda: sum(run.done() for run in runs) == calls - waiting, what="the calls that have nothing to add")
        job_rows.a_job(sessions)  # comes after the calls, before the passes
        session.commit()
        assert sorted(run.result(120) for run in runs) == [0] * (calls - 1) + [1]
    assert len(live_leases(sessions)) == 1


def test_a_dispatcher_takes_only_some_turns_when_there_are_many_hosts(
    sessions: Sessions, make_dispatcher: MakeDispatcher
) -> None:
    job_rows.a_host(sessions, slots=1)
    dispatcher = make_dispatcher()
    job_rows.a_job(sessions, gpus=1)
    assert dispatcher.has_turn()  # it knows of no other
    for number in range(99):
        job_rows.a_host(sessions, f"h{number}", slots=1)
    assert dispatcher.run() == 1
    turns = sum(dispatcher.has_turn() for _ in range(2000))
    assert 0 < turns < 200  # one in 25: 80, give or take 9
