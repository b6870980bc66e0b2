"""Early stopping of a script: counts the epochs in which its metric did not improve. Pure."""

import math
from collections.abc import Mapping


class Patience:
    """Says when the metric has not improved by `min_delta` for `patience` epochs."""

    def __init__(self, monitor: str, *, patience: int, min_delta: float, is_lower_better: bool) -> None:
        self._monitor = monitor
        self._patience = patience
        self._min_delta = min_delta
        self._sign = -1.0 if is_lower_better else 1.0
        self.best: float | None = None
        self.waited = 0

    def resume(self, best: float | None, waited: int) -> None:
        """Continue from what a checkpoint says."""
        self.best, self.waited = best, waited

    def note(self, metrics: Mapping[str, float]) -> None:
        """Note the metrics of an epoch. Without the monitored one nothing changes."""
        value = metrics.get(self._monitor)
        if value is None:
            return
        if math.isfinite(value) and (self.best is None or self._sign * (value - self.best) > self._min_delta):
            self.best, self.waited = value, 0
        else:
            self.waited += 1

    @property
    def is_over(self) -> bool:
        """Whether the run should stop."""
        return self.waited >= self._patience
