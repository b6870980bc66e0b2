"""Made-up epochs, and a recorder that keeps its records in a list, for the tests of callbacks."""

from collections.abc import Mapping
from typing import Any

from trainer.callbacks import Epoch, Pace, Times
from trainer.recorder import Serializable


class ListRecorder:
    """Keeps records in a list."""

    def __init__(self) -> None:
        self.records: list[Any] = []

    def write(self, record: Serializable) -> None:
        self.records.append(record)

    def buffer(self, record: Serializable) -> None:
        self.records.append(record)

    def flush(self) -> None: ...


def epoch(
    number: int,
    metrics: dict[str, float],
    *,
    samples_per_s: float = 640.0,
    epoch_s: float = 2.0,
    times: Times | None = None,
    damaged: Mapping[str, str] | None = None,
    is_last: bool = False,
) -> Epoch:
    """An epoch of 10 steps."""
    return Epoch(
        epoch=number,
        step=number * 10,
        metrics=metrics,
        pace=Pace(samples_per_s=samples_per_s, epoch_s=epoch_s, data_wait_s=0.5, allreduce_s=0.25),
        times=times or Times(),
        damaged=damaged or {},
        is_last=is_last,
    )
