"""Finds stalls: times without a step, far longer than steps take. Pure; called by `analyse`.

A stall lies in a long step, between two epochs, or after the last step of an attempt that lives or did not finish.
Validation and checkpoints are no stall if they take about as long as usual. The time before the first step of an
attempt is launch and set-up.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from jobs.insight.analysis.evidence import Evidence, LongStep, Run, Steps
from jobs.views.analysis import StallCause

LEAST_S = 10.0  # shorter pauses are ordinary: a slow disk, a page fault, a neighbour
_FAR_LONGER = 20  # times the median step
_OF_USUAL = 3  # times the usual time between two epochs
_MOST_OF_IT = 0.5  # the share of a long step that explains it


@dataclass(frozen=True)
class Pause:
    """A stall of one attempt, from `began_at` on. `length_s` is without what usually takes its place."""

    attempt: int
    began_at: float
    length_s: float
    after_step: int
    usual_step_s: float
    ongoing: bool
    cause: StallCause
    rank: int | None = None  # for which the others waited
    step: int | None = None  # in which it lies; None: between two steps


def find_stalls(evidence: Evidence) -> list[Pause]:
    """All stalls, sorted by attempt."""
    medians = {one.attempt: float(np.median(one.time_s)) for one in evidence.steps if len(one.number)}
    pauses: list[Pause] = []
    for run in (run for run in evidence.runs if run.epochs):
        usual_s = run.report_s or medians.get(run.number) or _median_of_epochs(run)
        if usual_s is not None:
            pauses += _in_steps(run, usual_s)
            pauses += _between_epochs(run, usual_s, _validation_s(evidence.plan, usual_s))
            pauses += _after_the_last(run, usual_s, _validation_s(evidence.plan, usual_s))
    return pauses


def steps_without(steps: Sequence[Steps], pauses: Sequence[Pause]) -> list[Steps]:
    """The steps without those that are stalls. Attempts without steps are left out."""
    long = {(pause.attempt, pause.step) for pause in pauses if pause.step is not None}
    usual_steps = [
        one.where(~np.isin(one.number, [step for attempt, step in long if attempt == one.attempt])) for one in steps
    ]
    return [one for one in usual_steps if len(one.number)]


def _in_steps(run: Run, usual_s: float) -> Iterator[Pause]:
    first = run.epochs[0].first
    for step in sorted(run.long_steps, key=lambda step: step.step):
        if step.step != first and step.length_s > _threshold_s(usual_s):
            cause, rank = _cause(step)
            yield Pause(
                run.number, step.ended_at - step.length_s, step.length_s - usual_s, step.step - 1, usual_s,
                ongoing=False, cause=cause, rank=rank, step=step.step,
            )  # fmt: skip


def _cause(step: LongStep) -> tuple[StallCause, int | None]:
    """Why a step was long, and for which rank the others waited, if for one."""
    enough_s = _MOST_OF_IT * step.length_s
    if not step.ranks:
        return StallCause.UNKNOWN, None
    slowest = max(step.ranks, key=lambda rank: rank.data_wait_s)
    if slowest.data_wait_s >= enough_s:
        all_waited = all(rank.data_wait_s >= enough_s for rank in step.ranks)
        return StallCause.DATA, None if all_waited else slowest.rank
    waited = [rank for rank in step.ranks if rank.allreduce_s >= enough_s]
    late = [rank for rank in step.ranks if rank.allreduce_s < enough_s]
    if len(late) == 1 and waited:
        return StallCause.RANK, late[0].rank
    return (StallCause.COMMUNICATION if len(waited) == len(step.ranks) else StallCause.UNKNOWN), None


def _between_epochs(run: Run, usual_s: float, validation_s: float) -> Iterator[Pause]:
    gaps = [after.began_at - before.ended_at for before, after in zip(run.epochs, run.epochs[1:], strict=False)]
    for index, (gap_s, before) in enumerate(zip(gaps, run.epochs, strict=False)):
        usual_gap_s = _usual_gap_s(gaps[:index] + gaps[index + 1 :], validation_s)
        if _is_long(gap_s, usual_s, usual_gap_s):
            yield Pause(
                run.number, before.ended_at, gap_s - usual_gap_s, before.last, usual_s,
                ongoing=False, cause=StallCause.UNKNOWN,
            )  # fmt: skip


def _after_the_last(run: Run, usual_s: float, validation_s: float) -> Iterator[Pause]:
    if run.ended_well:
        return
    last = run.epochs[-1]
    gaps = [after.began_at - before.ended_at for before, after in zip(run.epochs, run.epochs[1:], strict=False)]
    gap_s, usual_gap_s = run.ended_at - last.ended_at, _usual_gap_s(gaps, validation_s)
    if _is_long(gap_s, usual_s, usual_gap_s):
        yield Pause(
            run.number, last.ended_at, gap_s - usual_gap_s, last.last, usual_s,
            ongoing=run.live, cause=StallCause.UNKNOWN,
        )  # fmt: skip


def _usual_gap_s(other_gaps_s: Sequence[float], validation_s: float) -> float:
    """The usual time from one epoch to the next: that of this attempt, or what its validation should take."""
    return median(other_gaps_s) if len(other_gaps_s) > 1 else validation_s


def _is_long(gap_s: float, usual_s: float, usual_gap_s: float) -> bool:
    return gap_s > max(usual_gap_s + _threshold_s(usual_s), _OF_USUAL * usual_gap_s)


def _threshold_s(usual_s: float) -> float:
    return max(LEAST_S, _FAR_LONGER * usual_s)


def _validation_s(plan: Mapping[str, object], usual_s: float) -> float:
    """How long a validation takes at most: its steps only go forward, so they cost no more than those of training."""
    steps = plan.get("validation_steps")
    return usual_s * steps if isinstance(steps, int) else 0.0


def _median_of_epochs(run: Run) -> float | None:
    """The mean step of the median epoch, if no single steps are known."""
    means = [(one.ended_at - one.first_ended_at) / (one.last - one.first) for one in run.epochs if one.last > one.first]
    return median(means) if means else None
