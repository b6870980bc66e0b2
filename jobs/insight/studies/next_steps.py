"""What to do next after a study: at most three steps, which follow from its figures. Pure; called by `report`."""

from collections.abc import Iterator, Sequence
from itertools import islice

from jobs.insight.studies.convergence import verdicts_of
from jobs.insight.studies.phrases import slot_count
from jobs.insight.studies.scaling import Comparison, compared_with_baseline
from jobs.model.gpu_time import slots_text
from jobs.model.remedies import EXPLANATIONS
from jobs.views.studies import Baseline, CellReport, Goal

_MOST = 3
_USUAL_REPEATS = 3
_MOST_REPEATS = 20  # that anybody would run
_SHORT_S = 10.0  # of training, which the start of a process or a busy host disturbs
_POOR = 0.5  # an efficiency


def next_steps_of(
    cells: Sequence[CellReport],
    *,
    goal: Goal | None,
    baseline: Baseline | None,
    repeats: int,
    scaling: str | None = None,
    scales_rate: bool = False,
) -> list[str]:
    """The steps, the most important first. None before all jobs have ended. `scales_rate`: `lr_scaling` is set."""
    if any(cell.unfinished for cell in cells):
        return []
    compared = [] if baseline is None else compared_with_baseline(cells, baseline)
    steps = (
        *_after_failures(cells),
        *_better_measured(cells, compared, goal, repeats),
        *_better_scaled(cells, compared, goal, scaling, scales_rate=scales_rate),
    )
    return list(islice(steps, _MOST))


def _after_failures(cells: Sequence[CellReport]) -> Iterator[str]:
    for reason in dict.fromkeys(failure.end_reason for cell in cells for failure in cell.failures):
        if remedy := EXPLANATIONS[reason].remedy:
            yield f"For the jobs that ended {reason}: {remedy}"
            return


def _better_measured(
    cells: Sequence[CellReport], compared: Sequence[Comparison], goal: Goal | None, repeats: int
) -> Iterator[str]:
    """What makes the figures tell more."""
    if odd := next((each for each in compared if each.is_implausible), None):
        yield f"Run the cells with {slot_count(odd.base)} again on an idle host, one job at a time."
    times_s = [cell.wall_s.mean for cell in cells if cell.wall_s is not None]
    unsure = [each for each in compared if each.may_be_chance]
    needed = [each.repeats_needed for each in unsure]
    needed += [each.repeats_needed for cell in cells for each in verdicts_of(cell, goal) if each.is_open]
    if repeats == 1 and times_s:
        yield f"Set repeats: {_USUAL_REPEATS}, so that the report can tell differences from chance."
    elif unsure and max(times_s) < _SHORT_S:
        yield f"Train for longer: no cell took {_SHORT_S:g} s, and short times differ by chance."
    elif few := [count for count in needed if count is not None and count <= _MOST_REPEATS]:
        yield f"Set repeats: {max(few)}, to tell what {repeats} cannot."
    elif needed:
        yield f"Train for longer: more than {_MOST_REPEATS} repeats would be needed to tell what {repeats} cannot."


def _better_scaled(
    cells: Sequence[CellReport],
    compared: Sequence[Comparison],
    goal: Goal | None,
    scaling: str | None,
    *,
    scales_rate: bool,
) -> Iterator[str]:
    if scaling == "weak" and any(each.agrees is False for cell in cells for each in verdicts_of(cell, goal)):
        rate = "" if scales_rate else "set lr_scaling: linear with warmup_epochs: 3, or "
        yield f"To come to the loss of fewer slots, {rate}keep the global batch: batch_per: global."
    poor = [each for each in compared if (each.cell.efficiency or 1) < _POOR and not each.may_be_chance]
    if poor:
        most = max(each.cell.gpus for each in poor)
        more_work = f"Give {slots_text(most, poor[0].cell.device)} more work between two exchanges (larger batches)"
        yield f"{more_work}, or stay at {poor[0].base.gpus}."
