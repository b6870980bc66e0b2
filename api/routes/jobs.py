"""Submit, look up, cancel, pause and clone jobs."""

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Depends, Header, Query, Response
from pydantic_core import from_json
from sqlalchemy.orm import Session

from api.access import CallerHere, router
from api.deps import (
    JSON,
    MERGE_PATCH,
    IfNoneMatch,
    JobId,
    SafeText,
    Services,
    ServicesHere,
    as_json,
    body_sha256,
    is_known,
    json_body,
    patch_body,
    schema_body,
)
from api.drafts import accepted, draft_of
from api.openapi import NO_SUCH_JOB, problems
from api.problems import invalid
from api.rows import job_view
from api.waiting import etag, standings_of
from jobs import store
from jobs.advice.quote import preview
from jobs.listing import JobFilter, Order, list_jobs, revision_of
from jobs.queue import standings
from jobs.spec import FieldProblem, InvalidSpec, Spec, merged, parse_spec, spec_from
from jobs.states import Status
from jobs.store import Idempotency
from jobs.tables import Job
from jobs.views.base import Listed
from jobs.views.jobs import JobView, Preview

routes = router("jobs")

_SPECS = {
    "smallest": {"value": {"dataset": "digits", "batch_size": 64, "learning_rate": 0.001, "gpus": 2}},
    "scaled": {
        "summary": "A batch per GPU, and a rate that grows with the global batch",
        "value": {
            "name": "fashion-4",
            "dataset": {"source": "fashion-mnist", "validation": 0.1},
            "model": "lenet5",
            "batch_size": 128,
            "learning_rate": 0.001,
            "lr_scaling": "linear",
            "warmup_epochs": 3,
            "gpus": 4,
            "labels": {"team": "vision"},
        },
    },
}
_CHANGES = {"larger batch": {"value": {"batch_size": 128, "dataset": {"validation": 0.2}}}}

_DRY_RUN: dict[int | str, dict[str, Any]] = {200: {"model": Preview, "description": "With `dry_run`: what would run"}}
_UNCHANGED: dict[int | str, dict[str, Any]] = {304: {"description": "Unchanged"}}
_BODY = {"s413": "The body is too large", "s415": "The body is not JSON"}

DryRun = Annotated[bool, Query(description="Only say what would run; nothing is stored")]
Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        pattern=r"^[\x20-\x7e]{1,255}$",
        description="The same key with the same body is answered with the job of the first request",
    ),
]


@routes.post(
    "/jobs",
    status_code=201,
    response_model=JobView,
    responses=_DRY_RUN | problems(s409="The key came before with another body", **_BODY),
    openapi_extra=schema_body("Spec", JSON, required=True, examples=_SPECS),
)
def submit_job(
    services: ServicesHere,
    caller: CallerHere,
    body: Annotated[bytes, Depends(json_body)],
    dry_run: DryRun = False,
    idempotency_key: Key = None,
) -> Response:
    """Submit a training job. It runs as soon as its slots are free."""
    return _submitted(services, parse_spec(body), caller.user, dry_run, idempotency_key, body_sha256("submit", body))


@routes.post(
    "/jobs/{job_id}/clone",
    status_code=201,
    response_model=JobView,
    responses=_DRY_RUN | problems(s404="No such job", s409="The key came before with another body", **_BODY),
    openapi_extra=schema_body("SpecChanges", JSON, MERGE_PATCH, required=False, examples=_CHANGES),
)
def clone_job(
    job_id: JobId,
    services: ServicesHere,
    caller: CallerHere,
    body: Annotated[bytes, Depends(patch_body)],
    dry_run: DryRun = False,
    idempotency_key: Key = None,
) -> Response:
    """Submit a job again, with changes to its spec: objects are merged, every other value replaces the old one.

    Null is a value, as in a spec: `{"early_stopping": null}` turns early stopping off.
    """
    with services.sessions() as session:
        original = store.get_job(session, job_id).spec
    spec = spec_from(merged(original, _changes(body)))
    return _submitted(services, spec, caller.user, dry_run, idempotency_key, body_sha256("clone", job_id, body))


def _submitted(
    services: Services, spec: Spec, owner: str, dry_run: bool, key: str | None, request_sha256: str
) -> Response:
    draft = draft_of(spec, services.site)
    if dry_run or draft.plan is None:
        with services.sessions() as session:
            plan = accepted(session, draft)
            outlook = preview(session, spec, plan)
        return as_json(Preview(spec=spec, plan=plan, quote=outlook.quote, warnings=outlook.warnings))
    idempotency = Idempotency(key, request_sha256) if key else None
    with services.sessions.begin() as session:
        submission = store.submit(session, spec=spec, plan=draft.plan, owner=owner, idempotency=idempotency)
        created = submission.created
        if created:  # a replay gets its first answer, whatever became of hosts and data
            accepted(session, draft)
        job = job_view(submission.job)
    headers = {"Location": f"/v1/jobs/{job.id}", "ETag": etag(job.revision)}
    if created:
        services.hints.dispatch()
    else:
        headers["Idempotency-Replayed"] = "true"
    return as_json(job, 201, headers)


