"""The last, best, lowest, highest and mean value of each metric of a job, over all its attempts. Pure.

Kept by the intake of an attempt.

The values that count are those over all ranks, of which there is one an epoch. A metric of a script that has none is
judged by the steps of rank 0.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, NamedTuple

from jobs.model.goals import TIMES
from jobs.model.records import MetricSummary


class Value(NamedTuple):
    """A value of a metric. `epoch` is null for a value of a step, and for one that belongs to no epoch."""

    name: str
    value: float
    epoch: int | None
    of_all_ranks: bool


@dataclass
class _Entry:
    last: float
    of_all_ranks: bool
    best: float | None = None
    best_epoch: int | None = None
    low: float | None = None
    high: float | None = None
    mean: float = 0.0  # of `count` values
    count: int = 0


@dataclass
class MetricBook:
    """Takes values in sequence. A value that is added again changes the mean only, unless others came meanwhile."""

    is_lower_better: Callable[[str], bool]
    goal: str | None = None  # counts although it is a time
    _entries: dict[str, _Entry] = field(default_factory=dict)

    def add(self, values: Iterable[Value]) -> bool:
        """Add values. Returns whether any of them counts."""
        counted = [self._add(value) for value in values if value.name not in TIMES or value.name == self.goal]
        return any(counted)

    def summaries(self) -> dict[str, MetricSummary]:
        """The last and the best value of each metric, sorted by name."""
        return {
            name: MetricSummary(
                last=entry.last if isfinite(entry.last) else None, best=entry.best, best_epoch=entry.best_epoch
            )
            for name, entry in sorted(self._entries.items())
        }

    def as_json(self) -> dict[str, Any]:
        """The values as `jobs.metrics` has them: the summaries, the lowest, highest and mean value."""
        return {
            name: {**summary.model_dump(mode="json"), **self._figures(self._entries[name])}
            for name, summary in self.summaries().items()
        }

    def set_means(self, means: Mapping[str, tuple[float, int]]) -> None:
        """Set the means of steps, and of how many values they are, where only some of the steps were added."""
        for name, (mean, count) in means.items():
            entry = self._entries.get(name)
            if entry is not None and not entry.of_all_ranks:
                entry.mean, entry.count = mean, count

    def _figures(self, entry: _Entry) -> dict[str, float | None]:
        mean = entry.mean if entry.count and isfinite(entry.mean) else None  # the sum of huge values is infinite
        return {"low": entry.low, "high": entry.high, "mean": mean}

    def _add(self, new: Value) -> bool:
        entry = self._entries.get(new.name)
        if entry is None or (new.of_all_ranks and not entry.of_all_ranks):
            entry = self._entries[new.name] = _Entry(new.value, new.of_all_ranks)
        elif entry.of_all_ranks and not new.of_all_ranks:
            return False
        entry.last = new.value
        if not isfinite(new.value):
            return True
        if entry.best is None or self._is_better(new.name, new.value, entry.best):
            entry.best, entry.best_epoch = new.value, new.epoch
        entry.low = new.value if entry.low is None else min(entry.low, new.value)
        entry.high = new.value if entry.high is None else max(entry.high, new.value)
        entry.count += 1
        entry.mean += (new.value - entry.mean) / entry.count
        return True

    def _is_better(self, name: str, value: float, best: float) -> bool:
        return value < best if self.is_lower_better(name) else value > best
