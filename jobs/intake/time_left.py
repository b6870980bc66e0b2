"""Estimates how long the training of an attempt still takes. Used by `jobs.intake.batches`. Pure."""

_STEPS = 100  # an "epoch" of a training whose epochs have no known length
_WHOLE = 0.9  # of an epoch's steps: an attempt that begins within an epoch does not see a whole one
_WEIGHT = 0.5  # of the newest epoch


class TimeLeft:
    """The pace of the epochs so far, from the clock: with validations, checkpoints and waits for data.

    It changes when an epoch ends, so the estimate does not jump with single steps. In the first epoch it is the mean
    time of the steps. The first step does not count, because it compiles the model.
    """

    def __init__(self) -> None:
        self._pace_s: float | None = None  # seconds a step
        self._epoch_began: tuple[int, float] | None = None  # the first step that was seen of this epoch, and when
        self._epoch = 0
        self._sum_s = 0.0
        self._count = 0

    def after(
        self, step: int, at: float, step_time_s: float, *, steps: int | None, steps_per_epoch: int | None
    ) -> float | None:
        """Note that a step has ended. Returns the time that the rest of `steps` takes; None if they are not known."""
        length = steps_per_epoch or _STEPS
        epoch = (step - 1) // length
        if self._epoch_began is None:
            self._epoch_began, self._epoch = (step, at), epoch
        else:
            self._sum_s, self._count = self._sum_s + step_time_s, self._count + 1
        if epoch != self._epoch:
            self._end_epoch(step, at, length)
            self._epoch_began, self._epoch = (step, at), epoch
        if not steps:
            return None
        mean_s = self._sum_s / self._count if self._count else step_time_s
        return max(steps - step, 0) * (mean_s if self._pace_s is None else self._pace_s)

    def _end_epoch(self, step: int, at: float, length: int) -> None:
        assert self._epoch_began is not None
        first, began_at = self._epoch_began
        if step - first < _WHOLE * length or at <= began_at:
            return
        pace_s = (at - began_at) / (step - first)
        self._pace_s = pace_s if self._pace_s is None else self._pace_s + _WEIGHT * (pace_s - self._pace_s)
