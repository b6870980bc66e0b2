"""Studies: submit a grid of jobs, look it up, ask for its end or a rest, and read its scaling report."""

import hashlib
from collections.abc import Callable
from typing import Annotated, Any, Literal

from fastapi import Body, Depends, Query, Response
from pydantic import ValidationError
from sqlalchemy.orm import Session

from api.access import CallerHere, router
from api.deps import (
    JSON,
    IfNoneMatch,
    Services,
    ServicesHere,
    StudyId,
    as_json,
    body_sha256,
    is_known,
    json_body,
    only_json,
    schema_body,
)
from api.drafts import Draft, Objections, draft_of
from api.drawing import png_of
from api.openapi import problems
from api.routes.jobs import Key
from jobs.admission import Site
from jobs.plan import Plan
from jobs.spec import InvalidSpec, field_problems
from jobs.store import Idempotency
from jobs.studies import formats, orders, store
from jobs.studies.grid import Cell, Mistakes, cells_of
from jobs.studies.plots import plot_of
from jobs.studies.report import report_on
from jobs.studies.shape import (
    CellPreview,
    NoteText,
    NoteView,
    StudyLine,
    StudyPreview,
    StudyReport,
    StudySpec,
    StudyView,
)
from jobs.views.base import Listed

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
_UNCHANGED: dict[int | str, dict[str, Any]] = {304: {"description": "Unchanged"}}
_NO_SUCH_STUDY = problems(s404="No such study")
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
    responses=_PREVIEWED
    | problems(s409="The key came before with another body", s413="The body is too large", s415="The body is not JSON"),
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
    drafts = _drafts(asked, cells, services.site)
    if dry_run or any(draft.plan is None for draft in drafts):
        with services.sessions() as session:
            planned = _accepted(session, asked, cells, drafts)
        return as_json(_preview(asked, planned))
    planned = [(cell, draft.plan) for cell, draft in zip(cells, drafts, strict=True) if draft.plan is not None]
    idempotency = Idempotency(idempotency_key, body_sha256("study", body)) if idempotency_key else None
    with services.sessions.begin() as session:
        submission = store.submit(session, asked, planned, owner=caller.user, idempotency=idempotency)
        if submission.created:  # a replay gets its first answer, whatever became of hosts and data
            _accepted(session, asked, cells, drafts)
        study = store.view_of(session, submission.study_id)
    headers = {"Location": f"/v1/studies/{study.id}", "ETag": _etag(study)}
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


def _drafts(asked: StudySpec, cells: list[Cell], site: Site) -> list[Draft]:
    drafts, mistakes = [], Mistakes(asked)
    for cell in cells:
        try:
            drafts.append(draft_of(cell.spec, site))
        except InvalidSpec as error:
            mistakes.add(cell.positions, error.problems)
    if found := mistakes.problems():
        raise InvalidSpec(found)
    return drafts


def _accepted(session: Session, asked: StudySpec, cells: list[Cell], drafts: list[Draft]) -> list[tuple[Cell, Plan]]:
    """The cells with their plans, where nothing speaks against any of them now. Raises `InvalidSpec`."""
    objections, mistakes = Objections(session), Mistakes(asked)
    for cell, draft in zip(cells, drafts, strict=True):
        mistakes.add(cell.positions, objections.to(draft))
    if found := mistakes.problems():
        raise InvalidSpec(found)
    return [(cell, draft.plan) for cell, draft in zip(cells, drafts, strict=True) if draft.plan is not None]


def _preview(asked: StudySpec, planned: list[tuple[Cell, Plan]]) -> StudyPreview:
    return StudyPreview(
        name=asked.name,
        jobs=len(planned) * asked.repeats,
        repeats=asked.repeats,
        varied=list(asked.grid),
        cells=[CellPreview(values=cell.values, plan=plan) for cell, plan in planned],
    )


@routes.get("/studies")
def list_all_studies(
    services: ServicesHere,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    cursor: Annotated[str | None, Query(max_length=1000)] = None,
) -> Listed[StudyLine]:
    """List studies, newest first, page by page."""
    with services.sessions() as session:
        page = store.list_studies(session, limit=limit, cursor=cursor)
    return Listed(items=page.items, next_cursor=page.next_cursor)


@routes.get("/studies/{study_id}", response_model=StudyView, responses=_UNCHANGED | _NO_SUCH_STUDY)
def get_study(
    study_id: StudyId,
    services: ServicesHere,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Look a study up, with its jobs. With `If-None-Match` an unchanged one is answered with 304."""
    with services.sessions() as session:
        study = store.view_of(session, study_id)
    tag = _etag(study)
    if is_known(tag, if_none_match):
        return Response(status_code=304, headers={"ETag": tag})
    return as_json(study, headers={"ETag": tag})


def _etag(study: StudyView) -> str:
    return f'W/"{hashlib.sha256(study.model_dump_json().encode()).hexdigest()[:24]}"'


@routes.post("/studies/{study_id}/cancel", status_code=202, responses=_NO_SUCH_STUDY)
def cancel_study(study_id: StudyId, services: ServicesHere, response: Response) -> StudyView:
    """Ask for the end of all jobs that have not ended. Asking again, or after the end, is fine."""
    return _asked(services, response, study_id, orders.request_cancel)


@routes.post("/studies/{study_id}/pause", status_code=202, responses=_NO_SUCH_STUDY)
def pause_study(study_id: StudyId, services: ServicesHere, response: Response) -> StudyView:
    """Let all jobs that have not ended wait: running ones save and go back to the queue. Asking again is fine."""
    return _asked(services, response, study_id, orders.pause)


@routes.post("/studies/{study_id}/resume", status_code=202, responses=_NO_SUCH_STUDY)
def resume_study(study_id: StudyId, services: ServicesHere, response: Response) -> StudyView:
    """Let paused jobs go on, and put fresh jobs in the place of those that failed or were cancelled."""
    return _asked(services, response, study_id, orders.resume)


def _asked(services: Services, response: Response, study_id: str, ask: Callable[[Session, str], None]) -> StudyView:
    with services.sessions.begin() as session:
        ask(session, study_id)
        study = store.view_of(session, study_id)
    services.hints.dispatch()  # its jobs, or what waited behind them, may be placed now
    response.headers["ETag"] = _etag(study)
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
        return store.add_note(session, study_id, author=caller.user, text=note.text)


@routes.get("/studies/{study_id}/report", response_model=StudyReport, responses=_FORMS | _NO_SUCH_STUDY)
def get_report(
    study_id: StudyId,
    services: ServicesHere,
    target: Annotated[
        float | None, Query(gt=0, le=1, description="A val_accuracy; else the study's own, or what most cells reach")
    ] = None,
    form: Annotated[Literal["json", "markdown", "csv", "png"], Query(alias="format")] = "json",
) -> Response:
    """Read how a study came out, at any time: what has not ended yet is left out."""
    with services.sessions() as session:
        report = report_on(session, study_id, target=target)
    match form:
        case "json":
            return as_json(report)
        case "markdown":
            return Response(formats.markdown(report), media_type="text/markdown")
        case "csv":
            named = {"Content-Disposition": f'inline; filename="study-{study_id}.csv"'}
            return Response(formats.comma_separated(report), headers=named, media_type="text/csv")
        case "png":
            return Response(png_of(plot_of(report)), media_type="image/png")
