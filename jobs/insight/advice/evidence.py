"""What advice on a job rests on, and the questions that several rules ask of it. Pure.

`jobs.insight.advice.gathering` reads it from rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from math import prod
from typing import Any

from jobs.insight.advice.past import CPU, PastJob, comparable
from jobs.insight.advice.throughput import Throughput
from jobs.insight.analysis.verdicts import LEAST_STEPS, LEAST_STEPS_S
from jobs.lifecycle.admission import SitePolicy
from jobs.model.catalog import Model
from jobs.model.plan import DatasetSizes, Plan
from jobs.model.records import ProbeFindings, Summary
from jobs.model.spec import Spec
from jobs.model.states import EndReason, Status
from jobs.views.advice import Advice, Gain, Rule
from jobs.views.analysis import Analysis, Finding, FindingKind, StepShares

FEWEST_EPOCHS = 3  # before that a validation accuracy says nothing yet
WORTH = 0.15  # of the training time: what is less is within the spread of repeated runs


@dataclass(frozen=True)
class Data:
    """What the job's data turned out to be."""

    format: str
    shape: tuple[int, ...]  # of a sample: (height, width, channel), or (feature,)
    sizes: DatasetSizes  # before `fraction`

    @property
    def are_images(self) -> bool:
        """Whether a sample is an image."""
        return len(self.shape) == 3

    def decoded_bytes(self, fraction: float) -> int:
        """What the training and validation samples take in memory; images have one byte a value, tables four."""
        sample = prod(self.shape) * (1 if self.are_images else 4)
        return (round(self.sizes.train * fraction) + self.sizes.validation) * sample


@dataclass(frozen=True)
class Base:
    """An earlier job with the same network on other data, whose weights this one could start from."""

    id: str
    source: str
    train_samples: int
    val_accuracy: float | None


@dataclass(frozen=True)
class Cluster:
    """The largest host with slots of the job's kind, and what hosts that work together have."""

    largest_host: int  # slots
    together: int | None = None  # slots; null where no hosts work together
    memory_bytes: int | None = None  # of the host with the least


@dataclass(frozen=True)
class Evidence:
    """A job, what its steps and samples say, and what others did in the same work. Null or empty is not known."""

    job_id: str
    status: Status
    spec: Spec
    plan: Plan
    analysis: Analysis
    end_reason: EndReason | None = None
    error: str | None = None
    summary: Summary | None = None
    probe: ProbeFindings | None = None
    data: Data | None = None
    model: Model | None = None  # of the catalog
    device: str | None = CPU
    hosts: int = 1
    accuracies: tuple[float, ...] = ()  # val_accuracy by epoch, from the first
    past: tuple[PastJob, ...] = ()  # that succeeded in the same work, this one among them
    bases: tuple[Base, ...] = ()
    cluster: Cluster | None = None
    site: SitePolicy = field(default_factory=SitePolicy)

    @cached_property
    def shares(self) -> StepShares | None:
        """Where the time of the steps went, over all ranks; None where there were too few of them to tell."""
        found = next((share for share in self.analysis.steps if share.rank == -1), None)
        if found is None or found.steps < LEAST_STEPS or found.steps * found.step_time_s < LEAST_STEPS_S:
            return None
        return found

    def finding(self, kind: FindingKind) -> Finding | None:
        """The finding of this kind, where there is one."""
        return next((finding for finding in self.analysis.findings if finding.kind is kind), None)

    @cached_property
    def alike(self) -> Sequence[PastJob]:
        """Past jobs that did with each sample what this one does, on the same device, for long enough."""
        return [job for job in comparable(self.past, self.spec, self.device) if job.is_long]

    @cached_property
    def throughput(self) -> Throughput:
        """What was measured in the same work: on as many hosts, and with other GPU counts on as few as can be."""
        return Throughput(self.alike, hosts={self.plan.gpus: self.hosts})

    @cached_property
    def probed(self) -> Throughput:
        """What batch probes measured: steps without all that is around them, to be compared only with one another."""
        return Throughput((job for job in self.alike if job.probe is not None), hosts={self.plan.gpus: self.hosts})

    @cached_property
    def trained(self) -> Throughput:
        """What trainings measured."""
        return Throughput((job for job in self.alike if job.probe is None), hosts={self.plan.gpus: self.hosts})

    @property
    def sizes(self) -> DatasetSizes | None:
        """Of the data, before `fraction`."""
        return None if self.data is None else self.data.sizes


@dataclass(frozen=True)
class Proposal:
    """A piece of advice that has no number yet."""

    rule: Rule
    what: str
    why: str
    evidence: Mapping[str, float | int | str | None]
    change: Mapping[str, Any]
    gain: Gain

    def numbered(self, number: int) -> Advice:
        """As the API answers it."""
        return Advice(number=number, **{each.name: getattr(self, each.name) for each in fields(self)})


def gain(
    text: str, *, time: float | None = None, gpu_hours: float | None = None, accuracy: float | None = None
) -> Gain:
    """A gain whose GPU-hours go with the time, where nothing else is said."""
    hours = time if gpu_hours is None else gpu_hours
    return Gain(time_factor=_rounded(time), gpu_hours_factor=_rounded(hours), accuracy=_rounded(accuracy), text=text)


def percent(share: float) -> str:
    """A share as people read it."""
    return f"{100 * share:.0f} %"


def less_time(factor: float) -> str:
    """A time factor as a sentence."""
    return f"About {percent(1 - factor)} less training time."


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
