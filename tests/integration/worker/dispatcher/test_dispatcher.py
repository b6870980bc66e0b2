"""A job is placed once, in its turn, on free slots of hosts that are alive."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import redis
from sqlalchemy import Text, cast, func, select, text, update
from sqlalchemy.dialects.postgresql import ARRAY

from jobs.db.engine import Sessions
from jobs.db.tables import Attempt, Job, Slot
from jobs.lifecycle import leases
from jobs.people import projects
from jobs.runtime.hints import host_queue
from jobs.runtime.settings import Settings
from jobs.scheduling import draining
from tests.integration.jobs import job_rows
from tests.integration.jobs.writing import change, write
from tests.integration.worker.dispatcher.live_attempts import MakeDispatcher, live_leases, placed_jobs, standing
from tests.waiting import until
from worker.attempt.launcher import Launcher
from worker.dispatcher import Dispatcher

NOWHERE = "redis+socket:///nowhere/broker.sock"


def slots_of(attempt: Attempt) -> list[tuple[str, list[int]]]:
    """The hosts of an attempt, sorted by rank, and the indices of its slots there."""
    return [(share["host"], share["slots"]) for share in attempt.shares]


class ClaimingLauncher(Launcher):
    """Claims attempts and starts nothing."""

    def launch(self, attempt_id: int) -> bool:
        with self._sessions.begin() as session:
            return leases.claim(session, attempt_id, lease_s=60) is not None


def test_attempts_of_its_own_host_need_no_hint(
    sessions: Sessions, settings: Settings, make_dispatcher: MakeDispatcher, broker: str
) -> None:
    for host in ("ha", "hb"):
        job_rows.a_host(sessions, host)
        job_rows.a_job(sessions)
    launcher = ClaimingLauncher(sessions, settings)
    assert make_dispatcher(launcher=launcher, host_name="ha").run() == 2
    launcher.close()
    with sessions() as session:
        claimed = session.execute(select(Attempt.host, Attempt.claimed_at.is_not(None)).order_by(Attempt.host)).all()
    with redis.Redis.from_url(broker.replace("redis+socket://", "unix://")) as connection:
        until(lambda: connection.llen(host_queue("hb")) == 1, what="the other host's hint")
        assert not connection.llen(host_queue("ha"))
    assert claimed == [("ha", True), ("hb", False)]


def test_a_pass_that_was_asked_for_runs_soon(sessions: Sessions, dispatcher: Dispatcher) -> None:
    job_rows.a_host(sessions)
    for _ in range(3):
        job_id = job_rows.a_job(sessions, gpus=1)
        for _ in range(100):
            dispatcher.run_soon()
        until(lambda job_id=job_id: job_id in placed_jobs(sessions), what="its placement")
        job_rows.end_attempt(sessions, live_leases(sessions)[0])


def test_jobs_come_by_priority_and_age_without_a_broker(sessions: Sessions, make_dispatcher: MakeDispatcher) -> None:
    job_rows.a_host(sessions, slots=3)
    jobs = [job_rows.a_job(sessions, gpus=1, priority=priority) for priority in (50, 90, 50, 10)]
    assert make_dispatcher(NOWHERE).run() == 3
    assert placed_jobs(sessions) == [jobs[1], jobs[0], jobs[2]]


def test_no_job_is_placed_on_a_silent_or_drained_host(sessions: Sessions, make_dispatcher: MakeDispatcher) -> None:
    """Although each of them would be filled, which is what a pass prefers."""
    for name, slots in (("alive", 8), ("dead", 2), ("drained", 2)):
        job_rows.a_host(sessions, name, slots=slots)
    job_rows.host_went_silent(sessions, "dead", for_s=31)
    job_rows.drain_host(sessions, "drained")
    job_rows.a_job(sessions)
    assert make_dispatcher(host_timeout_s=30.0).run() == 1
    assert job_rows.the_attempt(sessions, live_leases(sessions)[0]).host == "alive"


def test_a_slot_that_is_out_of_use_is_not_leased(sessions: Sessions, dispatcher: Dispatcher) -> None:
    out_of_use: list[dict[str, Any]] = [
        {"quarantined_at": func.now()}, {"retired_at": func.now()}, {"unhealthy": "lost"}, {"in_use_by_others": True},
    ]  # fmt: skip
    job_rows.a_host(sessions, slots=6)
    with sessions.begin() as session:
        for index, values in enumerate(out_of_use):
            session.execute(update(Slot).where(Slot.index == index).values(**values))
    job_rows.a_job(sessions, gpus=3)
    job_rows.a_job(sessions, gpus=2)
    assert dispatcher.run() == 1
    (lease,) = live_leases(sessions)
    assert job_rows.holders(sessions) == [*[None] * 4, lease.attempt_id, lease.attempt_id]


def test_a_job_goes_on_several_hosts_that_work_together(sessions: Sessions, dispatcher: Dispatcher) -> None:
    for name, peers in (("hc", "eth0"), ("ha", "ib0"), ("hb", "eth0")):
        job_rows.a_host(sessions, name, slots=2, peers=peers)
    job_rows.a_host(sessions, "hd", slots=2)
    job_id = job_rows.a_job(sessions, gpus=4)
    assert dispatcher.run() == 1
    (lease,) = live_leases(sessions)
    attempt = job_rows.the_attempt(sessions, lease)
    assert (attempt.job_id, attempt.host, attempt.gpus) == (job_id, "hb", 4)
    assert slots_of(attempt) == [("hb", [0, 1]), ("hc", [0, 1])]
    ranks = [slot.rank for host in ("hb", "hc") for slot in job_rows.the_slots(sessions, host)]
    assert ranks == [0, 1, 2, 3]
    assert job_rows.holders(sessions, "ha") == job_rows.holders(sessions, "hd") == [None, None]


A100, A100_40, H100 = ("NVIDIA A100-SXM4-80GB", 85), ("NVIDIA A100-SXM4-40GB", 42), ("NVIDIA H100", 85)


def test_jobs_get_the_gpus_that_they_choose_and_that_nvlinks_join(sessions: Sessions, dispatcher: Dispatcher) -> None:
    cards = [A100_40, H100, A100_40, H100, ("NVIDIA H100", None), H100]
    joined = [{"gpus": pair, "nvlinks": links, "pcie": None} for pair, links in (([1, 3], 0), ([1, 5], 4), ([3, 5], 0))]
    job_rows.a_mixed_host(sessions, "ha", *cards, cpus=2, topology=joined)
    large = job_rows.a_job(sessions, gpus=2, gpu_memory_gb=80)
    mixed = job_rows.a_job(sessions, gpus=4, mixed_gpus=True)
    job_rows.a_job(sessions, gpus=1)  # the GPUs are busy: it does not take a CPU slot
    job_rows.a_job(sessions, gpus=1, gpu_model="b200")
    on_cpus = job_rows.a_job(sessions, gpus=2, device="cpu")
    assert dispatcher.run() == 3
    shares = {lease.job_id: job_rows.the_attempt(sessions, lease).shares[0] for lease in live_leases(sessions)}
    assert {job_id: sorted(share["slots"]) for job_id, share in shares.items()} == {
        large: [1, 5], mixed: [0, 2, 3, 4], on_cpus: [6, 7],
    }  # fmt: skip
    assert (shares[large]["devices"], shares[on_cpus]["devices"]) == (["NVIDIA H100"] * 2, ["cpu"] * 2)


def test_an_attempt_on_an_unhealthy_gpu_makes_no_room(sessions: Sessions, dispatcher: Dispatcher) -> None:
    job_rows.a_mixed_host(sessions, "ha", A100, A100)
    low = job_rows.a_job(sessions, gpus=2, priority=10)
    assert dispatcher.run() == 1
    change(sessions, update(Slot).where(Slot.index == 0).values(unhealthy="it is off the bus"))
    two = job_rows.a_job(sessions, gpus=2, priority=90)
    assert dispatcher.run() == 0
    (lease,) = live_leases(sessions)
    assert (lease.job_id, job_rows.the_attempt(sessions, lease).preempt_requested_at) == (low, None)
    assert (
        standing(sessions, two).reason == "needs 2 slots on one host; the largest host has 1; 1 slot of ha is unhealthy"
    )


def test_jobs_for_either_device_wait_while_a_gpu_host_is_lost(sessions: Sessions, dispatcher: Dispatcher) -> None:
    job_rows.a_mixed_host(sessions, "lost", A100)
    job_rows.host_went_silent(sessions, "lost")
    job_rows.a_host(sessions, "ha")
    waiting = job_rows.a_job(sessions, gpus=1)
    assert dispatcher.run() == 0
    reason = "needs 1 gpu slot; no live host has such slots (lost: lost); device: cpu would use CPU slots"
    assert standing(sessions, waiting).reason == reason
    write(sessions, draining.forget, "lost", host_timeout_s=60)
    assert dispatcher.run() == 1


def test_a_job_stored_by_an_older_version_takes_any_gpus(sessions: Sessions, dispatcher: Dispatcher) -> None:
    job_rows.a_mixed_host(sessions, "ha", A100)
    job_id = job_rows.a_job(sessions, gpus=1)
    with sessions.begin() as session:
        older = Job.spec.op("-")(cast(["gpu_model", "gpu_memory_gb", "mixed_gpus"], ARRAY(Text)))
        session.execute(update(Job).where(Job.id == job_id).values(spec=older))
    assert dispatcher.run() == 1


def test_many_dispatchers_lease_no_slot_twice(sessions: Sessions, make_dispatcher: MakeDispatcher) -> None:
    for host, slots in (("ha", 10), ("hb", 10)):  # the others leave some free, which a quota alone keeps from vision
        job_rows.a_host(sessions, host, slots=slots)
    write(sessions, projects.create, "vision", max_slots=3)
    dispatchers = [make_dispatcher() for _ in range(8)]
    of_vision = {job_rows.a_job(sessions, gpus=1 + number % 3, project="vision") for number in range(12)}
    waiting = of_vision | {job_rows.a_job(sessions, gpus=1 + number % 3) for number in range(6)}
    most = 0
    with ThreadPoolExecutor(8) as pool:
        while waiting:
            counts = list(pool.map(lambda dispatcher: dispatcher.run(), dispatchers))
            placed = {lease: job_rows.the_job(sessions, lease.job_id).gpus for lease in live_leases(sessions)}
            assert sum(counts) == len(placed) > 0
            slot_holders = [holder for host in ("ha", "hb") for holder in job_rows.holders(sessions, host)]
            assert all(slot_holders.count(lease.attempt_id) == gpus for lease, gpus in placed.items())
            most = max(most, sum(gpus for lease, gpus in placed.items() if lease.job_id in of_vision))
            for lease in placed:
                waiting.remove(lease.job_id)
                job_rows.end_attempt(sessions, lease)
    assert (most, job_rows.count(sessions, Attempt)) == (3, 18)


def test_a_pass_waits_for_the_one_before_it_and_further_calls_return(
    sessions: Sessions, make_dispatcher: MakeDispatcher
) -> None:
    """The waiting one will see all that the others would. Here the pass before it is elsewhere."""
    job_rows.a_host(sessions)
    made = [make_dispatcher() for _ in range(6)]
    with sessions() as session, ThreadPoolExecutor(6) as pool:
        session.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": 0x646973706174})
        runs = [pool.submit(dispatcher.run) for dispatcher in made]
        until(lambda: sum(run.done() for run in runs) >= 5, what="the calls that have nothing to add")
        job_rows.a_job(sessions)  # comes after the calls, before the pass
        session.commit()
        assert sorted(run.result(120) for run in runs) == [0] * 5 + [1]


def test_a_dispatcher_of_many_hosts_takes_only_some_turns(sessions: Sessions, dispatcher: Dispatcher) -> None:
    assert dispatcher.has_turn()  # it knows of no other
    for number in range(100):
        job_rows.a_host(sessions, f"h{number}", slots=1)
    dispatcher.run()
    assert 0 < sum(dispatcher.has_turn() for _ in range(2000)) < 200  # one in 25: 80, give or take 9
