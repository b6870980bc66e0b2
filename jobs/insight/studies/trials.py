"""The trials of a search, from the rows of its jobs. Called by `searching` and `report`.

A trial is a cell of its study with one job, the newest one where others were replaced. Its curve is the objective by
epoch, from the metrics over all ranks.
"""

from collections import defaultdict
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Literal

from sqlalchemy import select
from sqlalchemy.orm import Session

from jobs.db.tables import Attempt, Job, Study
from jobs.insight.studies.adviser import Told
from jobs.insight.studies.epoch_series import epoch_series
from jobs.insight.studies.figures import Series
from jobs.insight.studies.goals import goal_of
from jobs.insight.studies.pruning import best_of_curve
from jobs.insight.studies.store import newest_jobs
from jobs.model.documents import knows_epochs
from jobs.model.goals import is_better_lower
from jobs.model.states import ACTIVE, TERMINAL, EndReason, Status
from jobs.views.searches import SearchSpec, TrialReport
from jobs.views.studies import Goal


def objective_of(base: Mapping[str, Any], search: SearchSpec) -> Goal:
    """What a search looks for. `base` was checked with it: a script without a goal has an objective."""
    goal = goal_of(base, ())
    if search.objective is not None and (goal is None or goal.metric != search.objective):
        goal = Goal(metric=search.objective, mode="min" if is_better_lower(search.objective) else "max")
    assert goal is not None
    return goal if search.mode is None else Goal(metric=goal.metric, mode=search.mode)


@dataclass(frozen=True)
class Trial:
    """A trial as its job's rows describe it."""

    number: int
    values: Mapping[str, Any]
    job_id: str
    attempt: int  # 0: none has begun
    status: Status
    end_reason: EndReason | None
    pruned_at_epoch: int | None  # where its end was requested
    epochs: int | None  # of its spec; None: a script does not say
    checkpoint_every: int
    curve: Series
    without_epochs: float | None  # the objective, if it was reported without an epoch

    @property
    def is_active(self) -> bool:
        """Whether it trains, or is about to."""
        return self.status in ACTIVE

    @property
    def has_ended(self) -> bool:
        """Whether its job has ended."""
        return self.status in TERMINAL

    @property
    def state(self) -> Literal["complete", "pruned", "failed", "running"]:
        """What Optuna calls it."""
        if not self.has_ended:
            return "running"
        if self.end_reason is EndReason.PRUNED:
            return "pruned"
        return "complete" if self.status is Status.SUCCEEDED else "failed"

    def objective(self, goal: Goal, *, until: int | None = None) -> float | None:
        """Its best value, up to an epoch."""
        best = best_of_curve(self.curve, is_lower_better=goal.is_lower_better, until=until)
        return self.without_epochs if best is None else best

    def told(self, goal: Goal) -> Told:
        """The trial for the adviser. A pruned one counts up to its rung: how far it ran after that is chance."""
        state = self.state
        rung = self.pruned_at_epoch if state == "pruned" else None
        value = self.objective(goal, until=rung)
        if state == "complete" and value is None:
            state = "failed"
        return Told(self.values, state, value if state != "running" else None, at_rung=rung)

    def report(self, goal: Goal) -> TrialReport:
        """The trial for people."""
        return TrialReport(
            number=self.number,
            values=dict(self.values),
            status=self.status,
            end_reason=self.end_reason,
            objective=self.objective(goal) if self.has_ended else None,
            epochs=max(self.curve, default=None) if self.has_ended else None,
            pruned_at_epoch=self.pruned_at_epoch if self.end_reason is EndReason.PRUNED else None,
            job_id=self.job_id,
        )


def trials_in(
    session: Session, study: Study, goal: Goal, *, curves: MutableMapping[str, Series] | None = None
) -> list[Trial]:
    """The trials of a search, by their numbers. `curves` keeps those of jobs that have ended, for the next call."""
    newest = newest_jobs([study.id]).subquery()
    metric = Job.metrics[goal.metric]
    rows = session.execute(
        select(
            Job.study_cell, Job.id, Job.attempt, Job.status, Job.end_reason, Job.pruned_at_epoch, Job.code,
            Job.spec["epochs"].as_integer().label("epochs"),
            Job.spec[("checkpoint", "every_epochs")].as_integer().label("checkpoint_every"),
            metric["best"].as_float().label("best"), metric["last"].as_float().label("last"),
        )
        .join(newest, newest.c.id == Job.id)
        .order_by(Job.study_cell)
    ).all()  # fmt: skip
    known = {} if curves is None else curves
    found = _curves(session, [row.id for row in rows if row.id not in known], goal.metric)
    # `best` follows the goal of the spec, which may be the other way round.
    name = "best" if is_better_lower(goal.metric) == goal.is_lower_better else "last"
    trials = []
    for row in rows:
        value = getattr(row, name)
        trial = Trial(
            number=row.study_cell,
            values=study.cells[row.study_cell],
            job_id=row.id,
            attempt=row.attempt,
            status=row.status,
            end_reason=row.end_reason,
            pruned_at_epoch=row.pruned_at_epoch,
            epochs=row.epochs if knows_epochs({"code": row.code, "epochs": row.epochs}) else None,
            checkpoint_every=row.checkpoint_every or 1,
            curve=known.get(row.id) or found.get(row.id, {}),
            without_epochs=value if value is not None and isfinite(value) else None,
        )
        if trial.has_ended:
            known[trial.job_id] = trial.curve
        trials.append(trial)
    return trials


def _curves(session: Session, job_ids: Sequence[str], metric: str) -> Mapping[str, Series]:
    """The metric by epoch of each job."""
    attempts = defaultdict(list)
    of_jobs = select(Attempt.job_id, Attempt.number, Attempt.resumed_step).where(Attempt.job_id.in_(job_ids))
    for attempt in session.execute(of_jobs):
        attempts[attempt.job_id].append(attempt)
    series = epoch_series(session, job_ids, attempts, [metric])
    return {job_id: by_name[metric] for job_id, by_name in series.items()}
