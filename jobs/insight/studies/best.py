"""The best value of the goal that the jobs of each study have reached, for lists of studies. Called by `store`."""

from collections.abc import Mapping, Sequence

from sqlalchemy import Float, String, cast, func, select
from sqlalchemy.dialects.postgresql import ARRAY, distinct_on
from sqlalchemy.orm import Session

from jobs.db.tables import Job, Study
from jobs.insight.studies.goals import goal_of
from jobs.model.states import Status
from jobs.views.studies import Goal, StudyBest


def best_of_studies(session: Session, studies: Sequence[Study]) -> dict[str, StudyBest]:
    """The best value of each study's goal among its jobs that succeeded, by id. Studies without one are left out.

    Only jobs that have ended count: their metrics change no more without a change of their status.
    """
    names = _names(session, [study.id for study in studies])
    goals = {study.id: goal_of(study.base, names[study.id]) for study in studies if study.id in names}
    known = {study_id: goal for study_id, goal in goals.items() if goal is not None}
    return {
        study_id: StudyBest(metric=known[study_id].metric, value=value)
        for study_id, value in _values(session, known).items()
    }


def _names(session: Session, study_ids: Sequence[str]) -> dict[str, list[str]]:
    """The names of the metrics that the newest job of each study has reported which succeeded."""
    newest = (
        select(Job.study_id, Job.metrics)
        .ext(distinct_on(Job.study_id))
        .where(Job.study_id.in_(study_ids), Job.status == Status.SUCCEEDED)
        .order_by(Job.study_id, Job.ended_at.desc(), Job.id)
    )
    return {study_id: sorted(metrics) for study_id, metrics in session.execute(newest)}


def _values(session: Session, goals: Mapping[str, Goal]) -> dict[str, float]:
    if not goals:
        return {}
    ids, metrics = list(goals), [goal.metric for goal in goals.values()]
    pairs = func.unnest(cast(ids, ARRAY(String)), cast(metrics, ARRAY(String)))
    wanted = pairs.table_valued("id", "metric").render_derived()
    value = cast(Job.metrics[wanted.c.metric]["best"].astext, Float)
    rows = session.execute(
        select(Job.study_id, func.min(value), func.max(value))
        .join(wanted, wanted.c.id == Job.study_id)
        .where(Job.status == Status.SUCCEEDED)
        .group_by(Job.study_id)
    )
    best = {study_id: least if goals[study_id].is_lower_better else most for study_id, least, most in rows}
    return {study_id: value for study_id, value in best.items() if value is not None}
