"""Throughput by GPUs and batch, from past jobs: measured, or interpolated between measurements. Pure.

Between two batches, throughput is assumed to grow with the logarithm of the batch; between two GPU counts, as a power
of the count. Nothing is extrapolated.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from jobs.insight.advice.past import PastJob
from jobs.model.plan import UnworkablePlan, resolve_plan
from jobs.model.spec import Spec
from jobs.views.advice import Range

Point = tuple[int, int]  # GPUs, and the batch per GPU


@dataclass(frozen=True)
class Reading:
    """A throughput and the jobs that it follows from. `measured`: with exactly these GPUs and this batch."""

    samples_per_s: Range
    jobs: tuple[str, ...]
    measured: bool = True
    between_gpus: bool = False

    @property
    def mean(self) -> float:
        """The mean of `samples_per_s`."""
        return self.samples_per_s.mean


class Throughput:
    """The measurements of one kind of work. `hosts` says for a GPU count on how many hosts the jobs that count ran.

    For a GPU count that is not in `hosts`, the jobs on the fewest hosts count, as a new job would be placed.
    """

    def __init__(self, past: Iterable[PastJob], *, hosts: Mapping[int, int] | None = None) -> None:
        past = list(past)
        trained = _by_point(_trained(past), hosts or {})
        probed = _by_point(_probed(past), hosts or {})
        self._points = {**probed, **trained}  # trainings replace probes: they also wait for data

    def at(self, gpus: int, batch: int, *, between_gpus: bool = True) -> Reading | None:
        """The throughput on so many GPUs with this batch each; None if there are no measurements around it."""
        reading = self._points.get((gpus, batch)) or self._between_batches(gpus, batch)
        if reading is None and between_gpus:
            reading = self._between_gpus(gpus, batch)
        return reading

    def batches(self, gpus: int) -> list[int]:
        """The measured batches on so many GPUs, ascending."""
        return sorted(batch for count, batch in self._points if count == gpus)

    def gpu_counts(self) -> list[int]:
        """The measured GPU counts, ascending."""
        return sorted({gpus for gpus, _ in self._points})

    def _between_batches(self, gpus: int, batch: int) -> Reading | None:
        for low, high in pairwise(self.batches(gpus)):
            if low < batch < high:
                share = math.log(batch / low) / math.log(high / low)
                return _mixed(self._points[gpus, low], self._points[gpus, high], share, power=False)
        return None

    def _between_gpus(self, gpus: int, batch: int) -> Reading | None:
        readings = [(count, self.at(count, batch, between_gpus=False)) for count in self.gpu_counts()]
        present = [(count, reading) for count, reading in readings if reading is not None]
        for (low, below), (high, above) in pairwise(present):
            if low < gpus < high:
                share = math.log(gpus / low) / math.log(high / low)
                return _mixed(below, above, share, power=True)
        return None


def range_of(values: Sequence[float]) -> Range:
    """The mean, the least and the greatest of some values."""
    return Range(mean=sum(values) / len(values), low=min(values), high=max(values))


def batch_on(spec: Spec, gpus: int) -> int | None:
    """The batch per GPU of the same spec on so many GPUs; None if its global batch does not divide."""
    try:
        return resolve_plan(spec, None, gpus=gpus).per_gpu_batch
    except UnworkablePlan:
        return None


@dataclass(frozen=True)
class _Measurement:
    point: Point
    hosts: int
    samples_per_s: float
    job: str


def _trained(past: Iterable[PastJob]) -> Iterator[_Measurement]:
    for job in past:
        if job.summary is not None and job.summary.train_samples_per_s > 0:
            point = (job.plan.gpus, job.plan.per_gpu_batch)
            yield _Measurement(point, job.hosts, job.summary.train_samples_per_s, job.id)


def _probed(past: Iterable[PastJob]) -> Iterator[_Measurement]:
    for job in past:
        for point in job.probe.points if job.probe is not None else ():
            if point.fits and point.step_time_s:
                taken_s = point.step_time_s + (point.data_wait_s or 0.0)
                place = (job.plan.gpus, point.per_gpu_batch)
                yield _Measurement(place, job.hosts, point.global_batch / taken_s, job.id)


def _by_point(measurements: Iterable[_Measurement], hosts: Mapping[int, int]) -> dict[Point, Reading]:
    groups: dict[Point, list[_Measurement]] = {}
    for measurement in measurements:
        groups.setdefault(measurement.point, []).append(measurement)
    readings = {}
    for point, group in groups.items():
        fewest = min(measurement.hosts for measurement in group)
        expected = hosts.get(point[0], fewest)
        counting = [measurement for measurement in group if measurement.hosts == expected] or group
        values = [measurement.samples_per_s for measurement in counting]
        readings[point] = Reading(range_of(values), tuple(dict.fromkeys(counted.job for counted in counting)))
    return readings


def _mixed(low: Reading, high: Reading, share: float, *, power: bool) -> Reading:
    """The interpolated reading at `share` of the way from `low` to `high`."""

    def between(a: float, b: float) -> float:
        return float(a ** (1 - share) * b**share) if power else a + (b - a) * share

    a, b = low.samples_per_s, high.samples_per_s
    mixed = Range(mean=between(a.mean, b.mean), low=between(a.low, b.low), high=between(a.high, b.high))
    jobs = tuple(dict.fromkeys((*low.jobs, *high.jobs)))
    return Reading(mixed, jobs, measured=False, between_gpus=power or low.between_gpus or high.between_gpus)
