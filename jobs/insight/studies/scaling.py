"""The findings about speed over slot counts: each comparison once, with what limits it. Pure; called by `findings`.

A speed-up is named by training time, which contains validation and checkpoints, and by samples/s, which does not.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from jobs.insight.studies.figures import groups_over_gpus, other_values
from jobs.insight.studies.phrases import (
    counted,
    host_count,
    percent,
    short,
    slot_count,
    times,
    values_of,
    where,
)
from jobs.insight.studies.statistics import difference, repeats_to_tell, spread_of_difference
from jobs.model.gpu_time import slots_text
from jobs.views.studies import Baseline, CellReport

MOST_LISTED = 6  # more comparisons of a kind share a sentence
_UNEQUAL = 0.1  # ratios that differ by more are named both
_IMPLAUSIBLE = 1.1  # times the ideal
_SPREAD = 1.5  # the slowest repeat / the fastest one, where something slowed it
_POOR = 0.8  # an efficiency, below which the share of allreduce is named


@dataclass(frozen=True)
class Comparison:
    """A cell and the same cell at the baseline's GPU count. Both have a training time."""

    cell: CellReport
    base: CellReport

    @property
    def ideal(self) -> float:
        """The speed-up of the ideal line."""
        return self.cell.gpus / self.base.gpus

    @property
    def speedup(self) -> float:
        """By training time."""
        return self.cell.speedup or 1.0

    @property
    def is_implausible(self) -> bool:
        """Whether it is more than the slots can give."""
        return self.speedup > _IMPLAUSIBLE * self.ideal

    @property
    def may_be_chance(self) -> bool:
        """Whether the 95 % interval of the difference of the times contains 0."""
        ends = difference(self._values, self._base_values)
        return ends is not None and ends[0] < 0 < ends[1]

    @property
    def repeats_needed(self) -> int | None:
        """How many repeats would show which one is faster; None: more than a study can have."""
        spread = spread_of_difference(self._values, self._base_values)
        away = abs(sum(self._values) / len(self._values) - sum(self._base_values) / len(self._base_values))
        return repeats_to_tell(away, spread, more_than=max(len(self._values), len(self._base_values)))

    @property
    def trained_longer(self) -> bool:
        """Whether the two trained for different numbers of epochs."""
        mine, theirs = self.cell.epochs_run, self.base.epochs_run
        return (
            mine is not None and theirs is not None and theirs.mean > 0 and abs(mine.mean / theirs.mean - 1) > _UNEQUAL
        )

    @property
    def _values(self) -> Sequence[float]:
        return self.cell.wall_s.values if self.cell.wall_s else []

    @property
    def _base_values(self) -> Sequence[float]:
        return self.base.wall_s.values if self.base.wall_s else []

    def likely_cause(self) -> str:
        """What the figures show of the cause of a speed-up above the ideal."""
        on, by_samples = slot_count(self.base), self.cell.throughput_speedup
        if self.trained_longer:
            return "Likely cause: they trained for different numbers of epochs."
        if self.base.beside_others:
            runs = f"{self.base.beside_others} of {self.base.repeats}"
            return f"Likely cause: {runs} runs on {on} shared the host with other jobs of the study, which slowed them."
        if self._base_values and max(self._base_values) > _SPREAD * min(self._base_values):
            range_s = f"{short(min(self._base_values))} to {short(max(self._base_values))} s"
            return f"Likely cause: the runs on {on} took {range_s}, so something slowed some of them."
        if by_samples is not None and by_samples <= _IMPLAUSIBLE * self.ideal:
            return "Likely cause: time outside the steps, such as validation and checkpoints."
        return (
            f"The figures show no cause. Perhaps the host was busy while {on} trained, or had not cached the data yet."
        )


def compared_with_baseline(cells: Sequence[CellReport], baseline: Baseline) -> list[Comparison]:
    """The largest GPU count with a result of each group, against the baseline."""
    bases = {other_values(cell): cell for cell in cells if cell.gpus == baseline.gpus}
    largest = [[cell for cell in group if cell.speedup is not None][-1:] for group in groups_over_gpus(cells)]
    compared = [cell for group in largest for cell in group if cell.gpus != baseline.gpus]
    return [Comparison(cell, bases[other_values(cell)]) for cell in compared]


def scaling_findings(cells: Sequence[CellReport], baseline: Baseline) -> Iterator[str]:
    """How fast the largest GPU count of each group is against the baseline, and further steps that brought little."""
    compared = compared_with_baseline(cells, baseline)
    if len(compared) <= MOST_LISTED:
        yield from map(_told, compared)
    else:
        for gpus in sorted({each.cell.gpus for each in compared}):
            yield _summary([each for each in compared if each.cell.gpus == gpus])
    yield from _poor_steps(cells, {(id(each.base), id(each.cell)) for each in compared})


