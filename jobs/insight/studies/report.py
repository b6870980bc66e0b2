"""Makes the scaling report of a study from the current rows of its jobs. Called by the api at each request.

It reads summaries, attempts, and the metrics with one value an epoch, which are never thinned.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from sqlalchemy import Float, cast, func, select
from sqlalchemy.orm import Session

from jobs.db.tables import Attempt, Job, MetricPoint, Study
from jobs.insight.studies.figures import Epoch, Run, baseline_of, best_of, cell_report, compared_with
from jobs.insight.studies.findings import findings_of
from jobs.insight.studies.goals import goal_of, impossible, target_from
from jobs.insight.studies.search_report import with_search
from jobs.insight.studies.store import get_study, newest_jobs, notes_of, search_of
from jobs.insight.studies.trials import objective_of
from jobs.model.states import TERMINAL
from jobs.telemetry.ingest import ALL_RANKS
from jobs.views.studies import Goal, StudyReport, Target


class ImpossibleTarget(ValueError):
    """The requested target can never be reached."""


def report_on(session: Session, study_id: str, *, target: float | None = None) -> StudyReport:
    """The results of a study so far. `target` replaces the study's own.

    Raises `jobs.insight.studies.store.StudyNotFound`, `ImpossibleTarget`.
    """
    study = get_study(session, study_id)
    goal, runs = _goal_and_runs(session, study)
    chosen = None if goal is None else _target(study, goal, target) or target_from(runs, goal)
    cells = [cell_report(values, runs[at], goal, chosen) for at, values in enumerate(study.cells)]
    baseline = baseline_of(cells, list(study.grid))
    cells = compared_with(cells, baseline, goal)
    fewer = [run.job_id for cell in runs for run in cell if run.is_good and (run.fewest_gpus or run.gpus) < run.gpus]
    report = StudyReport(
        study_id=study.id,
        name=study.name,
        varied=list(study.grid),
        repeats=study.repeats,
        complete=all(run.status in TERMINAL for cell in runs for run in cell),
        scaling=_scaling(study),
        baseline=baseline,
        goal=goal,
        target=chosen,
        cells=cells,
        best=best_of(cells, goal),
        findings=findings_of(
            cells, goal=goal, varied=list(study.grid), baseline=baseline, repeats=study.repeats, on_fewer_gpus=fewer
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


def _goal_and_runs(session: Session, study: Study) -> tuple[Goal | None, list[list[Run]]]:
    """The goal, and the newest job of each repeat, by cell."""
    newest = newest_jobs([study.id]).subquery()
    rows = session.execute(
        select(Job.id, Job.study_cell, Job.status, Job.gpus, Job.summary, Job.metrics)
        .join(newest, newest.c.id == Job.id)
        .order_by(Job.study_cell, Job.study_repeat)
    ).all()
    ids = [row.id for row in rows]
    attempts = _attempts(session, ids)
    search = search_of(study)
    reported = {name for row in rows for name in row.metrics}
    goal = goal_of(study.base, reported) if search is None else objective_of(study.base, search)
    epochs = {} if goal is None else _epochs(session, ids, attempts, goal.metric)
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
            summary=row.summary or {},
            metrics=row.metrics,
            epochs=epochs.get(row.id, []),
        )
        runs[row.study_cell].append(run)
    return goal, runs


def _attempts(session: Session, job_ids: Sequence[str]) -> Mapping[str, Sequence[Any]]:
    """The attempts of each job, oldest first, with the time from the lease to the attempt's end, or to now."""
    leased_s = cast(func.extract("epoch", func.coalesce(Attempt.ended_at, func.now()) - Attempt.created_at), Float(53))
    rows = session.execute(
        select(Attempt.job_id, Attempt.number, Attempt.gpus, Attempt.shares, Attempt.resumed_step)
        .add_columns(leased_s.label("leased_s"))
        .where(Attempt.job_id.in_(job_ids))
        .order_by(Attempt.job_id, Attempt.number)
    )
    by_job: dict[str, list[Any]] = defaultdict(list)
    for row in rows:
        by_job[row.job_id].append(row)
    return by_job


def _epochs(
    session: Session, job_ids: Sequence[str], attempts: Mapping[str, Sequence[Any]], metric: str
) -> Mapping[str, Sequence[Epoch]]:
    """The epochs of each job in sequence. If two attempts ran an epoch, only the valid one counts.

    A script whose first report ends an epoch has no time for that epoch: it is a part of the set-up.
    """
    point = MetricPoint
    rows = session.execute(
        select(point.job_id, point.name, point.epoch, point.step, point.attempt, point.value)
        .where(point.job_id.in_(job_ids), point.name.in_([metric, "epoch_s"]), point.rank == ALL_RANKS, point.epoch > 0)
        .order_by(point.job_id, point.step, point.attempt)
    )
    values: dict[str, dict[int, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for row in rows:
        later = [each.resumed_step for each in attempts.get(row.job_id, ()) if each.number > row.attempt]
        if all(step is None or row.step <= step for step in later):  # none of them ran it again
            values[row.job_id][row.epoch][row.name] = row.value
    return {
        job_id: [
            Epoch(_number(metrics.get(metric)), metrics.get("epoch_s", 0.0)) for _, metrics in sorted(by_epoch.items())
        ]
        for job_id, by_epoch in values.items()
    }


def _number(value: float | None) -> float | None:
    return None if value is None or value != value else value  # noqa: PLR0124 - NaN: a loss that diverged
