"""Reads the rows that an analysis needs. Called by `analyse`.

However long a job is, this takes a few queries and some megabytes. Of a long attempt it reads some windows of steps,
spread evenly, and the samples of the newest day.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from sqlalchemy import Float, Integer, and_, cast, func, select
from sqlalchemy.orm import Session, aliased

from jobs.db.tables import Attempt, Job, JobEvent, MetricPoint, Slot
from jobs.insight.analysis.evidence import EpochFigures, Evidence, LongStep, RankStep, Run, Steps
from jobs.insight.analysis.learning import monitored
from jobs.insight.analysis.points import ALLREDUCE, DATA_WAIT, TIME, course_of, parts, steps_in
from jobs.insight.analysis.reading_samples import samples_of
from jobs.insight.analysis.reading_scripts import first_reports, noting_intervals, of_script, training_means
from jobs.insight.analysis.stalls import LEAST_S
from jobs.model.states import TERMINAL, EndReason, EventKind, Status
from jobs.model.tasks import task_of
from jobs.telemetry.axes import valid_until
from jobs.telemetry.ingest import ALL_RANKS

_WINDOW = 1024  # steps that are read together: as many as a full block has
_MOST_RANK_STEPS = 100_000  # of an attempt
_MOST_LONG_STEPS = 20
_ENDED_WELL = frozenset({EndReason.COMPLETED, EndReason.EARLY_STOPPED, EndReason.PRUNED})
_BASELINES = 5  # jobs on one GPU whose step times are read


def evidence_of(session: Session, job: Job) -> Evidence:
    """The evidence about a job now."""
    attempts = session.scalars(select(Attempt).where(Attempt.job_id == job.id).order_by(Attempt.number)).all()
    on_gpu = _is_on_gpu(session, job, attempts)
    epochs, runs = _runs(session, job, attempts)
    # The outline that thinning leaves does not show the usual step.
    trained = [run for run in runs if run.epochs] if job.series_thinned_at is None else []
    alone = on_gpu and job.gpus > 1 and attempts
    return Evidence(
        job_id=job.id,
        ended=job.status in TERMINAL,
        spec=job.spec,
        metrics=list(job.metrics),
        classes=None if job.classes is None else len(job.classes),
        task=task_of(job.spec.get("task", "auto"), job.dataset),
        plan=job.plan,
        summary=job.summary,
        on_gpu=on_gpu,
        runs=runs,
        epochs=epochs,
        steps=[steps for run in trained for steps in _steps(session, job, run)],
        samples=[slot for run in trained for slot in samples_of(session, job, run)],
        one_gpu_step_s=_one_gpu_step_s(session, job, attempts[-1].host) if alone else None,
    )


def _runs(session: Session, job: Job, attempts: Sequence[Attempt]) -> tuple[list[EpochFigures], list[Run]]:
    """The metrics of the valid epochs, and each attempt along its time line."""
    now: float = session.scalar(select(cast(func.extract("epoch", func.clock_timestamp()), Float(53)))) or 0.0
    void_after: dict[int, int | None] = {row.number: row.step for row in session.execute(select(valid_until(job.id)))}
    epochs, ends = _epochs(session, job, void_after)
    is_script = job.spec.get("code") is not None
    reported_at = first_reports(session, job.id) if is_script else {}
    saves = _saves(session, job)
    runs = []
    for attempt in attempts:
        intervals_s: list[float] = []
        times_of_steps = parts(session, job.id, attempt.number, (TIME,), rank=0)
        course, long = course_of(noting_intervals(times_of_steps, intervals_s), long_s=LEAST_S)
        run = replace(
            _run(attempt, now, void_after.get(attempt.number)),
            validated_at={epoch: at for epoch, (_, at) in ends.get(attempt.number, {}).items()},
            saves=saves.get(attempt.number, ()),
            epochs=course,
            report_s=float(np.median(intervals_s)) if is_script and intervals_s else None,
        )
        if is_script:
            run = of_script(run, ends.get(attempt.number, {}), reported_at.get(attempt.number))
        runs.append(replace(run, long_steps=_with_waits(session, job, run, long)) if course else run)
    return epochs, runs


def _run(attempt: Attempt, now: float, void_after: int | None) -> Run:
    return Run(
        number=attempt.number,
        slots=attempt.gpus,
        leased_at=attempt.created_at.timestamp(),
        ended_at=now if attempt.ended_at is None else attempt.ended_at.timestamp(),
        queued_at=attempt.queued_at.timestamp(),
        handed_at=None if attempt.handed_at is None else attempt.handed_at.timestamp(),
        started_at=None if attempt.started_at is None else attempt.started_at.timestamp(),
        live=attempt.ended_at is None,
        ended_well=attempt.end_reason in _ENDED_WELL,
        void_after=void_after,
        set_up_s=sum(seconds for seconds in attempt.setup.values() if seconds is not None),
    )


def _epochs(
    session: Session, job: Job, void_after: dict[int, int | None]
) -> tuple[list[EpochFigures], dict[int, dict[int, tuple[int, float]]]]:
    """The metrics at the end of each valid epoch, and the step and time of each validation, by attempt."""
    goal = monitored(job.spec, job.metrics, job.dataset)
    pairs = [] if goal is None else goal.pairs
    names = {"loss", "val_loss", *(() if goal is None else (goal.metric,)), *(name for pair in pairs for name in pair)}
    point = MetricPoint
    rows = session.execute(
        select(point.attempt, point.epoch, point.step, point.at, point.name, point.value)
        .where(point.job_id == job.id, point.rank == ALL_RANKS, point.name.in_(names), point.epoch > 0)
        .order_by(point.epoch, point.attempt, point.step)
    )
    figures: dict[int, dict[str, float]] = {}
    ends: dict[int, dict[int, tuple[int, float]]] = {}
    for attempt, epoch, step, at, name, value in rows:
        ends.setdefault(attempt, {}).setdefault(epoch, (step, at.timestamp()))
        until = void_after.get(attempt)
        if until is None or step <= until:
            figures.setdefault(epoch, {})
            if math.isfinite(value):
                figures[epoch][name] = value  # if two attempts ran the epoch, the later one counts
    if job.spec.get("code") is not None:
        for train, _ in pairs:
            if not any(train in values for values in figures.values()):
                for epoch, mean in training_means(session, job.id, train, void_after).items():
                    figures.get(epoch, {})[train] = mean
    return [EpochFigures(epoch, values) for epoch, values in figures.items()], ends


def _saves(session: Session, job: Job) -> dict[int, list[tuple[float, float]]]:
    """Start and end of each checkpoint, by attempt."""
    duration = cast(JobEvent.data["duration_s"].astext, Float(53))
    rows = session.execute(
        select(JobEvent.attempt, JobEvent.at, duration)
        .where(JobEvent.job_id == job.id, JobEvent.kind == EventKind.CHECKPOINT_SAVED)
        .order_by(JobEvent.id)
    )
    by_attempt: dict[int, list[tuple[float, float]]] = {}
    for attempt, at, duration_s in rows:
        if attempt is not None and duration_s is not None:
            by_attempt.setdefault(attempt, []).append((at.timestamp() - duration_s, at.timestamp()))
    return by_attempt


def _steps(session: Session, job: Job, run: Run) -> list[Steps]:
    """The valid steps of an attempt without its first one; for a long attempt some windows of them."""
    first, last = run.epochs[0].first + 1, run.epochs[-1].last
    if run.void_after is not None:
        last = min(last, run.void_after)
    if first > last:
        return []
    return [
        found
        for start, end, every in windows(first, last, most=max(_WINDOW, _MOST_RANK_STEPS // run.slots))
        if (found := steps_in(session, job.id, run.number, first=start, last=end, every=every)) is not None
    ]


def windows(first: int, last: int, *, most: int) -> list[tuple[int, int, float]]:
    """Windows of about `most` steps in all, spread evenly: first step, last step, and how many each represents."""
    count = last - first + 1
    if count <= most:
        return [(first, last, 1.0)]
    number = most // _WINDOW
    starts = [first + (2 * index + 1) * count // (2 * number) - _WINDOW // 2 for index in range(number)]
    return [(start, start + _WINDOW - 1, count / (number * _WINDOW)) for start in starts]


def _with_waits(session: Session, job: Job, run: Run, long: Sequence[LongStep]) -> list[LongStep]:
    """The long steps, the longest first and these with the waits of each rank. The first step of all is set-up."""
    steps = sorted((step for step in long if step.step != run.epochs[0].first), key=lambda step: -step.length_s)
    longest = [replace(step, ranks=_waits(session, job, run, step.step)) for step in steps[:_MOST_LONG_STEPS]]
    return longest + steps[_MOST_LONG_STEPS:]


def _waits(session: Session, job: Job, run: Run, step: int) -> list[RankStep]:
    waits: dict[int, dict[str, float]] = {}
    for part in parts(session, job.id, run.number, (DATA_WAIT, ALLREDUCE), first=step, last=step):
        waits.setdefault(part.rank, {})[part.name] = float(part.values[0])
    return [RankStep(rank, own[DATA_WAIT], own[ALLREDUCE]) for rank, own in sorted(waits.items()) if len(own) == 2]


def _is_on_gpu(session: Session, job: Job, attempts: Sequence[Attempt]) -> bool:
    """Whether its slots are GPUs; as the spec says where its host is not known any more."""
    hosts = [attempt.host for attempt in attempts]
    kind = session.scalar(select(Slot.kind).where(Slot.host.in_(hosts)).limit(1)) if hosts else None
    return job.spec.get("device") == "gpu" if kind is None else kind == "gpu"


def _one_gpu_step_s(session: Session, job: Job, host: str) -> float | None:
    """The median step of the newest jobs with the same work on one GPU of this host, with the same batch."""
    past_job, point = aliased(Job), MetricPoint
    newest = (
        select(past_job.id)
        .join(Attempt, and_(Attempt.job_id == past_job.id, Attempt.number == past_job.attempt))
        .where(
            past_job.work_key == job.work_key,
            past_job.status == Status.SUCCEEDED,
            Attempt.host == host,
            Attempt.gpus == 1,
        )
        .where(cast(past_job.plan["per_gpu_batch"].astext, Integer) == job.plan["per_gpu_batch"])
        .order_by(past_job.created_at.desc())
        .limit(_BASELINES)
    )
    median = func.percentile_cont(0.5).within_group(point.value)
    step_times = (point.rank == 0, point.name == "step_time_p50_s", point.value > 0)
    return session.scalar(select(median).where(point.job_id.in_(newest), *step_times))
