"""Changes a job after its submission: its name, priority, time limit, labels, notes, star, archive and project.

Called by the api. The spec in the job's row has the present values. What was before, and who changed it, is an event of
its history. The keys by which estimates find a job depend on none of these fields.

    Fixed       the job has ended, so its priority and its time limit are fixed
"""

from typing import Any

from sqlalchemy import func, update
from sqlalchemy.orm import Session

from jobs.db.tables import Attempt, Job, Project
from jobs.lifecycle.store import JobEnded, JobInUse, JobNotEnded, add_event, touch
from jobs.model.job_changes import JobChanges
from jobs.model.problems import FieldProblem, InvalidSpec
from jobs.model.spec import MOST_LABELS
from jobs.model.states import TERMINAL, EventKind, Status
from jobs.people.project_admission import Applicant, admit_ended, ceiling_problem

_IN_SPEC = frozenset({"name", "priority", "time_limit_s", "labels", "project"})
_UNTIL_END = frozenset({"priority", "time_limit_s"})  # what cannot change after the end
# What cannot change before the end.
_AFTER_END = {"archived": "it can be archived", "project": "it can move to another project"}


class Fixed(JobEnded):
    """The job has ended, and these fields of it are fixed."""

    def __init__(self, job_id: str, status: Status, fields: list[str]) -> None:
        can = "name, labels, notes, star, archive and project can"
        super().__init__(job_id, status, f": its {' and '.join(fields)} cannot change any more; {can}")


def change(session: Session, job: Job, changes: JobChanges, *, by: Applicant) -> dict[str, Any]:
    """Change a job, whose row is locked. Returns the new values of what is not as it was; of labels only those.

    If all is as it was, nothing is written. Raises `Fixed`, `JobNotEnded`, what `admit_ended` raises for another
    project, `JobInUse` if a study keeps the job in its project, and `InvalidSpec` for a priority above the ceiling of
    the project and for too many labels.
    """
    wanted = changes.fields
    labels = {**job.labels, **wanted.get("labels", {})}
    wanted["labels"] = {key: value for key, value in labels.items() if value is not None}
    present = {"name": job.name, "priority": job.priority, "time_limit_s": job.spec.get("time_limit_s")}
    present |= {"labels": job.labels, "notes": job.notes if "notes" in wanted else None, "starred": job.starred}
    present |= {"archived": job.archived, "project": job.project}
    news = {field: value for field, value in wanted.items() if value != present[field]}
    if not news:
        return {}
    fixed = sorted(news.keys() & _UNTIL_END)
    if fixed and job.status in TERMINAL:
        raise Fixed(job.id, job.status, fixed)
    for field in sorted(news.keys() & _AFTER_END.keys()):
        if job.status not in TERMINAL:
            raise JobNotEnded(job.id, job.status, _AFTER_END[field])
    if problems := _problems(session, job, news, by):
        raise InvalidSpec(problems)
    if "project" in news:
        _admit(session, job, news["project"], by)
    return _write(session, job, present, news, by)


def move_with_study(session: Session, job: Job, project: str, *, by: Applicant) -> None:
    """Move an ended job, whose row is locked, to the project that has admitted its whole study."""
    _write(session, job, {"project": job.project}, {"project": project}, by)


def stored_bytes(job: Job) -> int:
    """How much the files of a job that has ended count in its project."""
    return (job.checkpoint_bytes or 0) + (job.artifact_bytes or 0)


def _write(session: Session, job: Job, present: dict[str, Any], news: dict[str, Any], by: Applicant) -> dict[str, Any]:
    columns: dict[str, Any] = {field: value for field, value in news.items() if field != "time_limit_s"}
    if in_spec := {field: news[field] for field in news.keys() & _IN_SPEC}:
        columns["spec"] = {**job.spec, **in_spec}
    if "notes" in news:
        columns["notes_at"] = None if news["notes"] is None else func.now()
    if "project" in news:  # the GPU-hours stay where they were spent
        spent_here = (Attempt.job_id == job.id, Attempt.project.is_(None))
        session.execute(update(Attempt).where(*spent_here).values(project=job.project))
    touch(session, job.id, **columns)
    before, after = _differences(present, news)
    add_event(session, job.id, EventKind.CHANGED, data={"by": by.user, "before": before, "after": after})
    return after


def _problems(session: Session, job: Job, news: dict[str, Any], by: Applicant) -> list[FieldProblem]:
    problems = []
    if "priority" in news:
        project = session.get_one(Project, job.project)
        problems += ceiling_problem(project, news["priority"], by, present=job.priority)
    if (count := len(news.get("labels", {}))) > MOST_LABELS:
        problems.append(FieldProblem("labels", f"the job would have {count} labels; {MOST_LABELS} are allowed"))
    return problems


def _admit(session: Session, job: Job, project: str, by: Applicant) -> None:
    """Let another project take a job that has ended, with what it stores."""
    if job.study_id is not None:
        why = "jobs of a study stay in its project; move the whole study"
        raise JobInUse(f"job {job.id} belongs to study {job.study_id}: {why}")
    admit_ended(session, project, by, stored_bytes=stored_bytes(job))


def _differences(before: dict[str, Any], news: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What changes: the values before and after. Of labels those that change; null: there is none.

    Of notes the number of characters: a history is no place for long texts.
    """
    before, after = {field: before[field] for field in news}, dict(news)
    if "notes" in news:
        before["notes"], after["notes"] = len(before["notes"] or ""), len(after["notes"] or "")
    if "labels" in news:
        old, new = before["labels"], after["labels"]
        keys = sorted(key for key in old.keys() | new.keys() if old.get(key) != new.get(key))
        before["labels"] = {key: old.get(key) for key in keys}
        after["labels"] = {key: new.get(key) for key in keys}
    return before, after
