"""The findings about convergence: whether more slots come to the loss and the goal of the baseline. Pure.

Called by `findings`. What the repeats cannot tell is named so, with how many would tell.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jobs.insight.studies.figures import of_goal
from jobs.insight.studies.phrases import counted, listed, percent, short, slot_count, values_of, where
from jobs.insight.studies.scaling import MOST_LISTED, would_tell
from jobs.model.gpu_time import slots_text
from jobs.views.studies import Agreement, Baseline, CellReport, CurveAgreement, Goal

_FEWER_UPDATES = "More slots make fewer updates in an epoch (weak scaling): that may be the reason."


@dataclass(frozen=True)
class Verdict:
    """Whether a metric of a cell agrees with that of the baseline."""

    cell: CellReport
    metric: str
    away: str
    agrees: bool | None
    repeats_needed: int | None
    has_spread: bool
    both_diverged: bool = False

    @property
    def is_open(self) -> bool:
        """Whether the repeats cannot tell."""
        return self.agrees is None and not self.both_diverged

    @property
    def text(self) -> str:
        """val_loss (12 % away)."""
        return f"{self.metric} ({self.away})"


def verdicts_of(cell: CellReport, goal: Goal | None) -> list[Verdict]:
    """The goal first, then the curves of the losses."""
    verdicts = []
    own = cell.accuracy_agreement
    if goal is not None and own is not None:
        away = _distance(cell, own, goal)
        verdicts.append(Verdict(cell, goal.metric, away, own.agrees, own.repeats_needed, own.low is not None))
    for name, curve in cell.loss_agreement.items():
        needed = curve.repeats_needed
        metric, has_spread = f"the curve of {name}", curve.chance is not None
        both_diverged = curve.difference is None and curve.agrees is None
        verdicts.append(Verdict(cell, metric, _away(curve), curve.agrees, needed, has_spread, both_diverged))
    return verdicts


def convergence_findings(
    cells: Sequence[CellReport], baseline: Baseline, goal: Goal | None, *, is_weak: bool
) -> Iterator[str]:
    """One finding for each cell, or for each metric if there are many cells."""
    by_cell = [verdicts for cell in cells if (verdicts := verdicts_of(cell, goal))]
    if len(by_cell) <= MOST_LISTED:
        for verdicts in by_cell:
            cell, of_cell = verdicts[0].cell, _of_cell(verdicts, baseline.gpus)
            caveat = f" {_FEWER_UPDATES}" if is_weak and any(each.agrees is False for each in verdicts) else ""
            values = where(cell)
            yield f"{values}{'on' if values else 'On'} {slot_count(cell)} {of_cell}.{caveat}"
        return
    every = [each for verdicts in by_cell for each in verdicts]
    for metric in dict.fromkeys(each.metric for each in every):
        yield _of_metric([each for each in every if each.metric == metric], baseline, is_weak=is_weak)


def _of_cell(verdicts: Sequence[Verdict], base: int) -> str:
    parts = []
    if differing := [each.text for each in verdicts if each.agrees is False]:
        parts.append(f"{listed(differing)} {_verb('differ', differing)} from {base} by more than chance")
    if agreeing := [each.text for each in verdicts if each.agrees]:
        parts.append(f"{listed(agreeing)} {_verb('agree', agreeing)} with {base}")
    if diverged := [each.metric for each in verdicts if each.both_diverged]:
        parts.append(f"{listed(diverged)} diverged on both")
    if unsure := [each for each in verdicts if each.is_open]:
        parts.append(f"for {listed([each.text for each in unsure])} {_why_unsure(unsure)}")
    return "; ".join(parts)


def _verb(verb: str, subjects: Sequence[str]) -> str:
    return verb if len(subjects) > 1 else f"{verb}s"


def _why_unsure(unsure: Sequence[Verdict]) -> str:
    if not all(each.has_spread for each in unsure):
        return "one repeat cannot tell"
    needed = [each.repeats_needed for each in unsure]
    most = None if None in needed else max(filter(None, needed))
    return f"{counted(unsure[0].cell.repeats, 'repeat')} cannot tell, {would_tell(most)}"


def _of_metric(verdicts: Sequence[Verdict], baseline: Baseline, *, is_weak: bool) -> str:
    """Of 8 cells, val_loss against that on 1 GPU agrees in 2, differs by more than chance in 5 (...), ..."""
    differing = [each for each in verdicts if each.agrees is False]
    unsure = [each for each in verdicts if each.is_open]
    parts = []
    if agreeing := sum(each.agrees is True for each in verdicts):
        parts.append(f"agrees in {agreeing}")
    if differing:
        named = "; ".join(
            f"{', '.join(filter(None, [slot_count(each.cell), values_of(each.cell)]))}: {each.away}"
            for each in differing[:MOST_LISTED]
        )
        parts.append(f"differs by more than chance in {len(differing)} ({named})")
    if diverged := sum(each.both_diverged for each in verdicts):
        parts.append(f"diverged on both in {diverged}")
    if unsure:
        parts.append(f"is open in {len(unsure)} ({_why_unsure(unsure)})")
    base = slots_text(baseline.gpus, verdicts[0].cell.device)
    caveat = f" {_FEWER_UPDATES}" if is_weak and differing else ""
    return (
        f"Of {counted(len(verdicts), 'cell')}, {verdicts[0].metric} against that on {base} {', '.join(parts)}.{caveat}"
    )


def _distance(cell: CellReport, agreement: Agreement, goal: Goal) -> str:
    """How far a cell is from the baseline: 1.2 points below; of another goal than an accuracy 0.031 (12 %) above."""
    away, here = abs(agreement.difference), of_goal(cell, goal)
    side = "above" if agreement.difference > 0 else "below"
    if not away:
        return "equal"
    if goal.is_accuracy:
        return f"{100 * away:.1f} points {side}"
    there = 0.0 if here is None else here.mean - agreement.difference
    return f"{away:.3g}" + (f", {percent(away / abs(there))}" if there else "") + f" {side}"


def _away(curve: CurveAgreement) -> str:
    if curve.difference is None:
        return "one of the two diverged"
    return f"{short(curve.difference) if curve.relative is None else percent(curve.relative)} away"