def _told(each: Comparison) -> str:
    cell, by_samples = each.cell, each.cell.throughput_speedup
    rates = f"{times(each.speedup)} the speed of {each.base.gpus} by training time"
    if by_samples is not None:
        rates += f" and {times(by_samples)} by samples/s"
    ideal = f"(ideal: {times(each.ideal)}, efficiency {short(cell.efficiency)})"
    parts = [f"{where(cell)}{slot_count(cell)} ran at {rates} {ideal}."]
    if each.trained_longer and cell.epochs_run and each.base.epochs_run:
        own, base = short(cell.epochs_run.mean), short(each.base.epochs_run.mean)
        parts.append(f"They trained for {own} epochs, {each.base.gpus} for {base}: only samples/s compares equal work.")
    elif by_samples is not None and abs(by_samples / each.speedup - 1) > _UNEQUAL:
        parts.append("The time includes validation and checkpoints, samples/s does not.")
    if each.is_implausible:
        parts.append(f"More than the ideal is implausible. {each.likely_cause()}")
    if each.may_be_chance:
        repeats = counted(cell.repeats, "repeat")
        parts.append(f"This may be chance: {repeats} cannot tell, {would_tell(each.repeats_needed)}.")
    share = cell.allreduce_share
    if share is not None and cell.device != "gpu" and (cell.efficiency or 1) < _POOR:
        parts.append(f"Allreduce, with the wait for slower ranks, takes {percent(share.mean)} of a step.")
    return " ".join(parts)


def would_tell(repeats: int | None) -> str:
    """12 would tell."""
    return "and 100 would not either" if repeats is None else f"about {repeats} would"


def _summary(same_count: Sequence[Comparison]) -> str:
    """Many comparisons of one GPU count."""
    cell, base, total = same_count[0].cell, same_count[0].base, len(same_count)
    speedups = [each.speedup for each in same_count]
    rates = [each.cell.throughput_speedup for each in same_count if each.cell.throughput_speedup is not None]
    by_samples = f", {times(median(rates))} by samples/s" if rates else ""
    fastest = max(same_count, key=lambda each: each.speedup)
    range_of = f"{times(min(speedups))} to {times(max(speedups))} the speed of {base.gpus} by training time"
    middle = f"(median {times(median(speedups))}{by_samples}; ideal: {times(same_count[0].ideal)})"
    parts = [f"{slot_count(cell)} ran at {range_of} {middle}, fastest with {values_of(fastest.cell)}."]
    if implausible := [each for each in same_count if each.is_implausible]:
        cause = f"{where(implausible[0].cell)}{implausible[0].likely_cause()}"
        parts.append(f"{len(implausible)} of {total} are above the ideal, which is implausible. {cause}")
    if unsure := sum(each.may_be_chance for each in same_count):
        parts.append(f"{unsure} of {total} may be chance: the times of the repeats differ too much.")
    if unequal := sum(each.trained_longer for each in same_count):
        parts.append(f"In {unequal} of {total} the numbers of epochs differ: only samples/s compares equal work.")
    return " ".join(parts)


def _poor_steps(cells: Sequence[CellReport], told: set[tuple[int, int]]) -> Iterator[str]:
    """Steps from one GPU count to the next that brought less than half of what they could, but for those told."""
    steps = [
        (few, many, few.wall_s.mean / many.wall_s.mean)
        for group in groups_over_gpus(cells)
        for few, many in pairwise([cell for cell in group if cell.wall_s is not None])
        if few.wall_s is not None and many.wall_s is not None and many.wall_s.mean > 0 and few.gpus < many.gpus
        and (id(few), id(many)) not in told
    ]  # fmt: skip
    poor = [(few, many, gain) for few, many, gain in steps if gain - 1 < (many.gpus / few.gpus - 1) / 2]
    if len(poor) <= MOST_LISTED:
        for few, many, gain in poor:
            on_more_hosts = (few.hosts or 0) < (many.hosts or 0)
            few_on, many_on = (f" on {host_count(cell)}" if on_more_hosts else "" for cell in (few, many))
            yield (
                f"{where(many)}{slot_count(many)}{many_on} ran at {times(gain)} the speed of {few.gpus}{few_on} by "
                f"training time (ideal: {times(many.gpus / few.gpus)})."
            )
        return
    for counts in sorted({(few.gpus, many.gpus) for few, many, _ in poor}):
        gains = [gain for few, many, gain in poor if (few.gpus, many.gpus) == counts]
        total = sum((few.gpus, many.gpus) == counts for few, many, _ in steps)
        on, ideal = slots_text(counts[1], poor[0][1].device), times(counts[1] / counts[0])
        yield (
            f"{on} ran at {times(min(gains))} to {times(max(gains))} the speed of {counts[0]} by training time "
            f"(ideal: {ideal}) in {len(gains)} of {total} cells."
        )
