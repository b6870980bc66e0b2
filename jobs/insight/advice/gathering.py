"""Reads the evidence for advice on a job from rows. Called by the api, with the job's analysis."""

import json
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from sqlalchemy import BigInteger, func, select
from sqlalchemy.orm import Session

from jobs.db.tables import Host, Job, MetricPoint
from jobs.insight.advice.evidence import Base, Cluster, Data, Evidence
from jobs.insight.advice.past import MIXED, past_jobs, sizes_in, summary_in, where_they_ran
from jobs.lifecycle.attempt_devices import CPU
from jobs.lifecycle.run_durations import work_key_of
from jobs.lifecycle.site_policy import SitePolicy
from jobs.model.catalog import MODELS
from jobs.model.goals import goal_metric
from jobs.model.plan import Plan
from jobs.model.records import ProbeFindings
from jobs.model.spec import Spec
from jobs.model.states import Status
from jobs.model.tasks import epoch_metrics, task_of
from jobs.scheduling.hosts import request_of, whole_cluster
from jobs.scheduling.slots import SlotRequest
from jobs.telemetry.ingest import ALL_RANKS
from jobs.views.analysis import Analysis

_MOST_SEARCHED = 1000  # newest jobs that are searched for weights to start from


def evidence_on(session: Session, job: Job, analysis: Analysis, site: SitePolicy) -> Evidence:
    """The evidence that the rules of advice use."""
    # Not strict: a spec stored by another version may have fields of other types.
    spec = Spec.model_validate_json(json.dumps(job.spec))
    plan = Plan.model_validate(job.plan)
    ran_on = where_they_ran(session, [job.id]).get(job.id)
    device = None if ran_on is None else ran_on.device
    data = _data_of(job.dataset)
    metrics = tuple(job.metrics) if spec.is_script else epoch_metrics(task_of(spec.task, job.dataset))
    return Evidence(
        job_id=job.id,
        status=job.status,
        spec=spec,
        plan=plan,
        analysis=analysis,
        end_reason=job.end_reason,
        error=job.error,
        summary=summary_in(job.summary, spec),
        probe=None if job.probe is None else ProbeFindings.model_validate(job.probe),
        data=data,
        model=None if spec.model is None else MODELS.get(spec.model.name),
        device=device,
        hosts=1 if ran_on is None else ran_on.hosts,
        metrics=metrics,
        curves=_curves(session, job.id, {goal_metric(spec.goal, metrics), spec.best_by(metrics)}),
        past=tuple(past_jobs(session, job.work_key or work_key_of(spec))),
        bases=_bases(session, job, spec, data),
        cluster=_cluster(session, spec, device),
        site=site,
    )


def _data_of(dataset: dict[str, Any] | None) -> Data | None:
    sizes = sizes_in(dataset)
    if dataset is None or sizes is None:
        return None
    return Data(dataset["format"], tuple(dataset["shape"]), sizes)


def _curves(session: Session, job_id: str, names: Collection[str | None]) -> dict[str, tuple[float, ...]]:
    """Some metrics of each epoch, by name. If two attempts ran an epoch, the later one counts."""
    point = MetricPoint
    rows = session.execute(
        select(point.name, point.epoch, point.value)
        .where(point.job_id == job_id, point.name.in_(set(names) - {None}), point.rank == ALL_RANKS)
        .where(point.epoch > 0)
        .order_by(point.attempt, point.step.desc())  # the first value of an epoch is that of its end
    )
    by_epoch: dict[str, dict[int, float]] = {}
    for name, epoch, value in rows:
        by_epoch.setdefault(name, {})[epoch] = value
    return {name: tuple(values[epoch] for epoch in sorted(values)) for name, values in by_epoch.items()}


def _bases(session: Session, job: Job, spec: Spec, data: Data | None) -> tuple[Base, ...]:
    """Jobs of the same network and task on other data of the same shape, the one with the most samples first.

    Not on the same data: with another seed its validation part would be what the base was trained on.
    """
    if data is None or spec.is_script or spec.own_model.weights != "none" or spec.probe is not None:
        return ()
    columns = (Job.id, Job.spec, Job.plan, Job.summary, Job.dataset)
    newest = (
        select(*columns)
        .where(Job.status == Status.SUCCEEDED, Job.artifacts_removed_at.is_(None))
        .order_by(Job.created_at.desc(), Job.id.desc())
        .limit(_MOST_SEARCHED)
        .subquery()
    )
    rows = session.execute(
        select(newest).where(
            newest.c.id != job.id,
            newest.c.spec["model"]["name"].astext == spec.own_model.name,
            newest.c.spec["dataset"]["source"].astext != spec.own_dataset.source,
            newest.c.dataset["shape"] == list(data.shape),
            newest.c.summary.is_not(None),
        )
    ).all()
    task = task_of(spec.task, job.dataset)
    bases = [
        Base(row.id, row.spec["dataset"]["source"], row.plan["train_samples"])
        for row in rows
        if row.plan.get("train_samples") and task_of(row.spec.get("task", "auto"), row.dataset) == task
    ]
    return tuple(sorted(bases, key=lambda base: -base.train_samples))


def _cluster(session: Session, spec: Spec, device: str | None) -> Cluster | None:
    """The slots like those that the job ran on and that its spec allows, as if all hosts were alive and empty."""
    if device is None:
        return None
    kind = CPU if device == CPU else "gpu"
    cluster = whole_cluster(session)
    request = SlotRequest(2, kind) if kind == CPU else replace(request_of(spec, 2), device=kind, placement="pack")
    models = set(device.split(MIXED))
    counts = {
        slots: count if kind == CPU or spec.mixed_gpus or slots.model in models else 0
        for slots, count in cluster.capacity.items()
    }
    largest, together = cluster.most(request, counts)
    if not largest:
        return None
    least = session.scalar(
        select(func.min(Host.info["memory_bytes"].astext.cast(BigInteger))).where(
            Host.name.in_({slots.host for slots in cluster.classes(request) if counts[slots]})
        )
    )
    return Cluster(largest, together, least)
