"""How long the parts of a script's work take."""

from __future__ import annotations

import os
import threading
import time
from types import TracebackType

from hora.run.channel import send
from hora.run.checks import metric_name
from hora.run.given import is_inside


class Measured:
    """The seconds of each phase since the last report."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._lock = threading.Lock()
        self.has_reported = False

    def add(self, name: str, seconds: float) -> None:
        with self._lock:
            self._seconds[name] = self._seconds.get(name, 0.0) + seconds

    def for_report(self) -> dict[str, float]:
        """Give what was measured, and begin anew."""
        self.has_reported = True
        if not self._seconds:
            return self._seconds
        with self._lock:
            taken, self._seconds = self._seconds, {}
        return taken


measured = Measured()


def _after_fork() -> None:
    """A forked process, such as a loader of data, may have got the lock in the middle of a phase."""
    measured.__init__()  # type: ignore[misc]


os.register_at_fork(after_in_child=_after_fork)


class phase:  # noqa: N801 - used as a function
    """Measure a part of a step or of the set-up: `with run.phase("data"): batch = next(batches)`.

    `data` and `allreduce` are parts of a step's time; others become a metric such as `validate_s` in the next report.
    Before the first report a phase is a part of the set-up. Raises `ValueError` for a wrong name.
    """

    def __init__(self, name: str) -> None:
        if len(metric_name(name)) > 60:
            raise ValueError(f"the name of a phase has at most 60 characters, not {len(name)}")
        self._phase = name

    def __enter__(self) -> phase:
        self._began = time.perf_counter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        seconds = time.perf_counter() - self._began
        if measured.has_reported:
            measured.add(self._phase, seconds)
        elif is_inside:
            send({"kind": "phase", "at": time.time(), "name": self._phase, "duration_s": seconds})
