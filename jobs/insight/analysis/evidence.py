"""The evidence of an analysis, which `reading` reads from rows. Pure; used by the modules beside it.

Times are POSIX seconds: those of steps, epochs and checkpoints by the clock of the host that wrote them, those of
leases by the clock of the database.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jobs.model.tasks import CLASSIFICATION, Task

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]


@dataclass(frozen=True)
class EpochSteps:
    """The steps of an attempt's first rank in one epoch."""

    epoch: int
    first: int
    last: int
    began_at: float  # the first of them
    first_ended_at: float
    ended_at: float  # the last of them


@dataclass(frozen=True)
class RankStep:
    """How long one rank waited in a step, in seconds."""

    rank: int
    data_wait_s: float
    allreduce_s: float


@dataclass(frozen=True)
class LongStep:
    """A step of more than a few seconds, and how long each rank waited in it."""

    step: int
    ended_at: float
    length_s: float
    ranks: Sequence[RankStep] = ()


@dataclass(frozen=True)
class Run:
    """One attempt along its time line. An attempt that never came to its first step has no epochs."""

    number: int
    slots: int
    leased_at: float
    ended_at: float  # of a live attempt: now
    queued_at: float | None = None
    handed_at: float | None = None  # to Slurm
    started_at: float | None = None  # its first rank's first line
    live: bool = False
    ended_well: bool = False  # it finished, so what follows its last step is its normal end
    void_after: int | None = None  # later attempts ran the steps after this one again; None: no step
    set_up_s: float = 0.0  # of the first rank's phases
    epochs: Sequence[EpochSteps] = ()
    validated_at: Mapping[int, float] = field(default_factory=dict)  # by epoch
    saves: Sequence[tuple[float, float]] = ()  # checkpoints: from, to
    long_steps: Sequence[LongStep] = ()
    is_script: bool = False
    report_s: float | None = None  # the usual time between two reports of a script, which may lie many steps apart

    def is_void(self, step: int) -> bool:
        """Whether a later attempt ran this step again."""
        return self.void_after is not None and step > self.void_after


@dataclass(frozen=True)
class Steps:
    """Steps of one attempt that all its ranks made, without its first; for a long attempt only a part of them.

    `time_s`, `data_wait_s` and `allreduce_s` are (step, rank). Void steps are not among them.
    """

    attempt: int
    number: Whole  # (step,)
    time_s: Floats
    data_wait_s: Floats
    allreduce_s: Floats
    every: float = 1.0  # how many steps of the attempt each of these represents
    has_waits: bool = True  # both waits were measured. A script may measure one alone; the other is 0 then

    @property
    def ranks(self) -> int:
        """The number of ranks."""
        return int(self.time_s.shape[1])

    def where(self, chosen: NDArray[np.bool_]) -> "Steps":
        """The chosen steps."""
        times = (self.time_s[chosen], self.data_wait_s[chosen], self.allreduce_s[chosen])
        return Steps(self.attempt, self.number[chosen], *times, every=self.every, has_waits=self.has_waits)


@dataclass(frozen=True)
class SlotSamples:
    """The samples of one slot from its attempt's first step on: `busy` (sample,) in percent, `at` in seconds."""

    attempt: int
    rank: int
    host: str
    slot: int
    metric: str  # of `busy`
    at: Floats
    busy: Floats
    gpu_memory_bytes: int | None = None  # the most
    memory_bytes: int | None = None
    throttle: Mapping[str, int] = field(default_factory=dict)  # samples by reason
    greatest_clock_mhz: float | None = None
    throttled_clock_mhz: float | None = None  # the mean, of the throttled samples

    def between(self, start: float, end: float) -> "SlotSamples":
        """The samples between two times. Figures that are not by sample stay."""
        return self.where((self.at >= start) & (self.at <= end))

    def where(self, chosen: NDArray[np.bool_]) -> "SlotSamples":
        """The chosen samples. Figures that are not by sample stay."""
        return replace(self, at=self.at[chosen], busy=self.busy[chosen])


@dataclass(frozen=True)
class EpochFigures:
    """The metrics over all ranks at the end of a valid epoch, by name, without NaN."""

    epoch: int
    values: Mapping[str, float]


@dataclass(frozen=True)
class Evidence:
    """Everything that an analysis uses."""

    job_id: str
    ended: bool
    spec: Mapping[str, Any]
    plan: Mapping[str, Any]
    summary: Mapping[str, Any] | None
    on_gpu: bool
    runs: Sequence[Run] = ()
    epochs: Sequence[EpochFigures] = ()
    steps: Sequence[Steps] = ()
    samples: Sequence[SlotSamples] = ()
    metrics: Collection[str] = ()  # the names of what it reported
    classes: int | None = None  # of its dataset
    task: Task = CLASSIFICATION
    one_gpu_step_s: float | None = None  # the median step of the same work on one GPU, with the same batch on it
