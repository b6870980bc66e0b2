"""Delete jobs."""

from collections.abc import Sequence

from sqlalchemy.orm import Session

from api.callers import Caller, CallerHere, router
from api.deps import JobId, ServicesHere
from api.openapi import problems
from jobs.insight.articles.store import articles_with
from jobs.lifecycle import store
from jobs.lifecycle.deletion import delete_job as delete_with_rows
from jobs.lifecycle.store import JobInUse
from jobs.people import audit

routes = router("jobs")


@routes.delete(
    "/jobs/{job_id}",
    status_code=204,
    responses=problems(
        s404="No such job",
        s409="The job has not ended, or another job, a study, an article or a host needs it",
    ),
)
def delete_job(job_id: JobId, services: ServicesHere, caller: CallerHere) -> None:
    """Delete a job that has ended, with its results, history, logs and files. It cannot be undone.

    Nobody finds the job from now on. The hosts and the store remove its files within about an hour. The GPU-hours that
    it used stay in the usage of its project.
    """
    with services.sessions.begin() as session:
        job = store.locked_job(session, job_id)
        caller.require_steering(session, "job", job)
        what = {"name": job.name, "owner": job.owner, "project": job.project, "status": job.status}
        require_unshown(session, caller, f"job {job_id}", [job_id])
        delete_with_rows(session, job)
        audit.record(session, caller.actor, "job.deleted", job_id, **what)
    services.hints.dispatch()  # jobs of a project that kept too much may be placed now


def require_unshown(session: Session, caller: Caller, subject: str, ids: Sequence[str], *, shown: str = "it") -> None:
    """Refuse to delete a subject if an article of the caller shows one of these jobs or studies. Raises `JobInUse`."""
    for article in articles_with(session, ids):
        if caller.may_steer(session, article):  # a stranger's article keeps nobody's job
            raise JobInUse(f"{subject} cannot be deleted: article {article.id} shows {shown}; remove it there first")
