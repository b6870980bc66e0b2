"""The last and the best value of each metric of a job, over all its attempts. Pure; kept by the intake of an attempt.

The values that count are those over all ranks, of which there is one an epoch. A metric of a script that has none is
judged by the steps of rank 0.
"""

from collections.abc import Callable, Iterable
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


@dataclass
class MetricBook:
    """Takes values in sequence. A value that is added again changes nothing, unless others came meanwhile."""

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
        """The summaries as the database stores them."""
        return {name: summary.model_dump(mode="json") for name, summary in self.summaries().items()}

    def _add(self, new: Value) -> bool:
        entry = self._entries.get(new.name)
        if entry is None or (new.of_all_ranks and not entry.of_all_ranks):
            entry = self._entries[new.name] = _Entry(new.value, new.of_all_ranks)
        elif entry.of_all_ranks and not new.of_all_ranks:
            return False
        entry.last = new.value
        if isfinite(new.value) and (entry.best is None or self._is_better(new.name, new.value, entry.best)):
            entry.best, entry.best_epoch = new.value, new.epoch
        return True

    def _is_better(self, name: str, value: float, best: float) -> bool:
        return value < best if self.is_lower_better(name) else value > best
