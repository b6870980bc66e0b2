"""A job is placed once, in its turn, on free slots of hosts that are alive."""

from typing import Any

import redis
from sqlalchemy import Text, cast, func, select, update
from sqlalchemy.dialects.postgresql import ARRAY

from jobs.db.engine import Sessions
from jobs.db.tables import Attempt, Job, Slot
from jobs.lifecycle import leases
from jobs.runtime.hints import host_queue
from jobs.runtime.settings import Settings
from jobs.scheduling import draining
from jobs.scheduling.queue import standings
from tests.integration.jobs import job_rows
from tests.integration.worker.dispatcher.live_attempts import MakeDispatcher, complete, live_leases, placed_jobs
from tests.waiting import until
from worker.attempt.launcher import Launcher

NOWHERE = "redis+socket:///nowhere/broker.sock"


def slots_of(attempt: Attempt) -> list[tuple[str, list[int]]]:
    """The hosts of an attempt, sorted by rank, and the indices of its slots there."""
    return [(share["host"], share["slots"]) for share in attempt.shares]


class ClaimingLauncher(Launcher):
    """Claims attempts and starts nothing."""

    def launch(self, attempt_id: int) -> bool:
        with self._sessions.begin() as session:
            return leases.claim(session, attempt_id, lease_s=60) is not None


