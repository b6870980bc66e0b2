"""Samples per second by GPUs and batch, out of past jobs: what was measured, and what lies between. Pure.

Between two batches throughput is taken to grow in the logarithm of the batch, between two GPU counts as a power of
the count. Nothing is said of what lies beyond the measured ones.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from jobs.insight.advice.past import PastJob
from jobs.model.plan import UnworkablePlan, resolve_plan
from jobs.model.spec import Spec
from jobs.views.advice import Range

Point = tuple[int, int]  # GPUs, and the batch of one


@dataclass(frozen=True)
class Reading:
    """A throughput and the jobs that it rests on. `measured`: with just these GPUs and this batch."""

    samples_per_s: Range
    jobs: tuple[str, ...]
    measured: bool = True
    between_gpus: bool = False

    @property
    def mean(self) -> float:
        """Of `samples_per_s`."""
        return self.samples_per_s.mean


class Throughput:
    """What was measured of one kind of work. `hosts`, by GPU count, is over how many hosts a job goes that counts.

    Of a GPU count that is not in it those on the fewest hosts count, as a job would be placed.
    """

    def __init__(self, past: Iterable[PastJob], *, hosts: Mapping[int, int] | None = None) -> None:
        past = list(past)
        trained = _by_point(_trained(past), hosts or {})
        probed = _by_point(_probed(past), hosts or {})
        self._points = {**probed, **trained}  # a training also waits for its data: it says more than a probe

    def at(self, gpus: int, batch: int, *, between_gpus: bool = True) -> Reading | None:
        """The throughput on so many GPUs with this batch each; None where it was not measured near there."""
        found = self._points.get((gpus, batch)) or self._between_batches(gpus, batch)
        if found is None and between_gpus:
            found = self._between_gpus(gpus, batch)
        return found

    def batches(self, gpus: int) -> list[int]:
        """The batches that were measured on so many GPUs, ascending."""
        return sorted(batch for count, batch in self._points if count == gpus)

    def gpu_counts(self) -> list[int]:
        """The GPU counts that anything was measured on, ascending."""
        return sorted({gpus for gpus, _ in self._points})

    def _between_batches(self, gpus: int, batch: int) -> Reading | None:
        for low, high in pairwise(self.batches(gpus)):
            if low < batch < high:
                share = math.log(batch / low) / math.log(high / low)
                return _mixed(self._points[gpus, low], self._points[gpus, high], share, power=False)
        return None

    def _between_gpus(self, gpus: int, batch: int) -> Reading | None:
        known = [(count, self.at(count, batch, between_gpus=False)) for count in self.gpu_counts()]
        there = [(count, reading) for count, reading in known if reading is not None]
        for (low, below), (high, above) in pairwise(there):
            if low < gpus < high:
                share = math.log(gpus / low) / math.log(high / low)
                return _mixed(below, above, share, power=True)
        return None


def range_of(values: Sequence[float]) -> Range:
    """The mean of some values, and between which they lie."""
    return Range(mean=sum(values) / len(values), low=min(values), high=max(values))


def batch_on(spec: Spec, gpus: int) -> int | None:
    """The batch of one GPU, were the same spec run on so many; None where its global batch does not divide."""
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
    together: dict[Point, list[_Measurement]] = {}
    for one in measurements:
        together.setdefault(one.point, []).append(one)
    found = {}
    for point, all_of_it in together.items():
        fewest = min(one.hosts for one in all_of_it)
        expected = hosts.get(point[0], fewest)
        counting = [one for one in all_of_it if one.hosts == expected] or all_of_it
        values = [one.samples_per_s for one in counting]
        found[point] = Reading(range_of(values), tuple(dict.fromkeys(one.job for one in counting)))
    return found


def _mixed(low: Reading, high: Reading, share: float, *, power: bool) -> Reading:
    """What lies `share` of the way from one reading to the other."""

    def between(a: float, b: float) -> float:
        return float(a ** (1 - share) * b**share) if power else a + (b - a) * share

    a, b = low.samples_per_s, high.samples_per_s
    mixed = Range(mean=between(a.mean, b.mean), low=between(a.low, b.low), high=between(a.high, b.high))
    jobs = tuple(dict.fromkeys((*low.jobs, *high.jobs)))
    return Reading(mixed, jobs, measured=False, between_gpus=power or low.between_gpus or high.between_gpus)
