"""Mean and deviation of columns that are met in batches. Used by the surveys of `trainer.data`; NumPy only."""

from typing import Any

import numpy as np

from trainer.data.interfaces import Features, Sums


class Moments:
    """Sums up means and squares over batches as in Chan, Golub and LeVeque 1979, STAN-CS-79-773."""

    def __init__(self) -> None:
        self._rows, self._mean, self._squares = 0, np.zeros(()), np.zeros(())

    def add(self, table: Features) -> None:
        """Add the rows of a table (row, column)."""
        values = table.astype(np.float64)
        self._add(len(values), values.mean(0), values.var(0) * len(values))

    def add_sums(self, sums: Sums) -> None:
        """Add the rows of which another one has made `sums`."""
        rows, mean, squares = sums
        self._add(rows, np.array(mean), np.array(squares))

    def _add(self, added: int, mean: Any, squares: Any) -> None:
        shift = mean - self._mean
        rows = self._rows + added
        self._squares = self._squares + squares + shift**2 * (self._rows * added / rows)
        self._mean = self._mean + shift * (added / rows)
        self._rows = rows

    @property
    def sums(self) -> Sums:
        """The rows, the means, and the sums of squares, to be added elsewhere."""
        return self._rows, self._mean.tolist(), self._squares.tolist()

    def normalization(self) -> list[list[float]]:
        """[means, deviations] of the columns; a column of one value has deviation 1."""
        deviation: Any = np.sqrt(self._squares / self._rows)
        return [self._mean.tolist(), np.where(deviation > 0, deviation, 1).tolist()]
