"""Queues in simulated time: nothing is lost, nobody starves, and short jobs hardly wait."""

import random
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.queue import POLICIES, Figures, replay
from jobs.scheduling.fair_queue import PATIENCE_S
from jobs.scheduling.simulated_pass import HoraScheduler
from jobs.scheduling.simulation import SOON_S, Scheduler, SimulatedJob, Simulation, Slots, alike_hosts
from jobs.scheduling.slots import SlotClass

HOUR_S = 3600.0


class Watched:
    """A scheduler whose decisions are checked: no slot is held twice, and no attempt is asked twice."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._asked: set[int] = set()
        self._now_s = 0.0
        self.stretches_s = defaultdict[str, list[float]](list)  # each time that a job waited, by job

    def add(self, job: SimulatedJob) -> None:
        self._scheduler.add(job)

    def remove(self, job: SimulatedJob) -> None:
        self.stretches_s[job.job_id].append(self._now_s - job.queued_s)
        self._scheduler.remove(job)

    def released(self, job: SimulatedJob, now_s: float) -> None:
        self._scheduler.released(job, now_s)

    def looks_again_in_s(self, simulation: Simulation) -> float:
        return self._scheduler.looks_again_in_s(simulation)

    def decide(self, simulation: Simulation) -> tuple[Mapping[str, Slots], Sequence[int]]:
        self._now_s = simulation.now_s
        started, asked = self._scheduler.decide(simulation)
        held = [slot for job in simulation.live.values() for slot in slots_of(job.slots)]
        taken = [slot for slots in started.values() for slot in slots_of(slots)]
        assert len(set(held + taken)) == len(held) + len(taken) <= simulation.slots["gpu"]
        assert all(len(slots_of(slots)) == simulation.jobs[job_id].gpus for job_id, slots in started.items())
        assert self._asked.isdisjoint(asked)
        assert simulation.live.keys() >= set(asked)
        self._asked.update(asked)
        return started, asked


def slots_of(slots: Slots) -> list[tuple[SlotClass, int]]:
    return [(of, index) for of, indices in slots for index in indices]


MANY = st.lists(
    st.tuples(
        st.floats(0, 8 * HOUR_S),
        st.floats(0, 40 * HOUR_S),
        st.sampled_from([1, 1, 1, 2, 4, 8]),
        st.sampled_from("abc"),
        st.sampled_from([50, 50, 50, 60]),
    ),
    min_size=1,
    max_size=40,
)


@settings(max_examples=60, deadline=None)
@given(MANY, st.sampled_from(list(POLICIES)))
def test_every_job_gets_what_it_needs_and_no_slot_is_held_twice(
    rows: list[tuple[float, float, int, str, int]], policy: str
) -> None:
    jobs = [
        SimulatedJob(f"{number:03}", at_s, duration_s, gpus, user, "p", priority)
        for number, (at_s, duration_s, gpus, user, priority) in enumerate(rows)
    ]
    simulation = Simulation(jobs, alike_hosts(2, 4))
    simulation.run(Watched(POLICIES[policy]()))
    for job in jobs:
        cost_s = job.preemptions * job.cost_s
        assert job.wait_s >= cost_s - 1.001 * SOON_S * (1 + job.preemptions)  # and what floats lose
        assert job.slot_s == pytest.approx((job.duration_s + cost_s) * job.gpus, abs=1e-2 * (1 + job.preemptions))
    assert simulation.live == {}


def test_old_jobs_get_slots_again_and_again_however_many_new_ones_come() -> None:
    """New jobs alone are more than the slots can do. After twelve hours an old job is next, also a wide one."""
    numbers = random.Random(0)  # noqa: S311 - nothing secret
    until_s = 6 * PATIENCE_S
    wide = SimulatedJob("wide", 0.0, numbers.uniform(600, 6 * HOUR_S), numbers.randint(1, 8))
    old = [wide, *(SimulatedJob(f"old{number}", -HOUR_S, 24 * HOUR_S, 1) for number in range(8))]
    flood = [
        SimulatedJob(f"{number:05}", numbers.uniform(0, until_s), numbers.uniform(600, 1700), numbers.choice((1, 2, 4)))
        for number in range(1000)
    ]
    assert sum(job.duration_s * job.gpus for job in flood) > 1.1 * 8 * until_s
    watched = Watched(HoraScheduler("fair"))
    Simulation([*old, *flood], alike_hosts(1, 8)).run(watched)
    longest_s = [max(watched.stretches_s[job.job_id]) for job in old]
    assert max(longest_s) <= PATIENCE_S + 3 * HOUR_S  # so long an attempt may be left undisturbed
    assert max(longest_s) > PATIENCE_S - HOUR_S


def test_studies_and_single_jobs_of_others_share() -> None:
    many = [SimulatedJob(f"m{number:02}", 0.0, 2 * HOUR_S, 1, "ann", "p") for number in range(40)]
    two = [SimulatedJob(f"t{number}", HOUR_S, HOUR_S, 1, "ben", "p") for number in range(2)]
    simulation = Simulation([*many, *two], alike_hosts(1, 4))
    simulation.run(HoraScheduler("fair"))
    assert max(job.wait_s for job in two) < 120
    by_age = [SimulatedJob(job.job_id, job.submitted_s, job.duration_s, 1, job.user, "p") for job in [*many, *two]]
    Simulation(by_age, alike_hosts(1, 4)).run(HoraScheduler("fifo"))
    assert min(job.wait_s for job in by_age[40:]) > 15 * HOUR_S


def test_shares_of_projects_hold_over_time() -> None:
    jobs = [
        SimulatedJob(f"{project}{number:03}", 0.0, 1200.0, 1, "u", project)
        for project in ("double", "single")
        for number in range(400)
    ]
    Simulation(jobs, alike_hosts(1, 6)).run(HoraScheduler("fair", shares={"double": 2.0}))
    done = Counter(job.project for job in jobs if job.ended_s <= 30 * HOUR_S)
    assert done["double"] / done["single"] == pytest.approx(2.0, rel=0.1)


def heavy_tailed(seed: int, *, load: float) -> list[SimulatedJob]:
    """600 jobs as people submit them: half of them take minutes, a few take days, some are wide."""
    numbers = random.Random(seed)  # noqa: S311 - nothing secret
    shapes = [
        (
            min(numbers.lognormvariate(7.0, 2.6), 7 * 24 * HOUR_S),
            numbers.choices((1, 2, 4, 8, 16), (60, 12, 16, 9, 3))[0],
        )
        for _ in range(600)
    ]
    span_s = sum(duration_s * gpus for duration_s, gpus in shapes) / 48 / load
    times_s = sorted(numbers.uniform(0, span_s) for _ in shapes)
    return [
        SimulatedJob(f"{number:04}", at_s, duration_s, gpus)
        for number, (at_s, (duration_s, gpus)) in enumerate(zip(times_s, shapes, strict=True))
    ]


@pytest.mark.parametrize(("seed", "load"), [(1, 0.9), (2, 1.05)])
def test_short_jobs_hardly_wait_and_long_ones_no_longer_than_by_age(seed: int, load: float) -> None:
    """The aims of the fair queue, against first come first served. Simulated time does not depend on the machine."""

    def figures(policy: str) -> Figures:
        return replay(policy, heavy_tailed(seed, load=load), 6, 8)

    fair, fifo = figures("hora-fair"), figures("fifo")
    assert fair.p50_wait_s <= 0.10 * fifo.p50_wait_s
    assert fair.slowdown <= 0.20 * fifo.slowdown
    assert fair.p99_wait_s <= fifo.p99_wait_s
    assert fair.big_mean_wait_s is not None
    assert fifo.big_mean_wait_s is not None
    assert fair.big_mean_wait_s <= fifo.big_mean_wait_s
    assert fair.utilization >= fifo.utilization - 0.02
