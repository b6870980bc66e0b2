"""Stands for the package `sparkdl` of Databricks, so that a notebook's function runs as it is: on every rank.

from sparkdl import HorovodRunner

HorovodRunner(np=2).run(train, learning_rate=0.1)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hora.run import rank, size


class HorovodRunner:
    """Runs a function on all ranks. Hora has started them already, so each rank calls the function itself."""

    def __init__(self, np: int, driver_log_verbosity: str = "log_callback_only") -> None:
        if abs(np) != size and rank == 0:
            print(f"HorovodRunner(np={np}): the job has {size} ranks, and all of them run the function", flush=True)

    def run(self, main: Callable[..., Any], **kwargs: Any) -> Any:
        """Call the function, and return what it returns on this rank."""
        return main(**kwargs)
