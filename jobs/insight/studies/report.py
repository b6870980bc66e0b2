"""Makes the scaling report of a study from the current rows of its jobs. Called by the api at each request.

It reads summaries, attempts, and the metrics with one value an epoch, which are never thinned.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal

from sqlalchemy import Float, cast, func, select
from sqlalchemy.orm import Session

from jobs.db.tables import Attempt, Job, Study
from jobs.insight.studies.cpu_speedups import with_cpu_speedups
from jobs.insight.studies.epoch_series import epoch_series
from jobs.insight.studies.figures import Epoch, Run, Series, baseline_of, best_of, cell_report, compared_with
from jobs.insight.studies.findings import findings_of
from jobs.insight.studies.goals import goal_of, impossible, target_from
from jobs.insight.studies.loss_curves import loss_names, with_loss_agreement
from jobs.insight.studies.next_steps import next_steps_of
from jobs.insight.studies.outliers import outliers_of
from jobs.insight.studies.search_report import with_search
from jobs.insight.studies.statistics import is_usable
from jobs.insight.studies.store import get_study, newest_jobs, notes_of, search_of
from jobs.insight.studies.trials import objective_of
from jobs.lifecycle.attempt_devices import CPU, devices_of
from jobs.model.states import TERMINAL
from jobs.runtime.prices import Prices
from jobs.views.studies import DeviceKind, Goal, StudyReport, Target


class ImpossibleTarget(ValueError):
    """The requested target can never be reached."""


def report_on(
    session: Session,
    study_id: str,
    *,
    target: float | None = None,
    keep_outliers: bool = False,
    prices: Prices | None = None,
) -> StudyReport:
    """The results of a study so far. `target` replaces the study's own.

    With `keep_outliers` the figures of speed are those of all repeats that succeeded.

    Raises `jobs.insight.studies.store.StudyNotFound`, `ImpossibleTarget`.
    """
    study = get_study(session, study_id)
    goal, runs = goal_and_runs(session, study, prices)
    chosen = None if goal is None else _target(study, goal, target) or target_from(runs, goal)
    outliers = outliers_of(runs)
    slow = {outlier.job_id for outlier in outliers}
    cells = [
        cell_report(values, runs[at], goal, chosen, outliers=slow, keep_outliers=keep_outliers)
        for at, values in enumerate(study.cells)
    ]
    baseline = baseline_of(cells, list(study.grid))
    cells = with_loss_agreement(compared_with(cells, baseline, goal), runs, baseline)
    if "device" in study.grid:
        cells = with_cpu_speedups(cells)
    fewer = [run.job_id for cell in runs for run in cell if run.is_good and (run.fewest_gpus or run.gpus) < run.gpus]
    findings = findings_of(
        cells,
        goal=goal,
        varied=list(study.grid),
        baseline=baseline,
        repeats=study.repeats,
        scaling=_scaling(study),
        on_fewer_gpus=fewer,
        outliers=outliers,
        keep_outliers=keep_outliers,
    )
    report = StudyReport(
        study_id=study.id,
        name=study.name,
        varied=list(study.grid),
        repeats=study.repeats,
        complete=all(run.status in TERMINAL for cell in runs for run in cell),
        scaling=_scaling(study),
        device=devices.pop() if len(devices := {cell.device for cell in cells if cell.device}) == 1 else None,
        baseline=baseline,
        goal=goal,
        target=chosen,
        cells=cells,
        outliers=outliers,
        outliers_set_aside=not keep_outliers,
        best=best_of(cells, goal),
        findings=findings,
        next_steps=next_steps_of(
            cells,
            goal=goal,
            baseline=baseline,
            repeats=study.repeats,
            scaling=_scaling(study),
            scales_rate="lr_scaling" in study.grid or study.base.get("lr_scaling", "none") != "none",
        ),
        notes=notes_of(session, study_id),
    )
    search = search_of(study)
    return report if search is None else with_search(session, study, search, report)


def _target(study: Study, goal: Goal, requested: float | None) -> Target | None:
    if requested is not None:
        if problem := impossible(requested, goal, study.base):
            raise ImpossibleTarget(problem)
        return Target(metric=goal.metric, value=requested, chosen_by="request")
    return None if study.target is None else Target(metric=goal.metric, value=study.target, chosen_by="study")


def _scaling(study: Study) -> Literal["weak", "strong"] | None:
    if not {"gpus"} <= study.grid.keys() or "batch_per" in study.grid:
        return None
    return "strong" if study.base.get("batch_per") == "global" else "weak"


def goal_and_runs(session: Session, study: Study, prices: Prices | None = None) -> tuple[Goal | None, list[list[Run]]]:
    """The goal, and the newest job of each repeat, by cell."""
    newest = newest_jobs([study.id]).subquery()
    rows = session.execute(
        select(Job.id, Job.study_cell, Job.status, Job.end_reason, Job.error, Job.gpus, Job.summary, Job.metrics)
        .add_columns(Job.plan)
        .join(newest, newest.c.id == Job.id)
        .order_by(Job.study_cell, Job.study_repeat)
    ).all()
    ids = [row.id for row in rows]
    attempts = _attempts(session, ids)
    devices = _devices(session, attempts)
    costs = {} if prices is None else _costs(attempts, devices, prices)
    beside = _beside_others(attempts)
    names = {name for row in rows for name in row.metrics}
    search = search_of(study)
    goal = goal_of(study.base, names) if search is None else objective_of(study.base, search)
    curves = [*([goal.metric] if goal else []), *loss_names(names)]
    series = epoch_series(session, ids, attempts, [*curves, "epoch_s", "samples_per_s", "allreduce_s"])
    runs: list[list[Run]] = [[] for _ in study.cells]
    for row in rows:
        own_attempts = attempts.get(row.id, [])
        run = Run(
            job_id=row.id,
            status=row.status,
            gpus=row.gpus,
            hosts=max((len(attempt.shares) for attempt in own_attempts), default=None),
            fewest_gpus=min((attempt.gpus for attempt in own_attempts), default=None),
            leased_slot_s=sum(attempt.gpus * attempt.leased_s for attempt in own_attempts),
            cost=costs.get(row.id),
            summary=row.summary or {},
            metrics=row.metrics,
            epochs=[] if goal is None else _epochs(series.get(row.id, {}), goal.metric),
            series={name: series[row.id][name] for name in curves if name in series.get(row.id, {})},
            end_reason=row.end_reason,
            error=row.error,
            device=_kind(devices[row.id]) if row.id in devices else None,
            is_beside_others=row.id in beside,
            allreduce_share=_allreduce_share(series.get(row.id, {}), row.plan),
        )
        runs[row.study_cell].append(run)
    return goal, runs


def _attempts(session: Session, job_ids: Sequence[str]) -> Mapping[str, Sequence[Any]]:
    """The attempts of each job, oldest first, with the time from the lease to the attempt's end, or to now."""
    leased_s = cast(func.extract("epoch", func.coalesce(Attempt.ended_at, func.now()) - Attempt.created_at), Float(53))
    rows = session.execute(
        select(Attempt.job_id, Attempt.number, Attempt.gpus, Attempt.shares, Attempt.resumed_step)
        .add_columns(Attempt.created_at, Attempt.ended_at, leased_s.label("leased_s"))
        .where(Attempt.job_id.in_(job_ids))
        .order_by(Attempt.job_id, Attempt.number)
    )
    by_job: dict[str, list[Any]] = defaultdict(list)
    for row in rows:
        by_job[row.job_id].append(row)
    return by_job


