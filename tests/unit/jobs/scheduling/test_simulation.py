"""Queues in simulated time: nothing is lost, nobody starves, and short jobs hardly wait. Forecasts simulate them on."""

import math
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.queue import POLICIES, replay
from jobs.scheduling.contenders import Account
from jobs.scheduling.fair_queue import PATIENCE_S
from jobs.scheduling.forecast import HORIZON_S, expected_starts_s, submitted_again
from jobs.scheduling.forecast_durations import History, Run, Survival
from jobs.scheduling.simulated_pass import HoraScheduler
from jobs.scheduling.simulation import SOON_S, Scheduler, SimulatedJob, Simulation, Slots, alike_hosts
from jobs.scheduling.slots import ClassSlots, HostSlots, SlotClass, SlotRequest

HOUR_S = 3600.0


class Watched:
    """A scheduler whose decisions are checked: no slot is held twice, and no attempt is asked twice."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._asked: set[int] = set()
        self._now_s = 0.0
        self.stretches_s = defaultdict[str, list[float]](list)  # each time that a job waited, by job

    def __getattr__(self, name: str) -> Any:
        return getattr(self._scheduler, name)

    def remove(self, job: SimulatedJob) -> None:
        self.stretches_s[job.job_id].append(self._now_s - job.queued_s)
        self._scheduler.remove(job)

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
    until_s = 3 * PATIENCE_S
    wide = SimulatedJob("wide", 0.0, numbers.uniform(600, 6 * HOUR_S), numbers.randint(1, 8))
    old = [wide, *(SimulatedJob(f"old{number}", -HOUR_S, 24 * HOUR_S, 1) for number in range(8))]
    flood = [
        SimulatedJob(f"{number:05}", numbers.uniform(0, until_s), numbers.uniform(600, 1700), numbers.choice((1, 2, 4)))
        for number in range(500)
    ]
    assert sum(job.duration_s * job.gpus for job in flood) > 1.1 * 8 * until_s
    watched = Watched(HoraScheduler("fair"))
    Simulation([*old, *flood], alike_hosts(1, 8)).run(watched)
    longest_s = [max(watched.stretches_s[job.job_id]) for job in old]
    assert max(longest_s) <= PATIENCE_S + 3 * HOUR_S  # so long an attempt may be left undisturbed
    assert max(longest_s) > PATIENCE_S - HOUR_S


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
    sizes, shares = (1, 2, 4, 8, 16), (60, 12, 16, 9, 3)
    shapes = [
        (min(numbers.lognormvariate(7.0, 2.6), 7 * 24 * HOUR_S), numbers.choices(sizes, shares)[0]) for _ in range(600)
    ]
    span_s = sum(duration_s * gpus for duration_s, gpus in shapes) / 48 / load
    times_s = sorted(numbers.uniform(0, span_s) for _ in shapes)
    return [
        SimulatedJob(f"{number:04}", at_s, duration_s, gpus)
        for number, (at_s, (duration_s, gpus)) in enumerate(zip(times_s, shapes, strict=True))
    ]


def test_short_jobs_hardly_wait_and_long_ones_no_longer_than_by_age() -> None:
    """The aims of the fair queue, against first come first served. Simulated time does not depend on the machine."""
    fair, fifo = (replay(policy, heavy_tailed(2, load=1.05), 6, 8) for policy in ("hora-fair", "fifo"))
    assert fair.p50_wait_s <= 0.10 * fifo.p50_wait_s
    assert fair.slowdown <= 0.20 * fifo.slowdown
    assert fair.p99_wait_s <= fifo.p99_wait_s
    assert fair.big_mean_wait_s <= fifo.big_mean_wait_s
    assert fair.utilization >= fifo.utilization - 0.02


ANN, BEN = Account("p", "ann"), Account("p", "ben")


@pytest.mark.parametrize(
    ("ended", "going_on", "age_s", "part", "left_s"),
    [
        # half of those that ran as long run longer
        ([1.0, 2.0, 3.0, 4.0], [], 0.0, 0.5, 2.0),
        ([1.0, 2.0, 3.0, 4.0], [], 2.0, 0.5, 1.0),
        ([1.0, 2.0, 3.0, 4.0], [], 0.0, 0.75, 1.0),
        ([1.0, 2.0, 3.0, 4.0], [], 4.0, 0.5, 4.0),  # longer than all: as long again
        # two ended after 1 s; of the four that were left, two go on after 2 s, and two ended after 3 s
        ([1.0, 1.0, 3.0, 3.0], [2.0, 2.0], 0.0, 0.5, 3.0),
        ([1.0], [9.0, 9.0, 9.0], 0.0, 0.5, 1.5),  # three quarters run longer than 1 s
        # without history the first guess, which grows with the age
        ([], [], 0.0, 0.5, 600.0),
        ([], [], 1000.0, 0.5, 1000.0),
    ],
)
def test_jobs_run_on_as_those_did_that_ran_as_long(
    ended: list[float], going_on: list[float], age_s: float, part: float, left_s: float
) -> None:
    assert Survival(ended, going_on).left(age_s, part, first=600.0) == pytest.approx(left_s)


def test_an_attempt_that_says_when_it_ends_is_believed() -> None:
    assert History([]).left_s([Run(ANN, 0.0, 50.0, eta_s=7.0, time_limit_s=9000.0)]) == [7.0]


def ended(account: Account, durations_s: Sequence[float]) -> list[Run]:
    return [Run(account, float(number), ran_s, has_ended=True) for number, ran_s in enumerate(durations_s)]


def test_limits_are_corrected_by_how_wrong_they_were() -> None:
    """People ask for ten times of what they need."""
    durations_s = [100.0, 1000.0, 5000.0, 20_000.0, 300.0, 40.0]
    past = [Run(ANN, 0.0, ran_s, has_ended=True, time_limit_s=10 * ran_s) for ran_s in durations_s]
    assert History(past).left_s([Run(ANN, 9.0, 0.0, time_limit_s=7000.0)]) == [pytest.approx(700.0)]
    assert History(past).left_s([Run(ANN, 9.0, 300.0, time_limit_s=7000.0)]) == [pytest.approx(400.0)]


def test_limits_that_say_nothing_are_only_the_longest_time() -> None:
    ran_and_limits_s = {90.0: 100.0, 100.0: 1e6, 110.0: 2e3, 101.0: 5e4, 95.0: 300.0, 105.0: 1e5}
    past = [Run(ANN, 0.0, ran_s, has_ended=True, time_limit_s=limit_s) for ran_s, limit_s in ran_and_limits_s.items()]
    (left_s,) = History(past).left_s([Run(ANN, 9.0, 0.0, time_limit_s=1e6)])
    assert 90 <= left_s <= 110
    assert History(past).left_s([Run(ANN, 9.0, 0.0, time_limit_s=60.0)]) == [60.0]


def test_runs_like_it_come_before_what_others_ran() -> None:
    past = ended(ANN, [10.0, 3000.0, 50.0, 9000.0, 700.0])
    assert History(past).left_s([Run(ANN, 9.0, 20.0, runs_s=[120.0, 100.0, 90.0])]) == [80.0]


def test_users_with_many_jobs_are_compared_with_themselves() -> None:
    past = [
        *ended(ANN, [60.0 + number for number in range(30)]),
        *ended(BEN, [6000.0 + number for number in range(30)]),
    ]
    ann_s, ben_s = History(past).left_s([Run(ANN, 40.0, 0.0), Run(BEN, 40.0, 0.0)])
    assert 60 <= ann_s <= 90
    assert 6000 <= ben_s <= 6030


def test_jobs_alike_are_believed_to_end_as_spread_as_the_others_did() -> None:
    lefts_s = History(ended(ANN, [100.0 * number for number in range(1, 20)])).left_s([Run(ANN, 9.0, 0.0)] * 12)
    assert min(lefts_s) <= 200
    assert max(lefts_s) >= 1700
    assert 800 <= sorted(lefts_s)[6] <= 1200


def test_starts_of_two_jobs_behind_one_that_runs() -> None:
    """One host of two slots. The job of two slots waits for the running one, and the third for a slot of that."""
    host = HostSlots("h", (ClassSlots(SlotClass("h", "gpu"), (1,), 2),), None)
    runs = SimulatedJob("a", 0.0, 900.0, 1)
    runs.slots, runs.begun_s, runs.attempt_id = ((SlotClass("h", "gpu"), (0,)),), 100.0, 7
    wide, last = SimulatedJob("b", 200.0, 500.0, 2), SimulatedJob("c", 300.0, 50.0, 1)
    jobs = [
        job.believed(900.0 - job.held_s(400.0) if job is runs else job.duration_s, 400.0) for job in (runs, wide, last)
    ]
    expected = expected_starts_s(jobs, [host], HoraScheduler("fifo"), now_s=400.0)
    assert expected == {"b": pytest.approx(600.0), "c": pytest.approx(1100.0)}
    assert runs.left_s == 900.0  # copies were simulated


def test_jobs_for_which_no_host_is_large_enough_have_no_start() -> None:
    jobs = [SimulatedJob("a", 0.0, 10.0, 4), SimulatedJob("b", 0.0, 10.0, 1, request=SlotRequest(1, gpu_model="H100"))]
    assert expected_starts_s(jobs, alike_hosts(1, 2), HoraScheduler("fair"), now_s=5.0) == {}


def test_starts_beyond_the_horizon_are_left_out_and_so_are_those_after_it_is_enough() -> None:
    def expected(is_enough: Callable[[], bool]) -> dict[str, float]:
        jobs = [SimulatedJob(f"{number}", 0.0, HORIZON_S * 0.6, 1) for number in range(4)]
        return expected_starts_s(jobs, alike_hosts(1, 1), HoraScheduler("fifo"), now_s=1.0, is_enough=is_enough)

    assert expected(lambda: False) == {"0": 0.0, "1": pytest.approx(HORIZON_S * 0.6)}
    assert expected(lambda: True) == {"0": 0.0}


def test_what_was_submitted_is_submitted_again_after_as_much_time() -> None:
    jobs = [SimulatedJob("a", 10.0, 5.0, 2, "ann"), SimulatedJob("b", 70.0, 5.0, 1), SimulatedJob("c", 100.0, 5.0, 1)]
    (again,) = submitted_again(jobs, [5.0, 30.0, 5.0], since_s=60.0, now_s=100.0)
    assert (again.submitted_s, again.duration_s, again.gpus) == (110.0, 30.0, 1)


@settings(max_examples=25, deadline=None)
@given(MANY, st.sampled_from(["fair", "fifo"]), st.floats(0.2, 0.8))
def test_a_forecast_with_exact_durations_and_no_arrivals_is_what_happens(
    rows: list[tuple[float, float, int, str, int]], queue: str, part: float
) -> None:
    """All jobs are submitted early. Somewhere in between, the state is taken and simulated on.

    Saving takes no time here: a forecast does not know when a job began to save.
    """
    jobs = [
        SimulatedJob(f"{number:03}", at_s / HOUR_S, duration_s, gpus, user, "p", priority, cost_s=0.0)
        for number, (at_s, duration_s, gpus, user, priority) in enumerate(rows)
    ]
    simulation, scheduler = Simulation(jobs, alike_hosts(2, 4)), HoraScheduler(queue)
    expected: dict[str, float] = {}
    starts_s: dict[str, float] = {}
    begun = 0
    for number, now_s in enumerate(simulation.steps(scheduler)):
        waiting = [job for job in jobs if job.submitted_s <= now_s and not job.slots and math.isnan(job.ended_s)]
        if not expected and waiting and now_s > 10 and number >= part * 40:
            present = [*simulation.live.values(), *waiting]
            believed = [job.believed(job.left_s - job.held_s(now_s), now_s) for job in present]
            expected = expected_starts_s(believed, simulation.hosts, scheduler.with_empty_queue(), now_s=now_s)
            expected = {job_id: now_s + in_s for job_id, in_s in expected.items()}
            begun = max(simulation.live, default=0)
        for job in simulation.live.values():
            if expected and job.attempt_id > begun and job.begun_s == now_s:
                starts_s.setdefault(job.job_id, now_s)
    for job_id, at_s in expected.items():
        assert starts_s[job_id] == pytest.approx(at_s, abs=1.0)
