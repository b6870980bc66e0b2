"""The ledger: what the leased seconds of a job's slots were spent on. Pure; called by `analyse`.

A walk along each attempt's time line, from its lease to its end, books every second once. So the items add up to the
leased time, even if the rows are inconsistent. If several items fit a second, the first of these counts: a stall after
the first step, steps that a later attempt ran again, epochs after the best one.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from jobs.insight.analysis.evidence import EpochSteps, Run
from jobs.insight.analysis.stalls import Pause
from jobs.insight.analysis.steps import Split
from jobs.views.analysis import Ledger, LedgerItem

_I = LedgerItem
Shares = Mapping[LedgerItem, float]


def ledger_of(
    runs: Sequence[Run],
    pauses: Sequence[Pause],
    splits: Mapping[int, Split],
    *,
    best_epoch: int | None,
    is_probe: bool = False,
) -> Ledger:
    """The ledger over all attempts. `splits` say how the steps of an attempt spent their time, by its number.

    `best_epoch` is None before the first validation. A probe has no epochs, and neither has a script that reports no
    step and no epoch: everything after its set-up is useful.
    """
    items = dict.fromkeys(LedgerItem, 0.0)
    for run in runs:
        own = [(one.began_at, one.began_at + one.length_s) for one in pauses if one.attempt == run.number]
        walk = _Walk(run.leased_at, max(run.leased_at, run.ended_at), own)
        if is_probe or (run.is_script and not run.epochs):
            _walk_without_epochs(run, walk)
        else:
            _walk_training(run, walk, splits.get(run.number, Split()), best_epoch)
        for item, seconds in walk.spent.items():
            items[item] += run.slots * seconds
    leased_s = sum(run.slots * max(0.0, run.ended_at - run.leased_at) for run in runs)
    waited_s = sum(max(0.0, run.leased_at - run.queued_at) for run in runs if run.queued_at is not None)
    in_slurm_s = sum(max(0.0, run.leased_at - run.handed_at) for run in runs if run.handed_at is not None)
    return Ledger(leased_s=leased_s, items=items, waited_s=waited_s, waited_in_slurm_s=min(in_slurm_s, waited_s))


class _Walk:
    """Walks forward in time, never back and never beyond the end, and books each second once."""

    def __init__(self, start: float, end: float, stalls: Iterable[tuple[float, float]]) -> None:
        self.spent = dict.fromkeys(LedgerItem, 0.0)
        self._at, self._end = start, end
        self._stalls = sorted(stalls)

    def until(self, moment: float, shares: Shares, *, may_stall: bool = True) -> None:
        """Go to `moment` and book the time between in these shares, which add up to 1."""
        moment = min(moment, self._end)
        if moment <= self._at:
            return
        stalled_s = self._stalled_s(self._at, moment) if may_stall else 0.0
        rest_s = max(0.0, moment - self._at - stalled_s)  # rounding can make it negative
        self.spent[_I.STALLED] += stalled_s
        for item, share in shares.items():
            self.spent[item] += share * rest_s
        self._at = moment

    def to_the_end(self, item: LedgerItem, *, may_stall: bool = True) -> None:
        """Book the rest of the time."""
        self.until(self._end, {item: 1.0}, may_stall=may_stall)

    def _stalled_s(self, start: float, end: float) -> float:
        """How long the job was stalled between two times. Overlapping stalls count once."""
        total, at = 0.0, start
        for began, ended in self._stalls:
            began, ended = max(began, at), min(ended, end)  # noqa: PLW2901 - only the part in between counts
            if ended > began:
                total, at = total + ended - began, ended
        return total


@dataclass(frozen=True)
class _Piece:
    """A part of an attempt's time line, and what it was spent on."""

    began_at: float
    ended_at: float
    shares: Shares


def _walk_without_epochs(run: Run, walk: _Walk) -> None:
    if run.started_at is None:
        walk.to_the_end(_I.LAUNCH, may_stall=False)
        return
    walk.until(run.started_at, {_I.LAUNCH: 1.0}, may_stall=False)
    walk.until(run.started_at + run.set_up_s, {_I.SET_UP: 1.0}, may_stall=False)
    walk.to_the_end(_I.USEFUL)


def _walk_training(run: Run, walk: _Walk, steps: Split, best_epoch: int | None) -> None:
    if run.started_at is None:
        walk.to_the_end(_I.LAUNCH, may_stall=False)
        return
    walk.until(run.started_at, {_I.LAUNCH: 1.0}, may_stall=False)
    if not run.epochs:
        walk.to_the_end(_I.SET_UP, may_stall=False)
        return
    walk.until(run.epochs[0].first_ended_at, {_I.SET_UP: 1.0}, may_stall=False)
    for piece in sorted(_pieces(run, steps, best_epoch), key=lambda piece: piece.began_at):
        walk.until(piece.began_at, {_I.IDLE: 1.0})
        walk.until(piece.ended_at, piece.shares)
    walk.to_the_end(_I.IDLE)


def _pieces(run: Run, steps: Split, best_epoch: int | None) -> Iterable[_Piece]:
    """Steps, validations and checkpoints of an attempt. They may overlap: the walk books each second once."""
    training = {_I.DATA_WAIT: steps.data_wait, _I.COMMUNICATION: steps.communication, _I.USEFUL: steps.compute}
    for epoch in run.epochs:
        is_after = best_epoch is not None and epoch.epoch > best_epoch
        valid_share = _valid_share(run, epoch)
        own: Shares = {_I.AFTER_BEST: 1.0} if is_after else training
        border = epoch.began_at + valid_share * (epoch.ended_at - epoch.began_at)
        yield _Piece(epoch.began_at, border, own)
        yield _Piece(border, epoch.ended_at, {_I.LOST: 1.0})
        validated_at = run.validated_at.get(epoch.epoch)
        if validated_at is not None:
            item = _I.LOST if valid_share < 1 else _I.AFTER_BEST if is_after else _I.USEFUL
            yield _Piece(epoch.ended_at, validated_at, {item: 1.0})
    for began_at, ended_at in run.saves:
        yield _Piece(began_at, ended_at, {_item_of_save(run, began_at, best_epoch): 1.0})


def _valid_share(run: Run, epoch: EpochSteps) -> float:
    """The share of an epoch's steps that no later attempt ran again."""
    if run.void_after is None or epoch.last <= run.void_after:
        return 1.0
    return max(0.0, (run.void_after - epoch.first + 1) / (epoch.last - epoch.first + 1))


def _item_of_save(run: Run, began_at: float, best_epoch: int | None) -> LedgerItem:
    before = [one for one in run.epochs if one.ended_at <= began_at]
    if not before:
        return _I.SAVING
    if run.is_void(before[-1].last):
        return _I.LOST
    return _I.AFTER_BEST if best_epoch is not None and before[-1].epoch > best_epoch else _I.SAVING
