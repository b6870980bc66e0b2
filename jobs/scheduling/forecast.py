"""When queued jobs are expected to start: the queue, simulated from now on. Pure.

Called by `worker.forecaster` with what the rows say, and by `bench.queue_starts` with the state of a simulation.
"""

import math
from collections.abc import Callable, Collection, Iterable

from jobs.scheduling.simulation import Scheduler, SimulatedJob, Simulation
from jobs.scheduling.slots import HostSlots

HORIZON_S = 14 * 86_400.0  # nobody knows what is later
AGAIN_S = 86_400.0  # what was submitted in so much time is expected to be submitted again


def expected_starts_s(
    jobs: Iterable[SimulatedJob],
    hosts: Iterable[HostSlots],
    scheduler: Scheduler,
    *,
    now_s: float = 0.0,
    awaited: Collection[str] | None = None,
    is_enough: Callable[[], bool] = lambda: False,
) -> dict[str, float]:
    """In how many seconds each of the waiting jobs starts, by id; only of those `awaited`, if it is given.

    `jobs` are those that hold slots, those that wait, and any that are expected to be submitted later; `left_s` of each
    is how long it is believed to run. The simulation changes them. Left out are jobs that do not start within the
    horizon, and those that had not started when it `is_enough`, which is asked after every decision.
    """
    simulation = Simulation(jobs, hosts, begins_s=now_s)
    waiting = [
        job
        for job in simulation.jobs.values()
        if not job.slots and job.submitted_s <= now_s and (awaited is None or job.job_id in awaited)
    ]
    left = list(waiting)
    for at_s in simulation.steps(scheduler):
        while left and not math.isnan(left[-1].first_start_s):
            left.pop()
        if not left or at_s > now_s + HORIZON_S or is_enough():
            break
    return {job.job_id: job.first_start_s - now_s for job in waiting if job.first_start_s <= now_s + HORIZON_S}


def submitted_again(
    jobs: Iterable[SimulatedJob], durations_s: Iterable[float], *, since_s: float, now_s: float
) -> list[SimulatedJob]:
    """The jobs that were submitted after that, as they are expected to be submitted again in as much time from now on.

    `durations_s` are the times that they took, or are believed to take.
    """
    return [
        SimulatedJob(
            f"{job.job_id} again", job.submitted_s + (now_s - since_s), duration_s, job.gpus, job.user, job.project,
            job.priority, request=job.request, cost_s=job.cost_s, estimate_s=job.estimate_s,
            burst=job.burst and f"{job.burst} again",
        )
        for job, duration_s in zip(jobs, durations_s, strict=True)
        if since_s < job.submitted_s < now_s
    ]  # fmt: skip