def _changes(body: bytes) -> dict[str, Any]:
    try:
        changes = from_json(body, allow_inf_nan=False) if body else {}
    except ValueError as error:
        raise InvalidSpec([FieldProblem("", f"Invalid JSON: {error}")]) from None
    if not isinstance(changes, dict):
        raise InvalidSpec([FieldProblem("", "Input should be an object")])
    return changes


@routes.get("/jobs")
def list_all_jobs(
    services: ServicesHere,
    status: Annotated[list[str], Query(description="Any of these; repeated or with commas", max_length=20)] = [],  # noqa: B006
    label: Annotated[list[SafeText], Query(description="`key:value`; all of these", max_length=20)] = [],  # noqa: B006
    name: SafeText | None = None,
    owner: SafeText | None = None,
    paused: bool | None = None,
    study: Annotated[str | None, Query(pattern="^[0-9a-z]{1,32}$", description="The id of a study")] = None,
    sort: Order = "-created_at",
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    cursor: Annotated[str | None, Query(max_length=1000)] = None,
) -> Listed[JobView]:
    """List jobs, page by page."""
    wanted = JobFilter(
        statuses=_statuses(status), labels=_labels(label), name=name, owner=owner, paused=paused, study=study
    )
    with services.sessions() as session:
        page = list_jobs(session, wanted, order=sort, limit=limit, cursor=cursor)
        waiting = standings_of(session, page.items, host_timeout_s=services.settings.host_timeout_s)
    views = [job_view(job, with_classes=False, standing=waiting.get(job.id)) for job in page.items]
    return Listed(items=views, next_cursor=page.next_cursor)


def _statuses(given: list[str]) -> frozenset[Status]:
    names = [name for part in given for name in part.split(",") if name]
    wrong = [name for name in names if name not in set(Status)]
    if wrong:
        allowed = ", ".join(Status)
        raise invalid([FieldProblem("status", f"no such status; there are: {allowed}", name[:80]) for name in wrong])
    return frozenset(map(Status, names))


def _labels(given: list[str]) -> tuple[tuple[str, str], ...]:
    wrong = [text for text in given if not text.partition(":")[1]]
    if wrong:
        raise invalid([FieldProblem("label", "write it as key:value", text[:80]) for text in wrong])
    return tuple((key, value) for key, _, value in (text.partition(":") for text in given))


@routes.get("/jobs/{job_id}", response_model=JobView, responses=_UNCHANGED | NO_SUCH_JOB)
def get_job(
    job_id: JobId,
    services: ServicesHere,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Look a job up. With `If-None-Match` an unchanged one is answered with 304."""
    host_timeout_s = services.settings.host_timeout_s
    with services.sessions() as session:
        if if_none_match is not None:
            revision, status = revision_of(session, job_id)
            waits = status is Status.QUEUED
            standing = standings(session, [job_id], host_timeout_s=host_timeout_s).get(job_id) if waits else None
            tag = etag(revision, standing)
            if is_known(tag, if_none_match):
                return Response(status_code=304, headers={"ETag": tag})
        job = store.get_job(session, job_id)
        standing = standings_of(session, [job], host_timeout_s=host_timeout_s).get(job_id)
        view = job_view(job, standing=standing)
    return as_json(view, headers={"ETag": etag(view.revision, standing)})


@routes.post(
    "/jobs/{job_id}/cancel",
    status_code=202,
    responses=problems(s404="No such job", s409="The job ended otherwise"),
)
def cancel_job(job_id: JobId, services: ServicesHere, response: Response) -> JobView:
    """Ask for a job's end. A queued job is cancelled at once, a running one within seconds; asking again is fine."""
    return _asked(services, response, job_id, store.request_cancel)


@routes.post("/jobs/{job_id}/pause", status_code=202, responses=problems(s404="No such job", s409="The job has ended"))
def pause_job(job_id: JobId, services: ServicesHere, response: Response) -> JobView:
    """Let a job wait: a queued job is not placed, a running one saves and goes back to the queue within a minute.

    It keeps its place in the queue. Asking again is fine.
    """
    return _asked(services, response, job_id, store.pause)


@routes.post("/jobs/{job_id}/resume", status_code=202, responses=problems(s404="No such job", s409="The job has ended"))
def resume_job(job_id: JobId, services: ServicesHere, response: Response) -> JobView:
    """Let a paused job go on, from its last checkpoint. Asking again is fine."""
    return _asked(services, response, job_id, store.resume)


def _asked(services: Services, response: Response, job_id: str, ask: Callable[[Session, str], Job]) -> JobView:
    with services.sessions.begin() as session:
        job = job_view(ask(session, job_id))
    services.hints.dispatch()  # it, or what waited behind it, may be placed now
    response.headers["ETag"] = etag(job.revision)
    return job
