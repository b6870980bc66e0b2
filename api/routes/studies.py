"""Studies: submit a grid of jobs, look it up, ask for its end or a rest, and read its scaling report."""

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any, Literal

from fastapi import Body, Depends, Query, Response
from pydantic import ValidationError
from sqlalchemy.orm import Session

from api.callers import Caller, CallerHere, router
from api.deps import (
    JSON,
    Cursor,
    IfNoneMatch,
    PageLimit,
    Services,
    ServicesHere,
    StudyId,
    as_json,
    body_sha256,
    json_body,
    only_json,
    schema_body,
)
from api.drafts import Draft, Objections, applicant_of, draft_of
from api.drawing import png_of
from api.openapi import CREATED, problems
from api.polling import versions
from api.polling.entity_tags import UNCHANGED, answer_with, is_known, tag_of, tagged_with, unchanged
from api.routes.jobs import Key
from jobs.data.resolving import Registry
from jobs.insight.studies import control, formats, store
from jobs.insight.studies.grid import Cell, CellProblems, cells_of
from jobs.insight.studies.plots import plot_of
from jobs.insight.studies.report import report_on
from jobs.lifecycle.submission import Idempotency
from jobs.model.plan import Plan
from jobs.model.spec import InvalidSpec, field_problems
from jobs.people import audit
from jobs.people.project_admission import Applicant, admit
from jobs.views.base import Listed
from jobs.views.studies import (
    CellPreview,
    NoteText,
    NoteView,
    StudyLine,
    StudyPreview,
    StudyReport,
    StudySpec,
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
        "description": "The report in the form that was asked for",
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
        s409="The key came before with another body, or the project's queue is full",
        s413="The body is too large",
        s415="The body is not JSON",
    ),
    openapi_extra=schema_body("StudySpec", JSON, required=True, examples=_STUDIES),
)
def submit_study(
    services: ServicesHere,
    caller: CallerHere,
    body: Annotated[bytes, Depends(json_body)],
    dry_run: Annotated[bool, Query(description="Only say which cells there would be; nothing is stored")] = False,
    idempotency_key: Key = None,
) -> Response:
    """Submit a grid of jobs over a base spec. All of them are stored, or none."""
    asked = _study_of(body)
    cells = cells_of(asked)
    drafts = _drafts(asked, cells, services)
    if dry_run or any(draft.plan is None for draft in drafts):
        with services.sessions() as session:
            planned = _accepted(session, asked, cells, drafts, applicant_of(caller))
        return as_json(_preview(asked, planned))
    planned = _planned(cells, drafts)
    idempotency = Idempotency(idempotency_key, body_sha256("study", body)) if idempotency_key else None
    with services.sessions.begin() as session:
        submission = store.replayed(session, caller.user, idempotency)
        if submission is None:  # a replay gets its first answer, whatever became of hosts, data and quotas
            _accepted(session, asked, cells, drafts, applicant_of(caller))
            submission = store.submit(session, asked, planned, owner=caller.user, idempotency=idempotency)
            audit.record(session, caller.actor, "study.submitted", submission.study_id, name=asked.name)
        study = store.view_of(session, submission.study_id)
        tag = _tag(session, study.id)
    headers = {"Location": f"/v1/studies/{study.id}", "ETag": tag}
    if submission.created:
        services.hints.dispatch()
    else:
        headers["Idempotency-Replayed"] = "true"
    return as_json(study, 201, headers)


def _study_of(body: bytes) -> StudySpec:
    try:
        return StudySpec.model_validate_json(body)
    except ValidationError as error:
        raise InvalidSpec(field_problems(error)) from None


def _drafts(asked: StudySpec, cells: list[Cell], services: Services) -> list[Draft]:
    drafts, cell_problems = [], CellProblems(asked)
    site, registry = services.site, Registry(services.sessions)
    for cell in cells:
        try:
            drafts.append(draft_of(cell.spec, site, registry))
        except InvalidSpec as error:
            cell_problems.add(cell.positions, error.problems)
    if found := cell_problems.problems():
        raise InvalidSpec(found)
    return drafts


def _accepted(
    session: Session, asked: StudySpec, cells: list[Cell], drafts: list[Draft], applicant: Applicant
) -> list[tuple[Cell, Plan]]:
    """The cells with their plans, where nothing speaks against any of them now and their project takes them.

    Raises `InvalidSpec`, and what `jobs.people.project_admission.admit` raises.
    """
    objections, cell_problems = Objections(session, applicant), CellProblems(asked)
    for cell, draft in zip(cells, drafts, strict=True):
        cell_problems.add(cell.positions, objections.to(draft))
    if found := cell_problems.problems():
        raise InvalidSpec(found)
    admit(session, cells[0].spec.project, applicant, jobs=len(cells) * asked.repeats)
    return _planned(cells, drafts)


def _planned(cells: list[Cell], drafts: list[Draft]) -> list[tuple[Cell, Plan]]:
    """The cells that have a plan, with their specs as they are stored."""
    both = zip(cells, drafts, strict=True)
    return [(replace(cell, spec=draft.spec), draft.plan) for cell, draft in both if draft.plan is not None]


def _preview(asked: StudySpec, planned: list[tuple[Cell, Plan]]) -> StudyPreview:
    return StudyPreview(
        name=asked.name,
        jobs=len(planned) * asked.repeats,
        repeats=asked.repeats,
        varied=list(asked.grid),
        cells=[CellPreview(values=cell.values, plan=plan) for cell, plan in planned],
    )


