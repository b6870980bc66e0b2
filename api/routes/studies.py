"""Studies: submit a grid of jobs, look it up, steer it, and read its scaling report."""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import Body, Depends, Query, Response
from sqlalchemy.orm import Session

from api.callers import Caller, CallerHere, Owned, router
from api.costs import REPORT_TAKES_A_TURN, TAKES_A_TURN
from api.deps import (
    JSON,
    Cursor,
    IfNoneMatch,
    PageLimit,
    Services,
    ServicesHere,
    StudyId,
    as_json,
    idempotency_of,
    json_body,
    only_json,
    schema_body,
)
from api.openapi import CREATED, problems
from api.polling import versions
from api.polling.entity_tags import UNCHANGED, answer_with, is_known, study_tag, tag_of, tagged_with, unchanged
from api.processes.drawing import png_of
from api.routes.jobs import CancelSaves, Key
from api.routes.lookups import (
    Archived,
    Labels,
    Owner,
    Project,
    Search,
    Starred,
    Statuses,
    Wheres,
    labels_of,
    statuses_of,
    wheres_of,
)
from api.submitting import submissions
from jobs.insight.studies import control, formats, store
from jobs.insight.studies.mean_curves import curves_of
from jobs.insight.studies.plots import plot_of
from jobs.insight.studies.report import report_on
from jobs.lifecycle.listing import JobFilter
from jobs.model.scopes import Scope
from jobs.people import audit
from jobs.views.base import Listed
from jobs.views.studies import (
    ListedStudy,
    NoteText,
    NoteView,
    StudyCurves,
    StudyPreview,
    StudyReport,
    StudyView,
)

routes = router("studies")

_STUDIES = {
    "scaling": {
        "summary": "One and two GPUs with three batches, each three times",
        "value": {
            "name": "digits-scaling",
            "base": {"dataset": "digits", "learning_rate": 0.001},
            "grid": {"gpus": [1, 2], "batch_size": [32, 64, 128]},
            "repeats": 3,
        },
    }
}
_PREVIEWED: dict[int | str, dict[str, Any]] = {200: {"model": StudyPreview, "description": "With `dry_run`: the cells"}}
_NO_SUCH_STUDY = problems(s404="No such study")
Form = Literal["json", "markdown", "csv", "png"]
_TEXT = {"schema": {"type": "string"}}
_FORMS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The report in the requested format",
        "content": {
            "text/markdown": _TEXT,
            "text/csv": _TEXT,
            "image/png": {"schema": {"type": "string", "format": "binary"}},
        },
    }
}


@routes.post(
    "/studies",
    status_code=201,
    response_model=StudyView,
    responses=CREATED
    | _PREVIEWED
    | problems(
        s409="The Idempotency-Key was used with another body, or the queue of the project or of the user is full",
        s413="The body is too large",
        s415="The body is not JSON",
    ),
    dependencies=[TAKES_A_TURN],
    openapi_extra=schema_body("StudySpec", JSON, required=True, examples=_STUDIES),
)
def submit_study(
    services: ServicesHere,
    caller: CallerHere,
    body: Annotated[bytes, Depends(json_body)],
    dry_run: Annotated[bool, Query(description="Check the study and answer with its cells, but store nothing")] = False,
    idempotency_key: Key = None,
) -> Response:
    """Submit a study: a grid of jobs over a base spec. All of them are stored, or none."""
    idempotency = idempotency_of(idempotency_key, "study", body)
    return submissions.submit_study(services, caller, body, idempotency=idempotency, dry_run=dry_run)


