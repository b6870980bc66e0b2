"""What the figures of a study say, a sentence each. Pure; called by `report`.

Speed first: whether more GPUs pay, and where they stop to; then what that does to accuracy; then what to be careful
about.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, pairwise
from statistics import fmean, geometric_mean, median
from typing import Any

from jobs.insight.studies.figures import by_others, others
from jobs.insight.studies.statistics import difference
from jobs.views.studies import Baseline, CellReport

_MOST_TOLD_ONE_BY_ONE = 6  # more comparisons of a kind are told together
_AS_FAST = 0.03  # a ratio that near to 1 is no difference
_A_POINT = 0.01
_WORTH_TELLING = 1.1  # ratio of throughputs
_NOT_COMPARED = frozenset({"gpus", "seed", "placement"})
_PHRASES = {
    "batch_size": "a batch of {}",
    "learning_rate": "a learning rate of {}",
    "dataset.fraction": "{} of the data",
}
_NAMED_BY_VALUE = frozenset({"dataset", "dataset.source", "model", "model.name"})


def findings_of(
    cells: Sequence[CellReport],
    *,
    varied: Sequence[str],
    baseline: Baseline | None,
    asked: int,
    on_fewer: Sequence[str] = (),
) -> list[str]:
    """The sentences. `asked` is the number of repeats; `on_fewer`: jobs that ran on fewer GPUs than they asked for."""
    found: list[str] = []
    if baseline is not None:
        found += [*_speedups(cells, baseline), *_steps_that_did_not_pay(cells), *_hosts(cells)]
        found += [*_within_chance(cells, baseline), *_agreements(cells, baseline), *_unequal_epochs(cells, baseline)]
    for field in varied:
        if field not in _NOT_COMPARED:
            found += _trade_off(cells, field)
    return [*found, *_cautions(cells, asked, on_fewer)]


def _speedups(cells: Sequence[CellReport], baseline: Baseline) -> Iterator[str]:
    """How fast the most GPUs of each group are, against the baseline."""
    most = [[cell for cell in group if cell.speedup is not None][-1:] for group in by_others(cells)]
    told = [cell for group in most for cell in group if cell.gpus != baseline.gpus]
    if len(told) <= _MOST_TOLD_ONE_BY_ONE:
        for cell in told:
            speedup = f"speed-up {_figure(cell.speedup)}, " if (cell.speedup or 1.0) < 1 + _AS_FAST else ""
            yield f"{_faster(cell, baseline)}{_with(cell)} ({speedup}efficiency {_figure(cell.efficiency)})."
        return
    for gpus in sorted({cell.gpus for cell in told}):
        same = [cell for cell in told if cell.gpus == gpus]
        speedups = [cell.speedup for cell in same if cell.speedup is not None]
        best = max(same, key=lambda cell: cell.speedup or 0.0)
        yield (
            f"{_gpus(gpus)} are {_figure(min(speedups))} to {_figure(max(speedups))} times as fast as {baseline.gpus} "
            f"(the median is {_figure(median(speedups))}), the most{_with(best)}."
        )


def _faster(cell: CellReport, baseline: Baseline) -> str:
    speedup = cell.speedup or 1.0
    if abs(speedup - 1) <= _AS_FAST:
        return f"{_gpus(cell.gpus)} are no faster than {baseline.gpus}"
    if speedup < 1:
        return f"{_gpus(cell.gpus)} are slower than {baseline.gpus}"
    return f"{_gpus(cell.gpus)} are {_figure(speedup)} times as fast as {baseline.gpus}"


def _steps_that_did_not_pay(cells: Sequence[CellReport]) -> Iterator[str]:
    """Going from one GPU count to the next brought less than half of what it could have."""
    steps = [
        (few, many, few.wall_s.mean / many.wall_s.mean)
        for group in by_others(cells)
        for few, many in pairwise([cell for cell in group if cell.wall_s is not None])
        if few.wall_s is not None and many.wall_s is not None and many.wall_s.mean > 0 and few.gpus < many.gpus
    ]
    poor = [(few, many, gain) for few, many, gain in steps if gain - 1 < (many.gpus / few.gpus - 1) / 2]
    if len(poor) <= _MOST_TOLD_ONE_BY_ONE:
        for few, many, gain in poor:
            hosts = f" and from {few.hosts} to {many.hosts} hosts" if (few.hosts or 0) < (many.hosts or 0) else ""
            told = f"Going from {few.gpus} to {_gpus(many.gpus)}{hosts} paid less than half{_with(many)}"
            yield f"{told}: {_figure(gain)} times as fast, where {_figure(many.gpus / few.gpus)} is the ideal."
        return
    for counts in sorted({(few.gpus, many.gpus) for few, many, _ in poor}):
        gains = [gain for few, many, gain in poor if (few.gpus, many.gpus) == counts]
        tried = sum((few.gpus, many.gpus) == counts for few, many, _ in steps)
        span = f"{_figure(min(gains))} to {_figure(max(gains))} times as fast"
        told = f"Going from {counts[0]} to {_gpus(counts[1])} paid less than half in {len(gains)} of {tried} cells"
        yield f"{told}: {span}, where {_figure(counts[1] / counts[0])} is the ideal."


def _hosts(cells: Sequence[CellReport]) -> Iterator[str]:
    """The same GPU count on one host and on more."""
    for one, other in combinations(cells, 2):
        few, many = sorted((one, other), key=lambda cell: cell.hosts or 0)
        if few.gpus != many.gpus or others(few, "placement") != others(many, "placement"):
            continue
        if few.wall_s is None or many.wall_s is None or few.hosts is None or few.hosts == many.hosts:
            continue
        ratio = many.wall_s.mean / few.wall_s.mean if few.wall_s.mean > 0 else 1.0
        if ratio > 1 + _AS_FAST:
            yield (
                f"{_gpus(many.gpus)} on {many.hosts} hosts are slower than {few.gpus} on {few.hosts}"
                f"{_with(few, 'placement')}: they take {_figure(ratio)} times as long."
            )


def _within_chance(cells: Sequence[CellReport], baseline: Baseline) -> Iterator[str]:
    """Speed-ups that are not told apart from none: the 95 % interval of the difference of the times holds 0."""
    bases = {others(cell): cell.wall_s for cell in cells if cell.gpus == baseline.gpus}
    judged = []
    for cell in cells:
        base = bases.get(others(cell))
        if cell.gpus != baseline.gpus and cell.wall_s is not None and base is not None:
            judged.append(difference(cell.wall_s.values, base.values))
    unsure = sum(apart is not None and apart[0] < 0 < apart[1] for apart in judged)
    if unsure:
        yield (
            f"{unsure} of {len(judged)} speed-ups may be chance: the times of the repeats differ too much. "
            "Longer jobs or more repeats would tell."
        )


def _agreements(cells: Sequence[CellReport], baseline: Baseline) -> Iterator[str]:
    judged = [cell for cell in cells if cell.accuracy_agreement is not None]
    apart = [cell for cell in judged if cell.accuracy_agreement is not None and cell.accuracy_agreement.agrees is False]
    for cell in apart[:_MOST_TOLD_ONE_BY_ONE]:
        assert cell.accuracy_agreement is not None
        points = 100 * cell.accuracy_agreement.difference
        yield (
            f"val_accuracy with {_gpus(cell.gpus)} is {abs(points):.1f} points {'above' if points > 0 else 'below'} "
            f"that with {baseline.gpus}{_with(cell)}, which is more than chance."
        )
    agree = sum(cell.accuracy_agreement.agrees is True for cell in judged if cell.accuracy_agreement is not None)
    if agree:
        of = (
            f"{agree} of {len(judged)} cells"
            if agree < len(judged)
            else f"all {agree} cells"
            if agree > 1
            else "the cell"
        )
        yield f"Accuracy agrees with that of {_gpus(baseline.gpus)} in {of} with more."


def _unequal_epochs(cells: Sequence[CellReport], baseline: Baseline) -> Iterator[str]:
    bases = {others(cell): cell for cell in cells if cell.gpus == baseline.gpus}
    for cell in cells:
        base = bases.get(others(cell))
        if base is None or cell.epochs_run is None or base.epochs_run is None:
            continue
        if abs(cell.epochs_run.mean / base.epochs_run.mean - 1) > 0.1 and cell.throughput_speedup is not None:
            yield (
                f"{_gpus(cell.gpus)} trained {_figure(cell.epochs_run.mean)} epochs and {baseline.gpus} "
                f"{_figure(base.epochs_run.mean)}{_with(cell)}, which is in the speed-up; "
                f"that of the throughput is {_figure(cell.throughput_speedup)}."
            )


def _trade_off(cells: Sequence[CellReport], field: str) -> Iterator[str]:
    """What one value of a field does against another: the greatest against the least, or the best against the worst."""
    values = {str(cell.values[field]): cell.values[field] for cell in cells if cell.val_accuracy is not None}
    if len(values) < 2:
        return
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values.values()):
        base, other = min(values.values()), max(values.values())
    else:
        ranked = sorted(values.values(), key=lambda value: _accuracy(cells, field, value))
        base, other = ranked[0], ranked[-1]
    pairs = _pairs(cells, field, base, other)
    if not pairs:
        return
    points = fmean(
        many.val_accuracy.mean - few.val_accuracy.mean for few, many in pairs if few.val_accuracy and many.val_accuracy
    )
    rates = [
        many.samples_per_s.mean / few.samples_per_s.mean
        for few, many in pairs
        if few.samples_per_s and many.samples_per_s and few.samples_per_s.mean > 0 and many.samples_per_s.mean > 0
    ]
    rate = geometric_mean(rates) if rates else 1.0
    told = []
    if rate >= _WORTH_TELLING:
        told.append(f"makes {_figure(rate)} times as many samples a second")
    elif rate <= 1 / _WORTH_TELLING:
        told.append(f"slows it down to {_figure(rate)} times the samples a second")
    if abs(points) >= _A_POINT:
        told.append(f"{'brings' if points > 0 else 'costs'} {100 * abs(points):.1f} points of val_accuracy")
    if told:
        sentence = f"{_phrase(field, other)} instead of {_phrase(field, base)} {' and '.join(told)}."
        yield sentence[0].upper() + sentence[1:] if field in _PHRASES else sentence


def _pairs(cells: Sequence[CellReport], field: str, base: Any, other: Any) -> list[tuple[CellReport, CellReport]]:
    """The cells that differ in this field alone, and have results."""
    known = [cell for cell in cells if cell.val_accuracy is not None]
    bases = {(cell.gpus, others(cell, field)): cell for cell in known if cell.values[field] == base}
    found = [(bases.get((cell.gpus, others(cell, field))), cell) for cell in known if cell.values[field] == other]
    return [(few, many) for few, many in found if few is not None]


def _accuracy(cells: Sequence[CellReport], field: str, value: Any) -> float:
    return fmean(cell.val_accuracy.mean for cell in cells if cell.val_accuracy and cell.values[field] == value)


def _cautions(cells: Sequence[CellReport], asked: int, on_fewer: Sequence[str]) -> Iterator[str]:
    total = len(cells) * asked
    failed, unfinished = sum(cell.failed for cell in cells), sum(cell.unfinished for cell in cells)
    if failed:
        yield f"{failed} of {total} jobs failed or were cancelled: their cells rest on fewer repeats."
    if unfinished:
        yield f"{unfinished} of {total} jobs have not ended: the figures will change."
    if on_fewer:
        several = "jobs" if len(on_fewer) > 1 else "job"
        yield f"Part of {several} {', '.join(on_fewer)} ran on fewer GPUs than asked for: those figures mislead."
    if asked == 1:
        yield "Each cell was run once, so nothing says how much of a difference is chance: ask for 3 repeats."


def _with(cell: CellReport, *without: str) -> str:
    told = [_phrase(field, value) for field, value in cell.values.items() if field not in ("gpus", *without)]
    return f" with {' and '.join(told)}" if told else ""


def _phrase(field: str, value: Any) -> str:
    text = value if isinstance(value, str) else _object(value) if isinstance(value, dict) else _plain(value)
    return text if field in _NAMED_BY_VALUE else _PHRASES.get(field, field + " {}").format(text)


def _object(value: Mapping[str, Any]) -> str:
    return " ".join(f"{key} {_plain(inner)}" for key, inner in value.items())


def _plain(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else "none" if value is None else str(value)


def _gpus(count: int) -> str:
    return f"{count} GPU{'' if count == 1 else 's'}"


def _figure(value: float | None) -> str:
    return "unknown" if value is None else f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2g}"
