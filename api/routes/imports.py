"""Import runs that were trained without the service."""

import tempfile
from pathlib import Path
from typing import Annotated, Any

from fastapi import Body, Depends, Response

from api.callers import Caller, CallerHere, router
from api.costs import IMPORT_TAKES_A_TURN
from api.deps import Services, ServicesHere, as_json, only_json
from api.files.opened_uploads import opened, remove_bytes, remove_upload, usable_upload
from api.files.upload_files import full_disk_refused
from api.openapi import CREATED, problems
from api.polling.entity_tags import job_tag
from api.problems import invalid
from api.row_views import job_view
from jobs.data import uploads
from jobs.db.tables import Upload
from jobs.intake.imported import RunChanged, earlier_import, store_run
from jobs.intake.received_runs import ReceivedRun, receive
from jobs.model.plan import UnworkablePlan
from jobs.model.problems import InvalidSpec
from jobs.people import audit
from jobs.people.project_admission import missing_project, project_of, require_submitter
from jobs.runtime.files import path_of
from jobs.views.jobs import JobView, NewImport

routes = router("jobs")

_NEW: dict[str, Any] = {"upload": {"summary": "A run that was uploaded", "value": {"upload": "5r0x8b2k9m1d"}}}
_IMPORTED: dict[int | str, dict[str, Any]] = {
    200: {"model": JobView, "description": "The caller imported this run before"},
    **CREATED,
}


@routes.post(
    "/imports",
    status_code=201,
    response_model=JobView,
    responses=_IMPORTED
    | problems(
        s409="The run was imported before, and has another attempt or project now; or a request still sends a piece of"
        " the upload",
        s413="The body is too large",
        s415="The body is not JSON",
        s507="The disk is full",
    ),
    dependencies=[IMPORT_TAKES_A_TURN, Depends(only_json)],
)
def import_run(
    services: ServicesHere, caller: CallerHere, new: Annotated[NewImport, Body(openapi_examples=_NEW)]
) -> Response:
    """Store a run that was trained without the service as a job that has ended. The upload is used up.

    Start the upload with `purpose: run`. A run that the caller imported before gets 200 and is not stored twice.
    If only its project is wrong, the upload stays.
    """
    most_bytes = int(services.settings.max_import_mb * 1e6)
    with opened(services, usable_upload(services, caller, new.upload, "a run", most_bytes)) as file:
        row = usable_upload(services, caller, new.upload, "a run", most_bytes)  # nobody changes its bytes now
        try:
            with full_disk_refused(), tempfile.TemporaryDirectory(prefix="hora-import-") as folder:
                answer = _stored(services, caller, _received(file, Path(folder)), row)
        except (InvalidSpec, UnworkablePlan, RunChanged):
            remove_upload(services, row)  # no job can ever be made from it
            raise
    remove_bytes(services, row)
    return answer


def _received(file: int, folder: Path) -> ReceivedRun:
    with open(path_of(file), "rb") as sent:
        return receive(sent, folder)


def _stored(services: Services, caller: Caller, run: ReceivedRun, upload: Upload) -> Response:
    """Store the run and answer with its job. Raises `RunChanged`, `UnworkablePlan`, `NotAllowed`, `Problem`."""
    project = run.exported.run.spec.project
    with services.sessions.begin() as session:
        job = earlier_import(session, run.exported, owner=caller.user)
        is_new = job is None
        if job is None:
            if wrong := missing_project(session, project_of(session, project), project, caller.applicant):
                raise invalid(wrong)
            require_submitter(session, project, caller.applicant)
            job = store_run(session, run.exported, run.files_of, owner=caller.user)
            audit.record(session, caller.actor, "job.imported", job.id, name=job.name, project=project)
        uploads.mark_removed(session, upload.id)
        view = job_view(job)
    headers = {"ETag": job_tag(view.revision)}
    return as_json(view, 201, headers | {"Location": f"/v1/jobs/{view.id}"}) if is_new else as_json(view, 200, headers)