@routes.get("/studies", response_model=Listed[ListedStudy], responses=UNCHANGED, dependencies=[TAKES_A_TURN])
def list_all_studies(
    services: ServicesHere,
    status: Statuses = [],  # noqa: B006
    label: Labels = [],  # noqa: B006
    owner: Owner = None,
    project: Project = None,
    starred: Starred = None,
    archived: Archived = None,
    search: Search = None,
    where: Wheres = [],  # noqa: B006
    limit: PageLimit = 50,
    cursor: Cursor = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """List studies, newest first: those that have a job which matches all filters.

    With `If-None-Match` an unchanged page gets 304.
    """
    jobs = JobFilter(
        statuses=statuses_of(status), labels=labels_of(label), owner=owner, project=project, starred=starred,
        archived=archived, search=search, where=wheres_of(where),
    )  # fmt: skip
    with services.sessions() as session:
        study_ids = store.study_ids(session, limit=limit, cursor=cursor, jobs=jobs)
        tag = tag_of(limit, cursor, study_ids, versions.of_studies(session, study_ids))
        if is_known(tag, if_none_match):
            return unchanged(tag)
        page = store.list_studies(session, limit=limit, cursor=cursor, jobs=jobs)
    return answer_with(Listed[ListedStudy](items=page.items, next_cursor=page.next_cursor), tag)


@routes.get(
    "/studies/{study_id}",
    response_model=StudyView,
    responses=UNCHANGED | _NO_SUCH_STUDY,
    dependencies=[TAKES_A_TURN],
)
def get_study(study_id: StudyId, services: ServicesHere, if_none_match: IfNoneMatch = None) -> Response:
    """Get a study with its jobs. With `If-None-Match` an unchanged study gets 304."""
    with services.sessions() as session:
        tag = study_tag(study_id, versions.of_study(session, study_id))
        if is_known(tag, if_none_match):
            return unchanged(tag)
        study = store.view_of(session, study_id)
    return answer_with(study, tag)


@routes.post("/studies/{study_id}/cancel", status_code=202, responses=_NO_SUCH_STUDY, dependencies=[TAKES_A_TURN])
def cancel_study(
    study_id: StudyId, services: ServicesHere, caller: CallerHere, response: Response, save: CancelSaves = False
) -> StudyView:
    """Cancel all jobs of a study that have not ended. Cancelling them again changes nothing.

    With `save` running ones save first, which may take a minute. Cancelling them again without `save` ends that.
    """
    cancel = partial(control.request_cancel, saves=save)
    return _steered(services, caller, response, study_id, cancel, "study.cancelled")


@routes.post("/studies/{study_id}/pause", status_code=202, responses=_NO_SUCH_STUDY, dependencies=[TAKES_A_TURN])
def pause_study(study_id: StudyId, services: ServicesHere, caller: CallerHere, response: Response) -> StudyView:
    """Pause all jobs of a study that have not ended. Running jobs save and go back to the queue."""
    return _steered(services, caller, response, study_id, control.pause, "study.paused")


@routes.post(
    "/studies/{study_id}/resume",
    status_code=202,
    responses=_NO_SUCH_STUDY | problems(s409="The project's queue is full, or its owner has too many queued jobs"),
    dependencies=[TAKES_A_TURN],
)
def resume_study(study_id: StudyId, services: ServicesHere, caller: CallerHere, response: Response) -> StudyView:
    """Resume the paused jobs of a study, and submit new jobs for those that failed or were cancelled."""
    most_queued = None if caller.may(Scope.ADMIN) else services.settings.max_queued_jobs
    resume = partial(control.resume, by=caller.applicant, most_queued=most_queued)
    return _steered(services, caller, response, study_id, resume, "study.resumed", require=Caller.require_resuming)


def _steered(
    services: Services,
    caller: Caller,
    response: Response,
    study_id: str,
    change: Callable[[Session, str], None],
    action: str,
    *,
    require: Callable[[Caller, Session, str, Owned], None] = Caller.require_steering,
) -> StudyView:
    with services.sessions.begin() as session:
        steered = store.get_study(session, study_id)
        require(caller, session, "study", steered)
        revision = steered.revision
        change(session, study_id)
        study = store.view_of(session, study_id)
        is_changed = study.revision != revision
        if is_changed:
            audit.record(session, caller.actor, action, study_id)
        response.headers["ETag"] = study_tag(study_id, versions.of_study(session, study_id))
    if is_changed:
        services.limits.add_changes(caller.bearer, study.jobs - 1)
    services.hints.dispatch()  # its jobs, or those after them in the queue, may be placed now
    return study


@routes.post(
    "/studies/{study_id}/notes",
    status_code=201,
    responses=_NO_SUCH_STUDY | problems(s409="The study has too many notes", s415="The body is not JSON"),
    dependencies=[Depends(only_json)],
)
def add_note(
    study_id: StudyId, services: ServicesHere, caller: CallerHere, note: Annotated[NoteText, Body()]
) -> NoteView:
    """Add a note to a study."""
    with services.sessions.begin() as session:
        caller.require_steering(session, "study", store.get_study(session, study_id))
        audit.record(session, caller.actor, "study.noted", study_id)
        return store.add_note(session, study_id, author=caller.user, text=note.text)


@routes.get(
    "/studies/{study_id}/report",
    response_model=StudyReport,
    responses=_FORMS | UNCHANGED | _NO_SUCH_STUDY,
    dependencies=[REPORT_TAKES_A_TURN],
)
def get_report(
    study_id: StudyId,
    services: ServicesHere,
    target: Annotated[
        float | None,
        Query(
            allow_inf_nan=False,
            description="The target: a value of the goal's metric. By default the study's own, or one that most cells "
            "reach",
        ),
    ] = None,
    form: Annotated[
        Form, Query(alias="format", description="`json`, a page (`markdown`), a table (`csv`) or a picture (`png`)")
    ] = "json",
    outliers: Annotated[
        Literal["set_aside", "keep"],
        Query(description="`keep`: repeats that stalled count in the figures of speed too"),
    ] = "set_aside",
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Get the report of a study. It is available at any time. Jobs that have not ended are left out."""
    with services.sessions() as session:
        settings = services.settings
        tag = tag_of(form, target, outliers, settings.gpu_hour_price, versions.of_report(session, study_id))
        if is_known(tag, if_none_match):
            return unchanged(tag)
        report = report_on(session, study_id, target=target, keep_outliers=outliers == "keep", prices=settings.prices)
        curves = curves_of(session, study_id) if form == "png" else None
    return _in_form(report, curves, form, tagged_with(tag))


@routes.get(
    "/studies/{study_id}/curves",
    response_model=StudyCurves,
    responses=UNCHANGED | _NO_SUCH_STUDY,
    dependencies=[TAKES_A_TURN],
)
def get_study_curves(study_id: StudyId, services: ServicesHere, if_none_match: IfNoneMatch = None) -> Response:
    """Get the learning curves of a study: for each cell the mean of the repeats that succeeded, and their range."""
    with services.sessions() as session:
        tag = tag_of("curves", versions.of_report(session, study_id))
        if is_known(tag, if_none_match):
            return unchanged(tag)
        curves = curves_of(session, study_id)
    return answer_with(curves, tag)


def _in_form(report: StudyReport, curves: StudyCurves | None, form: Form, headers: dict[str, str]) -> Response:
    match form:
        case "json":
            return as_json(report, headers=headers)
        case "markdown":
            return Response(formats.markdown(report), headers=headers, media_type="text/markdown")
        case "csv":
            named = {"Content-Disposition": f'inline; filename="study-{report.study_id}.csv"'}
            return Response(formats.comma_separated(report), headers=headers | named, media_type="text/csv")
        case "png":
            return Response(png_of(plot_of(report, curves)), headers=headers, media_type="image/png")
