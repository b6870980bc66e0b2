"""What copies cost a job: its epochs with a copy beside the nearest ones without. For `bench.store`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import mean, median

from jobs.model.records import StepEnded

NOBODY, COPIER, BARE, BOTH = "nobody", "copier", "bare program", "both"


@dataclass(frozen=True)
class Copy:
    """A checkpoint that was copied: when that ended, how long it took, and its size."""

    at: float
    took_s: float
    bytes: int

    @property
    def mb_per_s(self) -> float:
        """The speed of the copy."""
        return self.bytes / self.took_s / 1e6


@dataclass(frozen=True)
class Epoch:
    """An epoch from the end of the one before, with its steps but the first one. `who` copied meanwhile."""

    who: str
    began: float
    ended: float
    steps: Sequence[StepEnded]

    @property
    def step_s(self) -> float:
        """The mean duration of a step."""
        return mean(step.step_time_s for step in self.steps)


@dataclass(frozen=True)
class Measured:
    """What one job showed."""

    epochs: Sequence[Epoch]
    copies: Mapping[str, Sequence[Copy]]  # while it trained
    alone: Sequence[Copy]  # bare ones, when it had ended
    cpu_s_per_gb: dict[str, float]
    idle_percent: float  # of a core, by the copier

    def costs_s(self, who: str) -> list[float]:
        """What each copy of `who` cost: by how much all steps were longer than those of epochs in which nobody copies.

        A copy during two epochs costs something in both. Copies in one epoch cost the same.
        """
        costs: list[float] = []
        for together, around_s in self._runs_of(who):
            copies = sum(together[0].began < copy.at <= together[-1].ended for copy in self.copies[who])
            cost_s = sum((epoch.step_s - around_s) * len(epoch.steps) for epoch in together)
            costs += [cost_s / copies] * copies
        return costs

    def ratios(self, who: str) -> list[float]:
        """How long the whole job took with the copies of `who`, relative to none. A value for each, as if all cost so.

        For `NOBODY`: its epochs relative to the nearest ones in which nobody copies.
        """
        if who == NOBODY:
            return [together[0].step_s / around_s for together, around_s in self._runs_of(who)]
        usual_s = median(epoch.step_s for epoch in self.epochs if epoch.who == NOBODY)
        whole_s = usual_s * sum(len(epoch.steps) for epoch in self.epochs)
        costs_s = self.costs_s(who)
        return [1 + cost_s * len(costs_s) / whole_s for cost_s in costs_s]

    def ratios_while_copied(self, who: str) -> list[float]:
        """For each copy, or copies in one epoch: the steps during it, relative to epochs in which nobody copies."""
        windows = [(copy.at - copy.took_s, copy.at) for copy in self.copies[who]]
        ratios = []
        for together, around_s in self._runs_of(who):
            inside = [
                step.step_time_s for epoch in together for step in epoch.steps
                if any(began < step.at and step.at - step.step_time_s < ended for began, ended in windows)
            ]  # fmt: skip
            if inside:
                ratios.append(mean(inside) / around_s)
        return ratios

    def _runs_of(self, who: str) -> Iterator[tuple[Sequence[Epoch], float]]:
        """Consecutive epochs of `who`, with the mean step of the nearest epochs of `NOBODY` on both sides.

        Those of `NOBODY` come one by one.
        """
        usual = [i for i, epoch in enumerate(self.epochs) if epoch.who == NOBODY]
        indices = [[i] for i in usual] if who == NOBODY else [
            list(group) for is_of_who, group in
            groupby(range(len(self.epochs)), key=lambda i: self.epochs[i].who == who) if is_of_who
        ]  # fmt: skip
        for run in indices:
            before, after = [i for i in usual if i < run[0]], [i for i in usual if i > run[-1]]
            if before and after:
                around_s = mean([self.epochs[before[-1]].step_s, self.epochs[after[0]].step_s])
                yield [self.epochs[i] for i in run], around_s
