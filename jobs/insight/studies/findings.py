"""The findings of a study: sentences about its figures. Pure; called by `report`.

First come speed (whether more GPUs pay, and where they stop to) and the goal, then reasons to be careful.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise
from statistics import fmean, geometric_mean, median
from typing import Any

from jobs.insight.studies.figures import groups_over_gpus, of_goal, other_values
from jobs.insight.studies.phrases import (
    capitalized,
    gpu_count,
    host_count,
    phrase,
    short,
    slot_count,
    times,
    values_of,
    where,
)
from jobs.insight.studies.statistics import difference
from jobs.insight.studies.strategies import of_strategies
from jobs.views.studies import Agreement, Baseline, CellReport, Goal, Outlier

_MOST_LISTED = 6  # more comparisons of a kind share a sentence
_AS_FAST = 0.03  # a ratio this close to 1 is no difference
_A_POINT = 0.01
_WORTH_OF_GOAL = 0.02  # a change of another goal than an accuracy, as a share of it
_WORTH_MENTIONING = 1.1  # ratio of throughputs
_NOT_COMPARED = frozenset({"gpus", "seed", "placement", "device", "strategy"})


def findings_of(
    cells: Sequence[CellReport],
    *,
    goal: Goal | None,
    varied: Sequence[str],
    baseline: Baseline | None,
    repeats: int,
    on_fewer_gpus: Sequence[str] = (),
    outliers: Sequence[Outlier] = (),
    keep_outliers: bool = False,
) -> list[str]:
    """The sentences. `on_fewer_gpus` are jobs that ran on fewer GPUs than they asked for."""
    sentences: list[str] = []
    if baseline is not None:
        sentences += [*_speedups(cells, baseline), *_poor_steps(cells), *_hosts(cells)]
        sentences += [*_within_chance(cells, baseline), *_agreements(cells, baseline, goal)]
        sentences += [*_loss_curves(cells, baseline), *_unequal_epochs(cells, baseline)]
    sentences += [*_against_cpu(cells), *of_strategies(cells)]
    for field in varied:
        if field not in _NOT_COMPARED:
            sentences += _trade_off(cells, field, goal)
    return [*sentences, *_stalled(cells, outliers, keep_outliers), *_cautions(cells, repeats, on_fewer_gpus)]


def _speedups(cells: Sequence[CellReport], baseline: Baseline) -> Iterator[str]:
    """How fast the largest GPU count of each group is, against the baseline."""
    largest = [[cell for cell in group if cell.speedup is not None][-1:] for group in groups_over_gpus(cells)]
    compared = [cell for group in largest for cell in group if cell.gpus != baseline.gpus]
    if len(compared) <= _MOST_LISTED:
        for cell in compared:
            yield f"{where(cell)}{_speed(cell, baseline)} (efficiency {short(cell.efficiency)})."
        return
    for gpus in sorted({cell.gpus for cell in compared}):
        same_count = [cell for cell in compared if cell.gpus == gpus]
        speedups = [cell.speedup for cell in same_count if cell.speedup is not None]
        fastest = max(same_count, key=lambda cell: cell.speedup or 0.0)
        yield (
            f"{gpu_count(gpus)} ran at {times(min(speedups))} to {times(max(speedups))} the speed of {baseline.gpus} "
            f"(median {times(median(speedups))}), fastest with {values_of(fastest)}."
        )


def _speed(cell: CellReport, baseline: Baseline) -> str:
    speedup = cell.speedup or 1.0
    if abs(speedup - 1) <= _AS_FAST:
        return f"{slot_count(cell)} were no faster than {baseline.gpus}: {times(speedup)} the speed"
    if speedup < 1:
        return f"{slot_count(cell)} were slower than {baseline.gpus}: {times(speedup)} the speed"
    return f"{slot_count(cell)} ran at {times(speedup)} the speed of {baseline.gpus}"


def _against_cpu(cells: Sequence[CellReport]) -> Iterator[str]:
    """How fast the cells on other devices are, against the same cell on CPUs."""
    compared = [cell for cell in cells if cell.speedup_vs_cpu is not None and cell.values.get("device") != "cpu"]
    if len(compared) <= _MOST_LISTED:
        for cell in compared:
            by_throughput = ""
            if cell.throughput_vs_cpu and abs(cell.throughput_vs_cpu / (cell.speedup_vs_cpu or 1) - 1) > 0.1:
                by_throughput = f", and {times(cell.throughput_vs_cpu)} by throughput"
            speed = times(cell.speedup_vs_cpu or 0.0)
            yield f"{where(cell, 'device')}{slot_count(cell)} ran at {speed} the speed of the CPU{by_throughput}."
        return
    speedups = [cell.speedup_vs_cpu or 0.0 for cell in compared]
    fastest = max(compared, key=lambda cell: cell.speedup_vs_cpu or 0.0)
    with_values = [slot_count(fastest), values_of(fastest, "device")]
    yield (
        f"{len(compared)} cells ran at {times(min(speedups))} to {times(max(speedups))} the speed of the CPU (median "
        f"{times(median(speedups))}), fastest with {', '.join(filter(None, with_values))}."
    )


def _poor_steps(cells: Sequence[CellReport]) -> Iterator[str]:
    """Steps from one GPU count to the next that brought less than half of what they could."""
    steps = [
        (few, many, few.wall_s.mean / many.wall_s.mean)
        for group in groups_over_gpus(cells)
        for few, many in pairwise([cell for cell in group if cell.wall_s is not None])
        if few.wall_s is not None and many.wall_s is not None and many.wall_s.mean > 0 and few.gpus < many.gpus
    ]
    poor = [(few, many, gain) for few, many, gain in steps if gain - 1 < (many.gpus / few.gpus - 1) / 2]
    if len(poor) <= _MOST_LISTED:
        for few, many, gain in poor:
            on_more_hosts = (few.hosts or 0) < (many.hosts or 0)
            few_on, many_on = (f" on {host_count(cell)}" if on_more_hosts else "" for cell in (few, many))
            yield (
                f"{where(many)}{slot_count(many)}{many_on} ran at {times(gain)} the speed of {few.gpus}{few_on} "
                f"(ideal: {times(many.gpus / few.gpus)})."
            )
        return
    for counts in sorted({(few.gpus, many.gpus) for few, many, _ in poor}):
        gains = [gain for few, many, gain in poor if (few.gpus, many.gpus) == counts]
        total = sum((few.gpus, many.gpus) == counts for few, many, _ in steps)
        yield (
            f"{gpu_count(counts[1])} ran at {times(min(gains))} to {times(max(gains))} the speed of {counts[0]} "
            f"(ideal: {times(counts[1] / counts[0])}) in {len(gains)} of {total} cells."
        )


def _hosts(cells: Sequence[CellReport]) -> Iterator[str]:
    """The same GPU count on one host and on more."""
    for one, other in combinations(cells, 2):
        few, many = sorted((one, other), key=lambda cell: cell.hosts or 0)
        if few.gpus != many.gpus or other_values(few, "placement") != other_values(many, "placement"):
            continue
        if few.wall_s is None or many.wall_s is None or few.hosts is None or few.hosts == many.hosts:
            continue
        ratio = many.wall_s.mean / few.wall_s.mean if few.wall_s.mean > 0 else 1.0
        if ratio > 1 + _AS_FAST:
            yield (
                f"{where(few, 'placement')}{slot_count(many)} were slower on {host_count(many)} than on {few.hosts}: "
                f"{times(ratio)} the time."
            )


def _within_chance(cells: Sequence[CellReport], baseline: Baseline) -> Iterator[str]:
    """Speed-ups that may be none: the 95 % interval of the difference of the times contains 0."""
    bases = {other_values(cell): cell.wall_s for cell in cells if cell.gpus == baseline.gpus}
    differences = []
    for cell in cells:
        base = bases.get(other_values(cell))
        if cell.gpus != baseline.gpus and cell.wall_s is not None and base is not None:
            differences.append(difference(cell.wall_s.values, base.values))
    unsure = sum(ends is not None and ends[0] < 0 < ends[1] for ends in differences)
    if unsure:
        yield (
            f"{unsure} of {len(differences)} speed-ups may be chance: the times of the repeats differ too much. "
            "Run longer jobs or more repeats to find out."
        )


def _agreements(cells: Sequence[CellReport], baseline: Baseline, goal: Goal | None) -> Iterator[str]:
    if goal is None:
        return
    judged = [(cell, cell.accuracy_agreement) for cell in cells if cell.accuracy_agreement is not None]
    differing = [(cell, agreement) for cell, agreement in judged if agreement.agrees is False]
    for cell, agreement in differing[:_MOST_LISTED]:
        yield (
            f"{where(cell)}{goal.metric} on {slot_count(cell)} was {_distance(cell, agreement, goal)} "
            f"{'above' if agreement.difference > 0 else 'below'} that on {baseline.gpus}, which is more than chance."
        )
    agreeing = sum(agreement.agrees is True for _, agreement in judged)
    if agreeing:
        yield (
            f"{goal.metric} on more GPUs agrees with that on {gpu_count(baseline.gpus)} in {agreeing} of {len(judged)} "
            f"cell{'' if len(judged) == 1 else 's'}."
        )


def _loss_curves(cells: Sequence[CellReport], baseline: Baseline) -> Iterator[str]:
    """Whether the losses take the same course on more GPUs."""
    judged = [(cell, name, agreement) for cell in cells for name, agreement in cell.loss_agreement.items()]
    differing = [each for each in judged if each[2].agrees is False]
    for cell, name, agreement in differing[:_MOST_LISTED]:
        on = f"{where(cell)}{name} on {slot_count(cell)}"
        if agreement.difference is None:
            yield f"{on} has another curve than on {baseline.gpus}: one of the two diverged."
            continue
        away = short(agreement.difference) if agreement.relative is None else f"{short(100 * agreement.relative)} %"
        yield f"{on} was on average {away} away from its curve on {baseline.gpus}, which is more than chance."
    if len(differing) > _MOST_LISTED:
        yield f"{len(differing)} of {len(judged)} loss curves on more GPUs differ by more than chance."
    for name in dict.fromkeys(name for _, name, _ in judged):
        of_name = [agreement.agrees for _, each, agreement in judged if each == name]
        if agreeing := of_name.count(True):
            yield (
                f"The curve of {name} on more GPUs agrees with that on {gpu_count(baseline.gpus)} in {agreeing} of "
                f"{len(of_name)} cell{'' if len(of_name) == 1 else 's'}."
            )


def _distance(cell: CellReport, agreement: Agreement, goal: Goal) -> str:
    """How far a cell is from the baseline: 1.2 points; of another goal than an accuracy 0.031 (12 %)."""
    away, here = abs(agreement.difference), of_goal(cell, goal)
    if goal.is_accuracy:
        return f"{100 * away:.1f} points"
    there = 0.0 if here is None else here.mean - agreement.difference
    return f"{away:.3g}" + (f" ({100 * away / abs(there):.0f} %)" if there else "")


def _unequal_epochs(cells: Sequence[CellReport], baseline: Baseline) -> Iterator[str]:
    bases = {other_values(cell): cell for cell in cells if cell.gpus == baseline.gpus}
    for cell in cells:
        base = bases.get(other_values(cell))
        if base is None or cell.epochs_run is None or base.epochs_run is None or not base.epochs_run.mean:
            continue
        if abs(cell.epochs_run.mean / base.epochs_run.mean - 1) > 0.1 and cell.throughput_speedup is not None:
            yield (
                f"{where(cell)}{slot_count(cell)} trained for {short(cell.epochs_run.mean)} epochs, {baseline.gpus} "
                f"for {short(base.epochs_run.mean)}. The speed-up includes this; by throughput it is "
                f"{times(cell.throughput_speedup)}."
            )


def _trade_off(cells: Sequence[CellReport], field: str, goal: Goal | None) -> Iterator[str]:
    """One value of a field against another: the greatest against the least, or the best by the goal against the worst.

    Without a goal the last one against the first.
    """
    cells = [cell for cell in cells if cell.repeats and (goal is None or of_goal(cell, goal) is not None)]
    values = {str(cell.values[field]): cell.values[field] for cell in cells}
    if len(values) < 2:
        return
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values.values()):
        base, changed = min(values.values()), max(values.values())
    else:
        base, changed = _worst_and_best(cells, field, list(values.values()), goal)
    pairs = _pairs(cells, field, base, changed)
    if not pairs:
        return
    effects = []
    rate = _throughput_ratio(pairs)
    if rate >= _WORTH_MENTIONING or rate <= 1 / _WORTH_MENTIONING:
        effects.append(f"{times(rate)} the samples per second")
    effects += _change_of_goal(pairs, goal)
    if effects:
        sentence = f"{phrase(field, changed)} instead of {phrase(field, base)}: {', '.join(effects)}."
        yield capitalized(sentence)


def _worst_and_best(cells: Sequence[CellReport], field: str, values: list[Any], goal: Goal | None) -> tuple[Any, Any]:
    """The values of a field with the worst and the best mean of the goal."""
    if goal is None:
        return values[0], values[-1]

    def mean(value: Any) -> float:
        return fmean(figure.mean for cell in cells if cell.values[field] == value and (figure := of_goal(cell, goal)))

    ranked = sorted(values, key=mean, reverse=goal.is_lower_better)
    return ranked[0], ranked[-1]


def _change_of_goal(pairs: Sequence[tuple[CellReport, CellReport]], goal: Goal | None) -> Iterator[str]:
    """val_accuracy 2.0 points higher; of another goal than an accuracy val_mae 12 % lower."""
    if goal is None:
        return
    intervals = [(of_goal(before, goal), of_goal(after, goal)) for before, after in pairs]
    means = [(before.mean, after.mean) for before, after in intervals if before is not None and after is not None]
    change, level = fmean(after - before for before, after in means), fmean(abs(before) for before, _ in means)
    direction = "higher" if change > 0 else "lower"
    if goal.is_accuracy and abs(change) >= _A_POINT:
        yield f"{goal.metric} {100 * abs(change):.1f} points {direction}"
    elif not goal.is_accuracy and level and abs(change) >= _WORTH_OF_GOAL * level:
        yield f"{goal.metric} {100 * abs(change) / level:.0f} % {direction}"


def _throughput_ratio(pairs: Sequence[tuple[CellReport, CellReport]]) -> float:
    """The geometric mean of the ratios; 1 if no pair has throughputs."""
    rates = [
        after.samples_per_s.mean / before.samples_per_s.mean
        for before, after in pairs
        if before.samples_per_s and after.samples_per_s
        and before.samples_per_s.mean > 0 and after.samples_per_s.mean > 0
    ]  # fmt: skip
    return geometric_mean(rates) if rates else 1.0


def _pairs(cells: Sequence[CellReport], field: str, base: Any, changed: Any) -> list[tuple[CellReport, CellReport]]:
    """The pairs of cells with results that differ in this field alone."""
    bases = {(cell.gpus, other_values(cell, field)): cell for cell in cells if cell.values[field] == base}
    pairs = [
        (bases.get((cell.gpus, other_values(cell, field))), cell) for cell in cells if cell.values[field] == changed
    ]
    return [(before, after) for before, after in pairs if before is not None]


def _stalled(cells: Sequence[CellReport], outliers: Sequence[Outlier], keep_outliers: bool) -> Iterator[str]:
    """The repeats that were far slower than the others of their cell, and whether the figures have them."""
    left_out = "The figures of speed have it" if keep_outliers else "The figures of speed are without it"
    for outlier in outliers[:_MOST_LISTED]:
        slower = max(outlier.value, outlier.median) / min(outlier.value, outlier.median)
        cell = cells[outlier.cell]
        values = [text for text in (values_of(cell), slot_count(cell) if "gpus" in cell.values else "") if text]
        in_cell = f" ({', '.join(values)})" if values else ""
        unit = "sample" if outlier.figure == "samples_per_s" else "epoch"
        yield f"Job {outlier.job_id}{in_cell} stalled: each {unit} took {times(slower)} the median time. {left_out}."
    if len(outliers) > _MOST_LISTED:
        yield f"{len(outliers)} jobs stalled in all: `outliers` of the report lists them."


def _cautions(cells: Sequence[CellReport], repeats: int, on_fewer_gpus: Sequence[str]) -> Iterator[str]:
    total = len(cells) * repeats
    failed, unfinished = sum(cell.failed for cell in cells), sum(cell.unfinished for cell in cells)
    if failed:
        yield f"{failed} of {total} jobs failed or were cancelled: their cells have fewer repeats."
    if unfinished:
        yield f"{unfinished} of {total} jobs have not ended: the figures will change."
    if len(on_fewer_gpus) == 1:
        yield f"Job {on_fewer_gpus[0]} ran partly on fewer GPUs than it asked for: its figures are misleading."
    elif on_fewer_gpus:
        ids = ", ".join(on_fewer_gpus)
        yield f"Jobs {ids} ran partly on fewer GPUs than they asked for: their figures are misleading."
    if repeats == 1:
        yield "Each cell ran once, so nothing shows how much of a difference is chance: use 3 repeats."