@routes.get("/studies", response_model=Listed[StudyLine], responses=UNCHANGED)
def list_all_studies(
    services: ServicesHere, limit: PageLimit = 50, cursor: Cursor = None, if_none_match: IfNoneMatch = None
) -> Response:
    """List studies, newest first, page by page. With `If-None-Match` an unchanged page is answered with 304."""
    with services.sessions() as session:
        seen = store.study_ids(session, limit=limit, cursor=cursor)
        tag = tag_of(limit, cursor, seen, versions.of_studies(session, seen))
        if is_known(tag, if_none_match):
            return unchanged(tag)
        page = store.list_studies(session, limit=limit, cursor=cursor)
    return answer_with(Listed[StudyLine](items=page.items, next_cursor=page.next_cursor), tag)


@routes.get("/studies/{study_id}", response_model=StudyView, responses=UNCHANGED | _NO_SUCH_STUDY)
def get_study(study_id: StudyId, services: ServicesHere, if_none_match: IfNoneMatch = None) -> Response:
    """Look a study up, with its jobs. With `If-None-Match` an unchanged one is answered with 304."""
    with services.sessions() as session:
        tag = _tag(session, study_id)
        if is_known(tag, if_none_match):
            return unchanged(tag)
        study = store.view_of(session, study_id)
    return answer_with(study, tag)


def _tag(session: Session, study_id: str) -> str:
    return tag_of("study", study_id, versions.of_study(session, study_id))


@routes.post("/studies/{study_id}/cancel", status_code=202, responses=_NO_SUCH_STUDY)
def cancel_study(study_id: StudyId, services: ServicesHere, caller: CallerHere, response: Response) -> StudyView:
    """Ask for the end of all jobs that have not ended. Asking again, or after the end, is fine."""
    return _asked(services, caller, response, study_id, control.request_cancel, "study.cancelled")


@routes.post("/studies/{study_id}/pause", status_code=202, responses=_NO_SUCH_STUDY)
def pause_study(study_id: StudyId, services: ServicesHere, caller: CallerHere, response: Response) -> StudyView:
    """Let all jobs that have not ended wait: running ones save and go back to the queue. Asking again is fine."""
    return _asked(services, caller, response, study_id, control.pause, "study.paused")


@routes.post(
    "/studies/{study_id}/resume",
    status_code=202,
    responses=_NO_SUCH_STUDY | problems(s409="Its project has no room in the queue for fresh jobs"),
)
def resume_study(study_id: StudyId, services: ServicesHere, caller: CallerHere, response: Response) -> StudyView:
    """Let paused jobs go on, and put fresh jobs in the place of those that failed or were cancelled."""
    return _asked(services, caller, response, study_id, control.resume, "study.resumed")


def _asked(
    services: Services,
    caller: Caller,
    response: Response,
    study_id: str,
    ask: Callable[[Session, str], None],
    action: str,
) -> StudyView:
    with services.sessions.begin() as session:
        caller.require_steering(session, "study", store.get_study(session, study_id))
        ask(session, study_id)
        audit.record(session, caller.actor, action, study_id)
        study = store.view_of(session, study_id)
        response.headers["ETag"] = _tag(session, study_id)
    services.hints.dispatch()  # its jobs, or what waited behind them, may be placed now
    return study


@routes.post(
    "/studies/{study_id}/notes",
    status_code=201,
    responses=_NO_SUCH_STUDY | problems(s415="The body is not JSON"),
    dependencies=[Depends(only_json)],
)
def add_note(
    study_id: StudyId, services: ServicesHere, caller: CallerHere, note: Annotated[NoteText, Body()]
) -> NoteView:
    """Write something down about a study: what came of it, what to try next."""
    with services.sessions.begin() as session:
        caller.require_steering(session, "study", store.get_study(session, study_id))
        audit.record(session, caller.actor, "study.noted", study_id)
        return store.add_note(session, study_id, author=caller.user, text=note.text)


@routes.get("/studies/{study_id}/report", response_model=StudyReport, responses=_FORMS | UNCHANGED | _NO_SUCH_STUDY)
def get_report(
    study_id: StudyId,
    services: ServicesHere,
    target: Annotated[
        float | None, Query(gt=0, le=1, description="A val_accuracy; else the study's own, or what most cells reach")
    ] = None,
    form: Annotated[Form, Query(alias="format", description="As data, a page, a table or a picture")] = "json",
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Read how a study came out, at any time: what has not ended yet is left out."""
    with services.sessions() as session:
        tag = tag_of(form, target, versions.of_report(session, study_id))
        if is_known(tag, if_none_match):
            return unchanged(tag)
        report = report_on(session, study_id, target=target)
    return _in_form(report, form, tagged_with(tag))


def _in_form(report: StudyReport, form: Form, headers: dict[str, str]) -> Response:
    match form:
        case "json":
            return as_json(report, headers=headers)
        case "markdown":
            return Response(formats.markdown(report), headers=headers, media_type="text/markdown")
        case "csv":
            named = {"Content-Disposition": f'inline; filename="study-{report.study_id}.csv"'}
            return Response(formats.comma_separated(report), headers=headers | named, media_type="text/csv")
        case "png":
            return Response(png_of(plot_of(report)), headers=headers, media_type="image/png")
