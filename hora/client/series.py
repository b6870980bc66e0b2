"""What jobs measured, as arrays and tables. Used by `hora.client.jobs`."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal, Self

from hora.client.html import rows, sparkline
from hora.client.reading import read
from hora.errors import Json
from jobs.views.series import MetricSeriesView

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pandas as pd

Axis = Literal["step", "epoch", "time"]

OVER_ALL_RANKS = -1


class Metrics(tuple[MetricSeriesView, ...]):
    """The series of a job, each `{name, rank, x, y, bands}`; rank -1 is over all ranks. `axis` says what x is."""

    axis: str

    def __new__(cls, series: Iterable[MetricSeriesView], axis: str) -> Self:
        """The series in the service's order."""
        metrics = super().__new__(cls, series)
        metrics.axis = axis
        return metrics

    @classmethod
    def read(cls, documents: Iterable[Json], axis: str) -> Self:
        """The series of the service's answer."""
        return cls((read(MetricSeriesView, one) for one in documents), axis)

    def to_numpy(self) -> "dict[str, tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]]":
        """`{name: (x, y)}`, of float64; a value that is no number is NaN. A rank's own series is `name[rank]`."""
        try:
            import numpy as np
        except ImportError as error:
            raise ImportError("to_numpy needs numpy, which is not installed: pip install numpy") from error
        return {
            name_of(one): (
                np.array(one.x, dtype=np.float64),
                np.array(one.y, dtype=np.float64),
            )
            for one in self
        }

    def to_pandas(self) -> "pd.DataFrame":
        """One row for each point, with the columns name, rank, the axis, and value.

        `frame[frame["rank"] == -1].pivot(index="epoch", columns="name", values="value")` has a column a metric.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("to_pandas needs pandas, which is not installed: pip install pandas") from error
        points = [(one.name, one.rank, x, y) for one in self for x, y in zip(one.x, one.y, strict=True)]
        frame = pd.DataFrame(points, columns=["name", "rank", self.axis, "value"])
        return frame.astype({"rank": "int64", self.axis: "float64", "value": "float64"})

    def __repr__(self) -> str:
        names = ", ".join(f"{name_of(one)} ({len(one.x)})" for one in self)
        return f"<{type(self).__name__} by {self.axis}: {names or 'none'}>"

    def _repr_html_(self) -> str:
        return rows(
            [
                {
                    "metric": name_of(one),
                    "points": len(one.x),
                    "last": one.y[-1] if one.y else None,
                    f"by {self.axis}": sparkline(one.y),
                }
                for one in self
            ]
        )


def name_of(series: MetricSeriesView) -> str:
    """The name of a series, with the rank that measured it."""
    return series.name if series.rank == OVER_ALL_RANKS else f"{series.name}[{series.rank}]"
