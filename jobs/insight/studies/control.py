"""Cancels, pauses and resumes whole studies. Called by the api.

Each function works in the caller's transaction. It locks the study's row until the commit, so that two callers take
turns. It also locks out the dispatcher: both lock many jobs at once, in no common sequence, and could deadlock. Each
raises `StudyNotFound`; `resume` also `QueueFull` and `ProjectArchived` of `jobs.people.project_admission`, and
`TooManyQueuedJobs` of `jobs.people.queue_share`.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, func, insert, or_, select
from sqlalchemy.orm import Session

from jobs.data.resolving import sizes_in
from jobs.db.tables import Job, JobEvent, Project, Study
from jobs.insight.studies.store import lock, newest_jobs, touch
from jobs.lifecycle.store import CANCEL_SAVES, move, touch_all
from jobs.lifecycle.submission import StudyPlace, write_jobs
from jobs.lifecycle.waits import BY_AGE
from jobs.model.plan import resolve_plan
from jobs.model.problems import InvalidSpec
from jobs.model.spec import spec_from
from jobs.model.states import TERMINAL, EndReason, EventKind, Status
from jobs.people.project_admission import Applicant, require_room, submission_ceiling_problem
from jobs.people.queue_share import require_queue_share
from jobs.scheduling.placement_rows import PASS_LOCK


def request_cancel(session: Session, study_id: str, *, saves: bool = False) -> None:
    """Cancel all its jobs that have not ended: queued ones at once, others when their supervisors see it.

    With `saves` those save a checkpoint first, and a later request without it ends the saving. A search begins no more
    trials. A second request changes nothing otherwise, and neither does one after the end.
    """
    study = _take_turn(session, study_id)
    is_new = Job.cancel_requested_at.is_(None) if saves else or_(Job.cancel_requested_at.is_(None), CANCEL_SAVES)
    unfinished = _unfinished(session, study_id, is_new)
    if not unfinished and not study.is_searching:
        return
    touch_all(session, unfinished, cancel_requested_at=func.now())
    _add_events(session, unfinished, EventKind.CANCEL_REQUESTED, {"saves": True} if saves else None)
    queued = move(
        session, unfinished, Status.CANCELLED, Job.status == Status.QUEUED,
        end_reason=EndReason.CANCELLED, ended_at=func.now(),
    )  # fmt: skip
    _add_events(session, list(queued), EventKind.ENDED, {"status": "cancelled", "end_reason": "cancelled"})
    touch(session, study_id, cancel_requested_at=func.now(), is_searching=False, obstacle=None)


def pause(session: Session, study_id: str) -> None:
    """Pause all its jobs that have not ended, as `jobs.lifecycle.store.pause` does. A search begins no more trials."""
    study = _take_turn(session, study_id)
    unpaused = _unfinished(session, study_id, Job.cancel_requested_at.is_(None), Job.paused_at.is_(None))
    if unpaused:
        touch_all(session, unpaused, paused_at=func.now())
        _add_events(session, unpaused, EventKind.PAUSE_REQUESTED)
    begins_trials = study.is_searching and study.paused_at is None
    if begins_trials:
        touch(session, study_id, paused_at=func.now(), obstacle=None)
    elif unpaused:
        touch(session, study_id)


def resume(session: Session, study_id: str, *, by: Applicant, most_queued: int | None = None) -> None:
    """Resume its paused jobs, and replace jobs that failed, were cancelled, or will be cancelled, by new ones.

    Its owner may have `most_queued` jobs in the queue; None: any number. Raises `InvalidSpec` if a new job would wait
    for one that failed or was cancelled, or if its priority is above the project's ceiling and `by` is no admin.
    """
    study = _take_turn(session, study_id)
    replaced = _replace(session, study, by, most_queued)  # first: it locks jobs that paused ones may wait for
    paused = _unfinished(session, study_id, Job.cancel_requested_at.is_(None), Job.paused_at.is_not(None))
    if paused:
        touch_all(session, paused, paused_at=None, idle=None, queued_at=func.now())
        _add_events(session, paused, EventKind.RESUMED)
    goes_on = study.search is not None and (study.paused_at is not None or study.cancel_requested_at is not None)
    if paused or replaced or goes_on:
        is_searching = study.search is not None  # also where all trials have begun: it may end some early
        values = {"cancel_requested_at": None, "ended_at": None, "paused_at": None, "is_searching": is_searching}
        touch(session, study_id, **values)


def _take_turn(session: Session, study_id: str) -> Study:
    session.execute(select(func.pg_advisory_xact_lock(PASS_LOCK)))
    return lock(session, study_id)


def _unfinished(session: Session, study_id: str, *conditions: ColumnElement[bool]) -> Sequence[str]:
    """The ids of its jobs that have not ended, locked so that none of them ends before the commit."""
    query = select(Job.id).where(Job.study_id == study_id, Job.status.not_in(TERMINAL), *conditions)
    return session.scalars(query.order_by(*BY_AGE).with_for_update()).all()


def _replace(session: Session, study: Study, by: Applicant, most_queued: int | None) -> Sequence[str]:
    newest = newest_jobs([study.id]).subquery()
    is_without_result = or_(Job.status.in_([Status.FAILED, Status.CANCELLED]), Job.cancel_requested_at.is_not(None))
    rows = session.execute(
        select(Job.study_cell, Job.study_repeat, Job.spec)
        .join(newest, newest.c.id == Job.id)
        .where(is_without_result, Job.status != Status.SUCCEEDED)
        .order_by(Job.study_repeat, Job.study_cell)
    )
    project = session.get_one(Project, study.project)
    new_jobs = []
    for cell, repeat, document in rows:
        spec = spec_from(document)
        if problems := submission_ceiling_problem(project, spec.priority, by):
            raise InvalidSpec(problems)
        # Not the plan of the job: its ranks may have changed it.
        place = StudyPlace(study.id, cell, repeat, study.cells[cell])
        new_jobs.append((spec, resolve_plan(spec, sizes_in(session, spec)), place))
    if new_jobs:
        require_room(session, study.project, jobs=len(new_jobs))
        if most_queued is not None:
            require_queue_share(session, study.owner, jobs=len(new_jobs), most=most_queued)
    return write_jobs(session, new_jobs, owner=study.owner)


def _add_events(session: Session, job_ids: Sequence[str], kind: EventKind, data: dict[str, Any] | None = None) -> None:
    if job_ids:
        session.execute(insert(JobEvent), [{"job_id": job_id, "kind": kind, "data": data or {}} for job_id in job_ids])
