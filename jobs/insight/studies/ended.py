"""Deletes studies that have ended, and moves them to other projects, with all their jobs. Called by the api.

Each function works in the caller's transaction, with the study of `lock_ended`: until the commit nobody resumes it, and
nobody changes its jobs.

    StudyNotEnded   a job of the study has not ended, or its search goes on
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from jobs.db.tables import Job, Study, WebhookDelivery
from jobs.insight.studies.store import lock, touch
from jobs.lifecycle import deletion
from jobs.lifecycle.deliveries import STUDY_ENDED
from jobs.lifecycle.waits import BY_AGE
from jobs.model.states import TERMINAL
from jobs.people import job_changes
from jobs.people.project_admission import Applicant, admit_ended

_UNSYNCHRONIZED: dict[str, Any] = {"synchronize_session": False}


class StudyNotEnded(ValueError):
    """The study has not ended; `then` says what can be done with it when it has."""

    def __init__(self, study_id: str, then: str) -> None:
        super().__init__(f"study {study_id} goes on: {then} when it has ended; cancel it, or wait")


def lock_ended(session: Session, study_id: str, *, then: str) -> tuple[Study, Sequence[Job]]:
    """A study that has ended, and all its jobs, also those that were replaced. Raises `StudyNotFound`, `StudyNotEnded`.

    No job is added to a locked study, and no ended job begins again. So only rows of ended jobs are locked here, for
    which the dispatcher never waits.
    """
    study = lock(session, study_id)
    goes_on = select(Job.id).where(Job.study_id == study_id, Job.status.not_in(TERMINAL)).limit(1)
    if study.is_searching or session.scalar(goes_on) is not None:
        raise StudyNotEnded(study_id, then)
    of_study = select(Job).where(Job.study_id == study_id).order_by(*BY_AGE).with_for_update()
    return study, session.scalars(of_study, execution_options={"populate_existing": True}).all()


def delete_study(session: Session, study: Study, jobs: Sequence[Job]) -> None:
    """Delete a study with its notes, and its jobs as `jobs.lifecycle.deletion` does it. Raises `JobInUse`."""
    if jobs:  # a search may have been cancelled before its first trial
        deletion.delete_jobs(session, jobs)
    of_study = (WebhookDelivery.subject_id == study.id, WebhookDelivery.event == STUDY_ENDED)
    session.execute(delete(WebhookDelivery).where(*of_study), execution_options=_UNSYNCHRONIZED)
    session.execute(delete(Study).where(Study.id == study.id), execution_options=_UNSYNCHRONIZED)


def move_study(session: Session, study: Study, jobs: Sequence[Job], project: str, *, by: Applicant) -> None:
    """Move a study and its jobs to another project, which must have room for the files of all. Raises as `admit_ended`.

    The GPU-hours stay where they were spent.
    """
    admit_ended(session, project, by, stored_bytes=sum(map(job_changes.stored_bytes, jobs)))
    for job in jobs:
        job_changes.move_with_study(session, job, project, by=by)
    touch(session, study.id, project=project, base={**study.base, "project": project})
