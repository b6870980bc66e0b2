"""The findings of a study: what its figures show, each with what limits it. Pure; called by `report`.

First come speed (whether more GPUs pay, and where they stop to) and convergence, then the other fields, then jobs whose
figures are missing or odd.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations
from statistics import fmean, geometric_mean, median
from typing import Any

from jobs.insight.studies.convergence import convergence_findings
from jobs.insight.studies.figures import of_goal, other_values
from jobs.insight.studies.phrases import capitalized, host_count, phrase, slot_count, times, values_of, where
from jobs.insight.studies.scaling import MOST_LISTED, scaling_findings
from jobs.insight.studies.statistics import difference
from jobs.insight.studies.strategies import of_strategies
from jobs.views.studies import Baseline, CellReport, Goal, Interval, Outlier

_MOST_NAMED = 3  # cells of a failure
_LONGEST_ERROR = 200  # characters
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
    scaling: str | None = None,
    on_fewer_gpus: Sequence[str] = (),
    outliers: Sequence[Outlier] = (),
    keep_outliers: bool = False,
) -> list[str]:
    """The sentences. `on_fewer_gpus` are jobs that ran on fewer GPUs than they asked for."""
    sentences: list[str] = []
    if baseline is not None:
        sentences += [*scaling_findings(cells, baseline), *_hosts(cells)]
        sentences += convergence_findings(cells, baseline, goal, is_weak=scaling == "weak")
    sentences += [*_against_cpu(cells), *of_strategies(cells)]
    for field in varied:
        if field not in _NOT_COMPARED:
            sentences += _trade_off(cells, field, goal)
    return [*sentences, *_stalled(cells, outliers, keep_outliers), *_cautions(cells, repeats, on_fewer_gpus)]


def _against_cpu(cells: Sequence[CellReport]) -> Iterator[str]:
    """How fast the cells on other devices are, against the same cell on CPUs."""
    compared = [cell for cell in cells if cell.speedup_vs_cpu is not None and cell.values.get("device") != "cpu"]
    if len(compared) <= MOST_LISTED:
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
        yield f"{goal.metric} {100 * abs(change):.1f} points {direction}{_unless_shown(intervals)}"
    elif not goal.is_accuracy and level and abs(change) >= _WORTH_OF_GOAL * level:
        yield f"{goal.metric} {100 * abs(change) / level:.0f} % {direction}{_unless_shown(intervals)}"


def _unless_shown(pairs: Sequence[tuple[Interval | None, Interval | None]]) -> str:
    """A remark if the repeats of no pair of cells show a difference."""
    ends = [difference(after.values, before.values) for before, after in pairs if before and after]
    known = [each for each in ends if each is not None]
    is_shown = any(not low <= 0 <= high for low, high in known)
    return " (which may be chance)" if known and not is_shown else ""


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
    for outlier in outliers[:MOST_LISTED]:
        slower = max(outlier.value, outlier.median) / min(outlier.value, outlier.median)
        cell = cells[outlier.cell]
        values = [text for text in (values_of(cell), _slots_of(cell)) if text]
        in_cell = f" ({', '.join(values)})" if values else ""
        unit = "sample" if outlier.figure == "samples_per_s" else "epoch"
        yield f"Job {outlier.job_id}{in_cell} stalled: each {unit} took {times(slower)} the median time. {left_out}."
    if len(outliers) > MOST_LISTED:
        yield f"{len(outliers)} jobs stalled in all: `outliers` of the report lists them."


def _cautions(cells: Sequence[CellReport], repeats: int, on_fewer_gpus: Sequence[str]) -> Iterator[str]:
    total = len(cells) * repeats
    failed, unfinished = sum(cell.failed for cell in cells), sum(cell.unfinished for cell in cells)
    if failed:
        why = "".join(_failures(cells))
        yield f"{failed} of {total} jobs failed or were cancelled, so their cells have fewer repeats.{why}"
    if unfinished:
        yield f"{unfinished} of {total} jobs have not ended: the figures will change."
    if len(on_fewer_gpus) == 1:
        yield f"Job {on_fewer_gpus[0]} ran partly on fewer GPUs than it asked for: its figures are misleading."
    elif on_fewer_gpus:
        ids = ", ".join(on_fewer_gpus)
        yield f"Jobs {ids} ran partly on fewer GPUs than they asked for: their figures are misleading."
    if repeats == 1:
        yield "Each cell ran once, so nothing shows how much of a difference is chance."


def _failures(cells: Sequence[CellReport]) -> Iterator[str]:
    """2 ended diverged (learning rate 1000): "the loss is nan at step 4"."""
    for reason in dict.fromkeys(failure.end_reason for cell in cells for failure in cell.failures):
        lost = [(cell, failure) for cell in cells for failure in cell.failures if failure.end_reason is reason]
        jobs = sum(failure.jobs for _, failure in lost)
        names = list(dict.fromkeys(", ".join(filter(None, [values_of(cell), _slots_of(cell)])) for cell, _ in lost))
        named = f" ({'; '.join(names[:_MOST_NAMED])}{', ...' if len(names) > _MOST_NAMED else ''})" if names[0] else ""
        error = next((failure.error for _, failure in lost if failure.error), None)
        quoted = "" if error is None else f': "{error[:_LONGEST_ERROR]}"'
        yield f" {jobs} ended {reason}{named}{quoted}."


def _slots_of(cell: CellReport) -> str:
    """2 GPUs, where their number varies."""
    return slot_count(cell) if "gpus" in cell.values else ""
