"""Delete studies that have ended, and move them to another project."""

from typing import Annotated, Any

from fastapi import Body, Depends, Response

from api.callers import CallerHere, router
from api.costs import TAKES_A_TURN
from api.deps import ServicesHere, StudyId, only_json
from api.openapi import headers, problems
from api.polling import versions
from api.polling.entity_tags import study_tag
from api.routes.job_deletion import require_unshown
from jobs.insight.studies import ended, store
from jobs.people import audit
from jobs.views.studies import StudyChanges, StudyView

routes = router("studies")

_CHANGED: dict[int | str, dict[str, Any]] = {200: headers("ETag")}


@routes.patch(
    "/studies/{study_id}",
    responses=_CHANGED
    | problems(
        s404="No such study", s409="The study has not ended, or the project has no room", s415="The body is not JSON"
    ),
    dependencies=[TAKES_A_TURN, Depends(only_json)],
)
def change_study(
    study_id: StudyId,
    services: ServicesHere,
    caller: CallerHere,
    response: Response,
    changes: Annotated[StudyChanges, Body()],
) -> StudyView:
    """Move a study that has ended to another project, with all its jobs. Repeating it changes nothing."""
    jobs = 0
    with services.sessions.begin() as session:
        study = store.get_study(session, study_id)
        caller.require_steering(session, "study", study)
        if changes.project != study.project:
            study, of_study = ended.lock_ended(session, study_id, then="it can move to another project")
            ended.move_study(session, study, of_study, changes.project, by=caller.applicant)
            audit.record(session, caller.actor, "study.changed", study_id, project=changes.project)
            jobs = len(of_study)
        view = store.view_of(session, study_id)
        response.headers["ETag"] = study_tag(study_id, versions.of_study(session, study_id))
    services.limits.add_changes(caller.bearer, max(jobs - 1, 0))
    if jobs:
        services.hints.dispatch()  # jobs of a project that kept too much may be placed now
    return view


@routes.delete(
    "/studies/{study_id}",
    status_code=204,
    responses=problems(
        s404="No such study", s409="The study has not ended, or a job, an article or a host needs one of its jobs"
    ),
    dependencies=[TAKES_A_TURN],
)
def delete_study(study_id: StudyId, services: ServicesHere, caller: CallerHere) -> None:
    """Delete a study that has ended, with its notes and all its jobs. It cannot be undone.

    All of it is deleted, or nothing. What becomes of the jobs, see `DELETE /v1/jobs/{job_id}`.
    """
    with services.sessions.begin() as session:
        caller.require_steering(session, "study", store.get_study(session, study_id))
        study, jobs = ended.lock_ended(session, study_id, then="it can be deleted")
        deleted = {"name": study.name, "owner": study.owner, "project": study.project, "jobs": len(jobs)}
        ids = [study_id, *(job.id for job in jobs)]
        require_unshown(session, caller, f"study {study_id}", ids, shown="it or one of its jobs")
        ended.delete_study(session, study, jobs)
        audit.record(session, caller.actor, "study.deleted", study_id, **deleted)
    services.limits.add_changes(caller.bearer, max(len(jobs) - 1, 0))
    services.hints.dispatch()  # jobs of a project that kept too much may be placed now
