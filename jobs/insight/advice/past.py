"""Past jobs with the same work, for advice and quotes.

`past_jobs` reads rows; the rest is pure. Jobs with one `work_key` can still differ in their device, in whether a base
was frozen, and in their cache: `comparable` leaves those out.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from sqlalchemy import Row, select
from sqlalchemy.orm import Session

from jobs.db.tables import Attempt, Job
from jobs.insight.analysis.verdicts import LEAST_STEPS, LEAST_STEPS_S
from jobs.lifecycle.attempt_devices import CPU, devices_of
from jobs.model.origins import origin_of
from jobs.model.plan import DatasetSizes, Plan
from jobs.model.records import ProbeFindings, ScriptSummary, Summary
from jobs.model.spec import Spec
from jobs.model.states import EndReason, Status

_MOST = 200  # the newest ones: more would not change a mean, and each costs time
MIXED = " + "  # between the names, if a job ran on several models at once


@dataclass(frozen=True)
class PastJob:
    """A job that has succeeded. `summary` of a training in Hora's loop, `script` of a script, `probe` of a probe."""

    id: str
    spec: Spec
    plan: Plan
    run_key: str | None = None
    summary: Summary | None = None
    script: ScriptSummary | None = None
    probe: ProbeFindings | None = None
    sizes: DatasetSizes | None = None  # of its data, before `fraction`
    device: str | None = CPU  # None if its host is not registered any more
    hosts: int = 1
    even: bool = True  # every attempt had as many GPUs

    @property
    def frozen(self) -> bool:
        """Whether only the last layer was trained, which is several times as fast."""
        return is_frozen(self.spec)

    @property
    def own_epochs(self) -> int:
        """The epochs that it trained itself: its summary also counts those of a job that it continues."""
        run = self.summary.epochs_run if self.summary is not None else 0
        return max(run - trained_before(self.spec), 1)

    @property
    def epoch_samples(self) -> int | None:
        """Training samples of an epoch, over all ranks."""
        steps = self.plan.steps_per_epoch
        return None if steps is None else steps * self.plan.global_batch

    @property
    def is_long(self) -> bool:
        """Whether it trained for long enough that its throughput can be compared."""
        if self.summary is None or self.plan.steps_per_epoch is None or not self.summary.train_samples_per_s:
            return self.probe is not None
        steps = self.own_epochs * self.plan.steps_per_epoch
        seconds = steps * self.plan.global_batch / self.summary.train_samples_per_s
        return steps >= LEAST_STEPS and seconds >= LEAST_STEPS_S

    @property
    def overhead(self) -> float | None:
        """The time of an epoch beside its steps, for each validation sample, in training samples of the same time."""
        summary, samples, validation = self.summary, self.epoch_samples, self.plan.validation_samples
        if summary is None or not summary.train_samples_per_s or not samples or not validation:
            return None
        whole_s = summary.wall_s / self.own_epochs
        beside_s = max(whole_s - samples / summary.train_samples_per_s, 0.0)
        return beside_s * summary.train_samples_per_s / validation


def trained_before(spec: Spec) -> int:
    """The epochs that the job of which this one continues a checkpoint had trained, the last one perhaps in part."""
    origin = origin_of(spec.continue_from)
    return 0 if origin is None else origin.epoch or 0


def is_frozen(spec: Spec) -> bool:
    """Whether a job of this spec trains the last layer alone."""
    return spec.model is not None and spec.model.freeze_base and spec.model.weights != "none"


def cache_of(spec: Spec) -> str:
    """The cache that a job of this spec reads its data through; `none` without data."""
    return "none" if spec.dataset is None else spec.dataset.cache


def summary_in(stored: Mapping[str, Any] | None, spec: Spec) -> Summary | None:
    """The summary in a job's row; None for a script, which measures too little of it."""
    return None if stored is None or spec.is_script else Summary.model_validate(stored)


def past_jobs(session: Session, work_key: str) -> list[PastJob]:
    """The newest jobs that succeeded with the same work, newest first."""
    columns = (Job.id, Job.run_key, Job.spec, Job.plan, Job.summary, Job.probe, Job.dataset)
    rows = session.execute(
        select(*columns)
        .where(
            Job.work_key == work_key, Job.status == Status.SUCCEEDED, Job.end_reason.is_distinct_from(EndReason.PRUNED)
        )
        .order_by(Job.created_at.desc())
        .limit(_MOST)
    ).all()
    ran_on = where_they_ran(session, [row.id for row in rows])
    jobs = (_past_job(row, ran_on.get(row.id)) for row in rows)
    return [job for job in jobs if job is not None]


@dataclass(frozen=True)
class RanOn:
    """Where a job's last attempt ran, and whether all its attempts had as many GPUs."""

    lead: str
    device: str | None
    hosts: int
    even: bool


def where_they_ran(session: Session, job_ids: Sequence[str]) -> dict[str, RanOn]:
    """Where each job ran, by id. Jobs that never ran are left out."""
    if not job_ids:
        return {}
    attempts = session.execute(
        select(Attempt.job_id, Attempt.host, Attempt.gpus, Attempt.shares)
        .where(Attempt.job_id.in_(job_ids))
        .order_by(Attempt.job_id, Attempt.number)
    ).all()
    devices = devices_of(session, [attempt.shares for attempt in attempts])
    gpus: dict[str, set[int]] = {}
    ran_on = {}
    for attempt, of_attempt in zip(attempts, devices, strict=True):
        counts = gpus.setdefault(attempt.job_id, set())
        counts.add(attempt.gpus)
        used = set(of_attempt)
        device = MIXED.join(sorted(filter(None, used))) if None not in used else None
        ran_on[attempt.job_id] = RanOn(attempt.host, device or None, max(len(attempt.shares), 1), len(counts) == 1)
    return ran_on


def sizes_in(dataset: Mapping[str, Any] | None) -> DatasetSizes | None:
    """The sizes in what a job stored about its data."""
    names = ("train", "validation", "test")
    if dataset is None or any(not isinstance(dataset.get(name), int) for name in names):
        return None
    return DatasetSizes(**{name: dataset[name] for name in names})


def _past_job(row: Row[Any], ran_on: RanOn | None) -> PastJob | None:
    """A row as a `PastJob`; None for a row of another version that this one does not understand."""
    try:
        spec = Spec.model_validate_json(json.dumps(row.spec))
        return PastJob(
            id=row.id,
            spec=spec,
            plan=Plan.model_validate(row.plan),
            run_key=row.run_key,
            summary=summary_in(row.summary, spec),
            script=ScriptSummary.model_validate(row.summary) if spec.is_script and row.summary is not None else None,
            probe=None if row.probe is None else ProbeFindings.model_validate(row.probe),
            sizes=sizes_in(row.dataset),
            device=None if ran_on is None else ran_on.device,
            hosts=1 if ran_on is None else ran_on.hosts,
            even=ran_on is None or ran_on.even,
        )
    except ValidationError:
        return None


def comparable(past: Iterable[PastJob], spec: Spec, device: str | None) -> list[PastJob]:
    """The jobs that do the same with each sample as this spec, on the same device. None for an unknown device."""
    frozen, cache = is_frozen(spec), cache_of(spec)
    return [
        job
        for job in past
        if job.even
        and device is not None
        and job.device == device
        and job.frozen is frozen
        and cache_of(job.spec) == cache
    ]