Devices = Mapping[str, Sequence[Sequence[str | None]]]  # of each slot, by attempt, by job


def _devices(session: Session, attempts: Mapping[str, Sequence[Any]]) -> Devices:
    every = [(job_id, attempt) for job_id, of_job in attempts.items() for attempt in of_job]
    devices: dict[str, list[Sequence[str | None]]] = defaultdict(list)
    of_attempts = devices_of(session, [attempt.shares for _, attempt in every])
    for (job_id, _), of_attempt in zip(every, of_attempts, strict=True):
        devices[job_id].append(of_attempt)
    return devices


def _kind(of_attempts: Sequence[Sequence[str | None]]) -> DeviceKind | None:
    """What all slots of a job were; None if that is not known, or if they were of both kinds."""
    kinds: set[DeviceKind | None] = {
        None if device is None else "cpu" if device == CPU else "gpu" for slots in of_attempts for device in slots
    }
    return kinds.pop() if len(kinds) == 1 else None


def _costs(attempts: Mapping[str, Sequence[Any]], devices: Devices, prices: Prices) -> Mapping[str, float | None]:
    """The cost of each job over its attempts; None if a slot has no price."""
    costs: dict[str, float | None] = {}
    for job_id, of_job in attempts.items():
        rates = [prices.of_all(of_attempt) for of_attempt in devices[job_id]]
        parts = [
            None if rate is None else rate * attempt.leased_s / 3600
            for rate, attempt in zip(rates, of_job, strict=True)
        ]
        known = [part for part in parts if part is not None]
        costs[job_id] = sum(known) if len(known) == len(parts) else None
    return costs


def _beside_others(attempts: Mapping[str, Sequence[Any]]) -> set[str]:
    """The jobs that were on a host together with another job of the study, for a part of the time at least."""
    stays = sorted(
        (share["host"], attempt.created_at, attempt.leased_s, job_id)
        for job_id, of_job in attempts.items()
        for attempt in of_job
        for share in attempt.shares
    )
    beside: set[str] = set()
    last: dict[str, tuple[datetime, str]] = {}  # of each host: the end that is latest so far, and whose it is
    for host, began_at, length_s, job_id in stays:
        ends_at = began_at + timedelta(seconds=length_s)
        latest = last.get(host)
        if latest is not None and began_at < latest[0] and latest[1] != job_id:
            beside |= {job_id, latest[1]}
        if latest is None or ends_at > latest[0]:
            last[host] = (ends_at, job_id)
    return beside


def _allreduce_share(series: Mapping[str, Series], plan: Mapping[str, Any]) -> float | None:
    """The share of allreduce in the time of the steps of all epochs but the first, whose first step is set-up.

    An epoch's steps take its samples / its `samples_per_s`. None for one rank, and for a script without such figures.
    """
    speeds, waits = series.get("samples_per_s", {}), series.get("allreduce_s", {})
    samples = (plan.get("steps_per_epoch") or 0) * plan["global_batch"]
    epochs = [epoch for epoch in waits if epoch > 1 and is_usable(waits[epoch]) and speeds.get(epoch, 0) > 0]
    steps_s = sum(samples / speeds[epoch] for epoch in epochs)
    share = sum(waits[epoch] for epoch in epochs) / steps_s if steps_s else 0.0
    return min(1.0, share) if share > 0 else None


def _epochs(series: Mapping[str, Series], metric: str) -> Sequence[Epoch]:
    """The epochs of a job with the goal's value, in sequence."""
    times, values = series.get("epoch_s", {}), series.get(metric, {})
    known = {epoch: value for epoch, value in values.items() if is_usable(value)}  # not that of a loss that diverged
    return [Epoch(known.get(epoch), times.get(epoch, 0.0)) for epoch in sorted({*times, *values})]