def test_attempts_of_its_own_host_are_launched_without_a_hint(
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


def test_a_pass_that_was_asked_for_runs_soon(sessions: Sessions, make_dispatcher: MakeDispatcher) -> None:
    job_rows.a_host(sessions)
    dispatcher = make_dispatcher()
    for _ in range(3):
        job_id = job_rows.a_job(sessions, gpus=1)
        for _ in range(100):
            dispatcher.run_soon()
        until(lambda job_id=job_id: job_id in placed_jobs(sessions), what="its placement")
        complete(sessions, live_leases(sessions)[0])


def test_jobs_are_placed_by_priority_then_age_also_without_a_broker(
    sessions: Sessions, make_dispatcher: MakeDispatcher
) -> None:
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


def test_a_slot_that_is_out_of_use_is_not_leased(sessions: Sessions, make_dispatcher: MakeDispatcher) -> None:
    out_of_use: list[dict[str, Any]] = [
        {"quarantined_at": func.now()}, {"retired_at": func.now()}, {"unhealthy": "lost"}, {"in_use_by_others": True},
    ]  # fmt: skip
    job_rows.a_host(sessions, slots=6)
    with sessions.begin() as session:
        for index, values in enumerate(out_of_use):
            session.execute(update(Slot).where(Slot.index == index).values(**values))
    job_rows.a_job(sessions, gpus=3)
    job_rows.a_job(sessions, gpus=2)
    assert make_dispatcher().run() == 1
    (lease,) = live_leases(sessions)
    assert job_rows.holders(sessions) == [*[None] * 4, lease.attempt_id, lease.attempt_id]


def test_a_job_goes_on_several_hosts_that_work_together(sessions: Sessions, make_dispatcher: MakeDispatcher) -> None:
    for name, peers in (("hc", "eth0"), ("ha", "ib0"), ("hb", "eth0")):
        job_rows.a_host(sessions, name, slots=2, peers=peers)
    job_rows.a_host(sessions, "hd", slots=2)
    job_id = job_rows.a_job(sessions, gpus=4)
    assert make_dispatcher().run() == 1
    (lease,) = live_leases(sessions)
    attempt = job_rows.the_attempt(sessions, lease)
    assert (attempt.job_id, attempt.host, attempt.gpus) == (job_id, "hb", 4)
    assert slots_of(attempt) == [("hb", [0, 1]), ("hc", [0, 1])]
    ranks = [slot.rank for host in ("hb", "hc") for slot in job_rows.the_slots(sessions, host)]
    assert ranks == [0, 1, 2, 3]
    assert job_rows.holders(sessions, "ha") == job_rows.holders(sessions, "hd") == [None, None]


A100, A100_40, H100 = ("NVIDIA A100-SXM4-80GB", 85), ("NVIDIA A100-SXM4-40GB", 42), ("NVIDIA H100", 85)


def test_jobs_get_the_gpus_that_they_choose(sessions: Sessions, make_dispatcher: MakeDispatcher) -> None:
    job_rows.a_mixed_host(sessions, "ha", A100_40, H100, A100_40, H100, ("NVIDIA H100", None), cpus=2)
    large = job_rows.a_job(sessions, gpus=2, gpu_memory_gb=80)
    mixed = job_rows.a_job(sessions, gpus=3, mixed_gpus=True)
    job_rows.a_job(sessions, gpus=1)  # the GPUs are busy: it does not take a CPU slot
    job_rows.a_job(sessions, gpus=1, gpu_model="b200")
    on_cpus = job_rows.a_job(sessions, gpus=2, device="cpu")
    assert make_dispatcher().run() == 3
    shares = {lease.job_id: job_rows.the_attempt(sessions, lease).shares[0]["slots"] for lease in live_leases(sessions)}
    assert shares == {large: [1, 3], mixed: [0, 2, 4], on_cpus: [5, 6]}
    devices = [job_rows.the_attempt(sessions, lease).shares[0]["devices"] for lease in live_leases(sessions)]
    assert sorted(devices) == [
        ["NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-40GB", "NVIDIA H100"],
        ["NVIDIA H100", "NVIDIA H100"],
        ["cpu", "cpu"],
    ]


def test_cards_that_nvlinks_join_are_taken_together(sessions: Sessions, make_dispatcher: MakeDispatcher) -> None:
    joined = [{"gpus": [0, 3], "nvlinks": 4, "pcie": None}, {"gpus": [1, 2], "nvlinks": 4, "pcie": None}]
    others = [{"gpus": pair, "nvlinks": None, "pcie": "node"} for pair in ([0, 1], [0, 2], [1, 3], [2, 3])]
    job_rows.a_mixed_host(sessions, "ha", A100, A100, A100, A100, topology=[*others, *joined])
    job_rows.a_job(sessions, gpus=2)
    assert make_dispatcher().run() == 1
    (lease,) = live_leases(sessions)
    assert slots_of(job_rows.the_attempt(sessions, lease)) == [("ha", [0, 3])]


def test_an_attempt_on_an_unhealthy_gpu_is_not_expected_to_release_it(
    sessions: Sessions, make_dispatcher: MakeDispatcher
) -> None:
    job_rows.a_mixed_host(sessions, "ha", A100, A100)
    low = job_rows.a_job(sessions, gpus=2, priority=10)
    dispatcher = make_dispatcher()
    assert dispatcher.run() == 1
    with sessions.begin() as session:
        session.execute(update(Slot).where(Slot.index == 0).values(unhealthy="it is off the bus"))
    two = job_rows.a_job(sessions, gpus=2, priority=90)
    assert dispatcher.run() == 0
    (lease,) = live_leases(sessions)
    assert (lease.job_id, job_rows.the_attempt(sessions, lease).preempt_requested_at) == (low, None)
    with sessions() as session:
        reason = standings(session, [two], host_timeout_s=60)[two].reason
    assert reason == "needs 2 slots on one host; the largest host has 1; 1 slot of ha is unhealthy"


def test_jobs_for_either_device_do_not_take_cpu_slots_while_a_gpu_host_is_lost(
    sessions: Sessions, make_dispatcher: MakeDispatcher
) -> None:
    job_rows.a_mixed_host(sessions, "lost", A100)
    job_rows.host_went_silent(sessions, "lost")
    job_rows.a_host(sessions, "ha")
    waiting = job_rows.a_job(sessions, gpus=1)
    dispatcher = make_dispatcher()
    assert dispatcher.run() == 0
    with sessions() as session:
        reason = standings(session, [waiting], host_timeout_s=60)[waiting].reason
    hint = "device: cpu would use CPU slots"
    assert reason == f"needs 1 gpu slot; no live host has such slots (lost: lost); {hint}"
    with sessions.begin() as session:
        draining.forget(session, "lost", host_timeout_s=60)
    assert dispatcher.run() == 1


def test_a_job_stored_by_an_older_version_takes_any_gpus(sessions: Sessions, make_dispatcher: MakeDispatcher) -> None:
    job_rows.a_mixed_host(sessions, "ha", A100)
    job_id = job_rows.a_job(sessions, gpus=1)
    with sessions.begin() as session:
        older = Job.spec.op("-")(cast(["gpu_model", "gpu_memory_gb", "mixed_gpus"], ARRAY(Text)))
        session.execute(update(Job).where(Job.id == job_id).values(spec=older))
    assert make_dispatcher().run() == 1
