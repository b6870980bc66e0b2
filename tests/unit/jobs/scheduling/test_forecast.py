"""When queued jobs are expected to start, and how long jobs are believed to run."""

import math
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.scheduling.contenders import Account
from jobs.scheduling.forecast import HORIZON_S, expected_starts_s, submitted_again
from jobs.scheduling.forecast_durations import History, Run, Survival
from jobs.scheduling.simulated_pass import HoraScheduler
from jobs.scheduling.simulation import SimulatedJob, Simulation, alike_hosts
from jobs.scheduling.slots import ClassSlots, HostSlots, SlotClass, SlotRequest
from tests.unit.jobs.scheduling.test_simulation import MANY

HOUR_S = 3600.0
ANN, BEN = Account("p", "ann"), Account("p", "ben")


def test_half_of_those_that_ran_as_long_run_longer() -> None:
    survival = Survival([1.0, 2.0, 3.0, 4.0])
    assert survival.left(0.0, 0.5, first=1.0) == 2.0
    assert survival.left(2.0, 0.5, first=1.0) == 1.0
    assert survival.left(0.0, 0.75, first=1.0) == 1.0
    assert survival.left(4.0, 0.5, first=1.0) == 4.0  # longer than all: as long again
    assert survival.longer_than(2.0) == 2


def test_those_that_have_not_ended_run_longer_than_they_have_run() -> None:
    """Two ended after 1 s; of the four that were left, two go on after 2 s, and two ended after 3 s."""
    survival = Survival([1.0, 1.0, 3.0, 3.0], [2.0, 2.0])
    assert survival.left(0.0, 0.5, first=1.0) == 3.0
    assert Survival([1.0], [9.0, 9.0, 9.0]).left(0.0, 0.5, first=1.0) == pytest.approx(1.5)  # 3/4 run longer than 1 s


def test_without_history_a_first_guess_is_made_and_grows_with_the_age() -> None:
    nothing = Survival([])
    assert nothing.left(0.0, 0.5, first=600.0) == 600.0
    assert nothing.left(1000.0, 0.5, first=600.0) == 1000.0


def test_an_attempt_that_says_when_it_ends_is_believed() -> None:
    assert History([]).left_s([Run(ANN, 0.0, 50.0, eta_s=7.0, time_limit_s=9000.0)]) == [7.0]


def ended(account: Account, durations_s: Sequence[float], **more: float) -> list[Run]:
    return [Run(account, float(number), ran_s, has_ended=True, **more) for number, ran_s in enumerate(durations_s)]


def test_limits_are_corrected_by_how_wrong_they_were() -> None:
    """People ask for ten times of what they need."""
    durations_s = [100.0, 1000.0, 5000.0, 20_000.0, 300.0, 40.0]
    past = [Run(ANN, 0.0, ran_s, has_ended=True, time_limit_s=10 * ran_s) for ran_s in durations_s]
    assert History(past).left_s([Run(ANN, 9.0, 0.0, time_limit_s=7000.0)]) == [pytest.approx(700.0)]
    assert History(past).left_s([Run(ANN, 9.0, 300.0, time_limit_s=7000.0)]) == [pytest.approx(400.0)]


def test_limits_that_say_nothing_are_only_the_longest_time() -> None:
    past = ended(ANN, [90.0, 100.0, 110.0, 100.0, 95.0, 105.0])
    limits_s = [100.0, 1e6, 2e3, 5e4, 300.0, 1e5]
    past = [
        Run(ANN, run.submitted_s, run.ran_s, True, time_limit_s=limit)
        for run, limit in zip(past, limits_s, strict=True)
    ]
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
