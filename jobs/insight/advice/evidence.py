"""The evidence for advice on a job, and what several rules derive from it. Pure.

`jobs.insight.advice.gathering` reads it from rows.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from math import prod
from typing import Any

from jobs.insight.advice.past import PastJob, comparable
from jobs.insight.advice.throughput import Throughput
from jobs.insight.analysis.verdicts import LEAST_STEPS, LEAST_STEPS_S
from jobs.lifecycle.attempt_devices import CPU
from jobs.lifecycle.site_policy import SitePolicy
from jobs.model.catalog import Model
from jobs.model.dataset_fields import DatasetSpec
from jobs.model.goals import goal_metric
from jobs.model.plan import DatasetSizes, Plan
from jobs.model.records import ProbeFindings, Summary
from jobs.model.spec import EPOCH_METRICS, Spec
from jobs.model.states import EndReason, Status
from jobs.views.advice import Advice, Gain, Rule
from jobs.views.analysis import Analysis, Finding, FindingKind, StepShares

ACCURACY = "val_accuracy"  # the only metric whose gain is given as a number
FEWEST_EPOCHS = 3  # after fewer, a validation metric says nothing
WORTH = 0.15  # of the training time: smaller gains are within the spread of repeated runs


@dataclass(frozen=True)
class Data:
    """The job's data, as its ranks found it."""

    format: str
    shape: tuple[int, ...]  # of a sample: (height, width, channel), or (feature,)
    sizes: DatasetSizes  # before `fraction` or `samples`

    @property
    def are_images(self) -> bool:
        """Whether a sample is an image."""
        return len(self.shape) == 3

    def decoded_bytes(self, dataset: DatasetSpec) -> int:
        """The memory for the training and validation samples: one byte a value for images, four for tables."""
        sample = prod(self.shape) * (1 if self.are_images else 4)
        return (dataset.used_samples(self.sizes.train) + self.sizes.validation) * sample


@dataclass(frozen=True)
class Base:
    """A job with the same network and task on other data, whose weights this one could start from."""

    id: str
    source: str
    train_samples: int


@dataclass(frozen=True)
class Cluster:
    """The largest host with slots of the job's kind, and the slots of hosts that work together."""

    largest_host: int  # slots
    together: int | None = None  # slots; null where no hosts work together
    memory_bytes: int | None = None  # of the host with the least


@dataclass(frozen=True)
class Evidence:
    """A job, its analysis, and past jobs with the same work. Null or empty means unknown."""

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
    metrics: Collection[str] = EPOCH_METRICS  # the names of what it reports
    curves: Mapping[str, tuple[float, ...]] = field(default_factory=dict)  # by metric: its value after each epoch
    past: tuple[PastJob, ...] = ()  # jobs that succeeded with the same work, this one among them
    bases: tuple[Base, ...] = ()
    cluster: Cluster | None = None
    site: SitePolicy = field(default_factory=SitePolicy)

    @property
    def goal(self) -> str | None:
        """The metric that says how good the job is; None for a script that reported none."""
        return goal_metric(self.spec.goal, self.metrics)

    @property
    def best_by(self) -> str | None:
        """The metric that decided which epoch was the best: that of early stopping, else the goal."""
        return self.spec.best_by(self.metrics)

    @cached_property
    def shares(self) -> StepShares | None:
        """How the steps spent their time, over all ranks; None if there were too few steps."""
        overall = next((share for share in self.analysis.steps if share.rank == -1), None)
        if overall is None or overall.steps < LEAST_STEPS or overall.steps * overall.step_time_s < LEAST_STEPS_S:
            return None
        return overall

    def finding(self, kind: FindingKind) -> Finding | None:
        """The finding of this kind, if there is one."""
        return next((finding for finding in self.analysis.findings if finding.kind is kind), None)

    @cached_property
    def alike(self) -> Sequence[PastJob]:
        """Comparable past jobs on the same device that ran for long enough."""
        return [job for job in comparable(self.past, self.spec, self.device) if job.is_long]

    @cached_property
    def throughput(self) -> Throughput:
        """Measured throughput of the same work: on as many hosts; with other GPU counts, on the fewest hosts."""
        return Throughput(self.alike, hosts={self.plan.gpus: self.hosts})

    @cached_property
    def probed(self) -> Throughput:
        """Throughput that batch probes measured: of steps alone, so comparable only with other probes."""
        return Throughput((job for job in self.alike if job.probe is not None), hosts={self.plan.gpus: self.hosts})

    @cached_property
    def trained(self) -> Throughput:
        """Throughput that trainings measured."""
        return Throughput((job for job in self.alike if job.probe is None), hosts={self.plan.gpus: self.hosts})

    @property
    def sizes(self) -> DatasetSizes | None:
        """Of the data, before `fraction`."""
        return None if self.data is None else self.data.sizes


@dataclass(frozen=True)
class Proposal:
    """A piece of advice without its number. The field names are those of `Advice`."""

    rule: Rule
    what: str
    why: str
    evidence: Mapping[str, float | int | str | None]
    change: Mapping[str, Any]
    gain: Gain

    def numbered(self, number: int) -> Advice:
        """The advice with its number, as the API returns it."""
        return Advice(number=number, **{each.name: getattr(self, each.name) for each in fields(self)})


def gain(
    text: str, *, time: float | None = None, gpu_hours: float | None = None, accuracy: float | None = None
) -> Gain:
    """A gain. Unless given, the factor of GPU-hours is that of the time."""
    hours = time if gpu_hours is None else gpu_hours
    return Gain(time_factor=_rounded(time), gpu_hours_factor=_rounded(hours), accuracy=_rounded(accuracy), text=text)


def percent(share: float) -> str:
    """A share as text: 0.4 is `40 %`."""
    return f"{100 * share:.0f} %"


def less_time(factor: float, condition: str = "") -> str:
    """A time factor as a sentence."""
    return f"About {percent(1 - factor)} less training time{condition}."


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
