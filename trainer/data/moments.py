"""Mean and deviation of columns that are met in batches. Used by the surveys of `trainer.data`; NumPy only."""

from typing import Any

import numpy as np

from trainer.data.interfaces import Features


class Moments:
    """Sums up means and squares over batches as in Chan, Golub and LeVeque 1979, STAN-CS-79-773."""

    def __init__(self) -> None:
        self._rows, self._mean, self._squares = 0, np.zeros(()), np.zeros(())

    def add(self, table: Features) -> None:
        """Add the rows of a table (row, column)."""
        values = table.astype(np.float64)
        shift = values.mean(0) - self._mean
        rows = self._rows + len(values)
        self._squares = self._squares + values.var(0) * len(values) + shift**2 * (self._rows * len(values) / rows)
        self._mean = self._mean + shift * (len(values) / rows)
        self._rows = rows

    def normalization(self) -> list[list[float]]:
        """[means, deviations] of the columns; a column of one value has deviation 1."""
        deviation: Any = np.sqrt(self._squares / self._rows)
        return [self._mean.tolist(), np.where(deviation > 0, deviation, 1).tolist()]
