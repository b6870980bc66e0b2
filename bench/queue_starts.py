"""Forecasts of starts during a replay, and how good they were.

At some submissions the queue is simulated forward, with what is known then: how long the jobs ran that have ended, and
how long the others have run. No duration of a job that has not ended is looked at.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from jobs.scheduling.forecast import AGAIN_S, expected_starts_s, submitted_again
from jobs.scheduling.forecast_durations import History, Run
from jobs.scheduling.forecast_rows import SHORTEST_S
from jobs.scheduling.simulated_pass import HoraScheduler
from jobs.scheduling.simulation import SOON_S, SimulatedJob, Simulation, Slots


@dataclass(frozen=True)
class StartFigures:
    """How good the forecasts were. An error is how many times too long or too short one was.

    `waited` are the jobs that waited for more than a minute. None: there are none.
    """

    jobs: int
    median_error: float | None
    within_2: float | None
    waited: int
    waited_median_error: float | None
    waited_within_2: float | None


class Forecasting:
    """A scheduler whose decisions are forecast, for each `every`-th job at its submission."""

    def __init__(self, scheduler: HoraScheduler, *, every: int) -> None:
        self._scheduler = scheduler
        self._every = every
        self._submitted: list[SimulatedJob] = []
        self._new: list[SimulatedJob] = []
        self._waiting: dict[str, SimulatedJob] = {}
        self._ended: set[str] = set()
        self.expected: list[tuple[SimulatedJob, float]] = []  # and the time at which it is expected to start

    def add(self, job: SimulatedJob) -> None:
        """A job begins to wait."""
        if not job.slot_s:
            if len(self._submitted) % self._every == 0:
                self._new.append(job)
            self._submitted.append(job)
        self._waiting[job.job_id] = job
        self._scheduler.add(job)

    def remove(self, job: SimulatedJob) -> None:
        """A job got slots."""
        del self._waiting[job.job_id]
        self._scheduler.remove(job)

    def released(self, job: SimulatedJob, now_s: float) -> None:
        """An attempt ended, and perhaps its job."""
        self._scheduler.released(job, now_s)
        if now_s > job.ends_s - SOON_S:
            self._ended.add(job.job_id)

    def looks_again_in_s(self, simulation: Simulation) -> float:
        """As the scheduler does."""
        return self._scheduler.looks_again_in_s(simulation)

    def decide(self, simulation: Simulation) -> tuple[Mapping[str, Slots], Sequence[int]]:
        """Forecast the new jobs before the scheduler decides."""
        if self._new:
            now_s = simulation.now_s
            starts_s = self._forecast(simulation)
            self.expected += [(job, now_s + starts_s[job.job_id]) for job in self._new if job.job_id in starts_s]
            self._new = []
        return self._scheduler.decide(simulation)

    def figures(self) -> StartFigures:
        """How good the forecasts were, after the replay."""
        errors = [
            (_error(starts_s - job.submitted_s, actual_s), actual_s)
            for job, starts_s in self.expected
            for actual_s in [job.first_start_s - job.submitted_s]
        ]
        of_all = [error for error, _ in errors]
        of_waited = [error for error, actual_s in errors if actual_s > SHORTEST_S]
        return StartFigures(*_summary(of_all), *_summary(of_waited))

    def _forecast(self, simulation: Simulation) -> Mapping[str, float]:
        now_s = simulation.now_s
        present = [*simulation.live.values(), *self._waiting.values()]
        runs = {job.job_id: self._run(job, now_s) for job in self._submitted}
        lefts_s = History(runs.values()).left_s(runs[job.job_id] for job in present)
        left_s = {job.job_id: left for job, left in zip(present, lefts_s, strict=True)}
        since_s = max(now_s - AGAIN_S, self._submitted[0].submitted_s)
        recent = self._submitted[bisect_left(self._submitted, since_s, key=lambda job: job.submitted_s) :]
        durations_s = [job.ran_s(now_s) + left_s.get(job.job_id, 0.0) for job in recent]
        jobs = [job.believed(left_s[job.job_id], now_s) for job in present]
        jobs += submitted_again(recent, durations_s, since_s=since_s, now_s=now_s)
        scheduler = self._scheduler.with_empty_queue()
        awaited = {job.job_id for job in self._new}
        return expected_starts_s(jobs, simulation.hosts, scheduler, now_s=now_s, awaited=awaited)

    def _run(self, job: SimulatedJob, now_s: float) -> Run:
        return Run(job.account, job.submitted_s, job.ran_s(now_s), has_ended=job.job_id in self._ended)


def _error(expected_s: float, actual_s: float) -> float:
    ratio = max(expected_s, SHORTEST_S) / max(actual_s, SHORTEST_S)
    return max(ratio, 1 / ratio)


def _summary(errors: Sequence[float]) -> tuple[int, float | None, float | None]:
    if not errors:
        return 0, None, None
    return len(errors), median(errors), sum(error <= 2 for error in errors) / len(errors)
