"""Submit, look up, change, cancel, pause and clone jobs."""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

from fastapi import Depends, Header, Query, Response
from pydantic import Field
from pydantic_core import from_json
from sqlalchemy.orm import Session

from api.callers import Caller, CallerHere, Owned, router
from api.costs import DRY_RUN_TAKES_A_TURN
from api.deps import (
    JSON,
    MERGE_PATCH,
    JobId,
    Services,
    ServicesHere,
    as_json,
    idempotency_of,
    json_body,
    patch_body,
    schema_body,
)
from api.openapi import CREATED, headers, problems
from api.polling.entity_tags import job_tag
from api.row_views import job_view
from api.submitting import submissions
from jobs.data.resolving import without_options
from jobs.db.tables import Job
from jobs.lifecycle import store
from jobs.model.documents import merged
from jobs.model.job_changes import parse_changes
from jobs.model.problems import FieldProblem, InvalidSpec
from jobs.people import audit, job_changes
from jobs.views.jobs import JobView, Preview

routes = router("jobs")

_SPECS = {
    "smallest": {"value": {"dataset": "digits", "batch_size": 64, "learning_rate": 0.001, "gpus": 2}},
    "scaled": {
        "summary": "A batch per GPU, and a learning rate that grows with the global batch",
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

_CHANGES_OF_JOB = {
    "sooner": {"summary": "Before others, and with two hours for each attempt", "value": {
        "priority": 80, "time_limit_s": 7200}},
    "labels": {"summary": "One label set, one removed", "value": {"labels": {"team": "vision", "draft": None}}},
    "no limit": {"value": {"time_limit_s": None}},
    "notes": {"summary": "Notes in Markdown, and a star", "value": {
        "notes": "Diverges after epoch 9: try `clip_norm`", "starred": True}},
    "another project": {"summary": "An ended job, to another project", "value": {"project": "vision"}},
}  # fmt: skip

_DRY_RUN: dict[int | str, dict[str, Any]] = {
    200: {"model": Preview, "description": "With `dry_run`: the plan, the quote and warnings"}
}
_CHANGED: dict[int | str, dict[str, Any]] = {200: headers("ETag")}
_BODY = {"s413": "The body is too large", "s415": "The body is not JSON"}

_CONFLICT = "The Idempotency-Key was used with another body, or the queue of the project or of the user is full"

CancelSaves = Annotated[
    bool, Query(description="Save a checkpoint first, as a pause does, so that it can be continued")
]
DryRun = Annotated[bool, Query(description="Check the spec and answer with its plan, but store nothing")]
Key = Annotated[
    Annotated[str, Field(pattern=r"^[\x20-\x7e]{1,255}$", json_schema_extra={"format": "idempotency-key"})] | None,
    Header(
        alias="Idempotency-Key",
        description="A request with the same key and body gets the answer of the first one",
    ),
]


@routes.post(
    "/jobs",
    status_code=201,
    response_model=JobView,
    responses=CREATED | _DRY_RUN | problems(s409=_CONFLICT, **_BODY),
    dependencies=[DRY_RUN_TAKES_A_TURN],
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
    idempotency = idempotency_of(idempotency_key, "submit", body)
    return submissions.submit_job(services, caller, body, idempotency=idempotency, dry_run=dry_run)


@routes.post(
    "/jobs/{job_id}/clone",
    status_code=201,
    response_model=JobView,
    responses=CREATED | _DRY_RUN | problems(s404="No such job", s409=_CONFLICT, **_BODY),
    dependencies=[DRY_RUN_TAKES_A_TURN],
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
    """Submit a job again, with changes to its spec. Objects are merged; every other value replaces the old one.

    Null is a value, as in a spec: `{"early_stopping": null}` turns early stopping off.
    """
    with services.sessions() as session:
        original = store.get_job(session, job_id)  # of any owner: cloning only reads it
    document = merged(without_options(original.spec, original.dataset_ref), _changes(body))
    idempotency = idempotency_of(idempotency_key, "clone", job_id, body)
    return submissions.submit_job(services, caller, document, idempotency=idempotency, dry_run=dry_run, clone_of=job_id)


def _changes(body: bytes) -> dict[str, Any]:
    try:
        changes = from_json(body, allow_inf_nan=False) if body else {}
    except ValueError as error:
        raise InvalidSpec([FieldProblem("", f"Invalid JSON: {error}")]) from None
    if not isinstance(changes, dict):
        raise InvalidSpec([FieldProblem("", "must be an object: the fields to change")])
    return changes


@routes.patch(
    "/jobs/{job_id}",
    response_model=JobView,
    responses=_CHANGED
    | problems(s404="No such job", s409="The job has ended, or has not, or another project has no room", **_BODY),
    openapi_extra=schema_body("JobChanges", JSON, MERGE_PATCH, required=False, examples=_CHANGES_OF_JOB),
)
def change_job(
    job_id: JobId, services: ServicesHere, caller: CallerHere, body: Annotated[bytes, Depends(patch_body)]
) -> Response:
    """Change the name, priority, time limit, labels, notes, star or project of a job, or archive it.

    Repeating it changes nothing.
    A running attempt has the new time limit within seconds. If it has already taken longer, it ends with `time_limit`.
    """
    changes = parse_changes(body)
    with services.sessions.begin() as session:
        job = store.locked_job(session, job_id)
        caller.require_steering(session, "job", job)
        news = job_changes.change(session, job, changes, by=caller.applicant)
        if news:
            audit.record(session, caller.actor, "job.changed", job_id, **news)
        view = job_view(store.get_job(session, job_id))
    if news:
        services.hints.dispatch()  # the queue may have another sequence now
    return as_json(view, headers={"ETag": job_tag(view.revision)})


@routes.post(
    "/jobs/{job_id}/cancel",
    status_code=202,
    responses=problems(s404="No such job", s409="The job has ended without being cancelled"),
)
def cancel_job(
    job_id: JobId,
    services: ServicesHere,
    caller: CallerHere,
    response: Response,
    save: CancelSaves = False,
) -> JobView:
    """Cancel a job. A queued job ends at once, a running one within seconds. Cancelling it again changes nothing.

    With `save` a running one saves first, which may take a minute. Cancelling it again without `save` ends that.
    """
    cancel = partial(store.request_cancel, saves=save)
    return _steered(services, caller, response, job_id, cancel, "job.cancelled")


@routes.post("/jobs/{job_id}/pause", status_code=202, responses=problems(s404="No such job", s409="The job has ended"))
def pause_job(job_id: JobId, services: ServicesHere, caller: CallerHere, response: Response) -> JobView:
    """Pause a job. A queued job is not placed; a running one saves and goes back to the queue within a minute.

    It keeps its place in the queue. Pausing it again changes nothing.
    """
    return _steered(services, caller, response, job_id, store.pause, "job.paused")


@routes.post("/jobs/{job_id}/resume", status_code=202, responses=problems(s404="No such job", s409="The job has ended"))
def resume_job(job_id: JobId, services: ServicesHere, caller: CallerHere, response: Response) -> JobView:
    """Resume a paused job from its last checkpoint. Resuming it again changes nothing."""
    return _steered(services, caller, response, job_id, store.resume, "job.resumed", require=Caller.require_resuming)


def _steered(
    services: Services,
    caller: Caller,
    response: Response,
    job_id: str,
    change: Callable[[Session, str], Job],
    action: str,
    *,
    require: Callable[[Caller, Session, str, Owned], None] = Caller.require_steering,
) -> JobView:
    with services.sessions.begin() as session:
        steered = store.get_job(session, job_id)
        require(caller, session, "job", steered)
        revision = steered.revision
        job = job_view(change(session, job_id))
        if job.revision != revision:
            audit.record(session, caller.actor, action, job_id)
    services.hints.dispatch()  # this job, or one after it in the queue, may be placed now
    response.headers["ETag"] = job_tag(job.revision)
    return job
