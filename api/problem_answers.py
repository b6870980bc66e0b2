"""Turns every error into a problem and writes it as an answer. The only module that does so.

The domain raises its own errors and knows nothing of HTTP. `_PROBLEMS` maps each of them to a problem.
"""

import errno
import http
import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import structlog
from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from fastapi.routing import iter_route_contexts
from psycopg import errors as postgres
from pydantic import BaseModel
from sqlalchemy.exc import DataError, DBAPIError, InterfaceError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from api.problems import MEDIA_TYPE, Broken, Forbidden, Problem, Unavailable, invalid
from api.similar_names import LOOKED_UP, proposal
from jobs.data.artifact_files import ArtifactNotFound
from jobs.data.artifacts import ArtifactsInUse, ArtifactsRemoved
from jobs.data.checkpoints import CheckpointNotFound, CheckpointsRemoved
from jobs.data.code import CodeNotFound
from jobs.data.samples import SampleNotFound
from jobs.data.uploads import TooManyUploads, UploadGone, UploadInUse, UploadNotFound
from jobs.data.versions import DatasetInUse, DatasetNotFound, TooManyDatasets
from jobs.db.cursors import InvalidCursor
from jobs.db.engine import is_away
from jobs.db.text_search import TooMuchToSearch
from jobs.insight.articles.store import ArticleChanged, ArticleNotFound, TooManyArticles
from jobs.insight.studies.ended import StudyNotEnded
from jobs.insight.studies.report import ImpossibleTarget
from jobs.insight.studies.store import StudyNotFound, TooManyNotes
from jobs.intake.imported import RunChanged
from jobs.lifecycle.listing import WrongPattern
from jobs.lifecycle.store import JobEnded, JobInUse, JobNotEnded, JobNotFound
from jobs.lifecycle.submission import IdempotencyConflict
from jobs.model.plan import UnworkablePlan
from jobs.model.problems import FieldProblem, InvalidSpec, in_words, models_in, unknown_field
from jobs.outward.webhooks.store import DeliveryNotFound, TooManyWebhooks, WebhookDisabled, WebhookNotFound
from jobs.people.project_admission import ProjectArchived, QueueFull, StorageFull
from jobs.people.projects import DefaultProject, ProjectExists, ProjectNotFound
from jobs.people.queue_share import TooManyQueuedJobs
from jobs.people.rights import LastAdmin, NotAllowed, TooManyLogins, TooManyTokens, UserDisabled, UserNotFound
from jobs.people.saved_views import TooManyViews, ViewExists, ViewNotFound
from jobs.people.tokens import LoginRefused, TokenNotFound
from jobs.people.usage_history import TooMuchUsage
from jobs.runtime.outbound_addresses import ForbiddenAddress
from jobs.runtime.settings import Settings
from jobs.runtime.space import has_database, shortage
from jobs.scheduling.draining import HostInUse
from jobs.scheduling.hosts import HostNotFound
from jobs.wording import shortened

_NO_SPACE = "the database has no space; what was answered before is stored, and requests work again with more space"
_log = structlog.get_logger(__name__)


def problem_of(error: Exception) -> Problem:
    """The problem for an error; `Broken` where the caller can do nothing about it."""
    kinds = [kind for kind in type(error).__mro__ if kind in _PROBLEMS]
    return _PROBLEMS[kinds[0]](error) if kinds else Broken()


async def answer(request: Request, error: Exception) -> Response:
    """The response for an error. It is logged if Hora or its database is at fault."""
    if isinstance(error, RequestValidationError):
        problem = _of_parameters(error, _body_model(request))
    else:
        problem = problem_of(error)
    if type(error) in LOOKED_UP:
        problem = await run_in_threadpool(_with_proposal, problem, error, request)
    if problem.status == 503 and isinstance(error, SQLAlchemyError):
        problem = await run_in_threadpool(_with_its_disk, problem, request)
    if problem.status == 500:
        _log.error("request failed", exc_info=error)
    elif problem.status == 503:
        _log.warning("request refused", reason=problem.detail, error=str(error).partition("\n")[0])
    headers = dict(problem.headers)
    if problem.status == 405:
        headers["Allow"] = ", ".join(_methods_of(request)) or headers.get("Allow", "GET, HEAD")  # of a file of the page
    return Response(_body(problem, request), problem.status, headers, MEDIA_TYPE)


def _with_its_disk(problem: Problem, request: Request) -> Problem:
    """The problem of a database that does not answer. If it is on this machine and its disk is full, it says so."""
    settings: Settings = request.app.state.services.settings
    why = shortage(settings, "database") if has_database(settings) else None
    return Unavailable(f"{problem.detail}: {why}") if why is not None else problem


def _with_proposal(problem: Problem, error: Exception, request: Request) -> Problem:
    """The problem of a thing that does not exist, with the id or name that was probably meant."""
    try:
        with request.app.state.services.sessions() as session:
            detail = problem.detail + proposal(session, error)
    except SQLAlchemyError:
        return problem
    return Problem(problem.status, problem.slug, problem.title, detail)


def install(app: FastAPI) -> None:
    """Let `app` answer with problems. `api.middleware` catches every error that is not listed here."""
    for kind in _PROBLEMS:
        app.add_exception_handler(kind, answer)


def _body(problem: Problem, request: Request) -> bytes:
    document: dict[str, Any] = {
        "type": f"urn:hora:problem:{problem.slug}",
        "title": problem.title,
        "status": problem.status,
        "instance": quote(request.url.path),
        "request_id": request.scope.get("state", {}).get("request_id"),
    }
    if problem.detail:
        document["detail"] = problem.detail
    if problem.errors:
        document["errors"] = [
            {"field": error.field, "message": error.message, "received": error.received} for error in problem.errors
        ]
    return json.dumps(document).encode()


def _of_parameters(error: RequestValidationError, body: type[BaseModel] | None = None) -> Problem:
    """422 at each wrong parameter and each wrong field of the `body`; 404 for a malformed id."""
    details = error.errors()
    for detail in details:
        if detail["loc"] in _NOT_FOUND_BY_PARAMETER:  # a malformed id belongs to no job
            return problem_of(_NOT_FOUND_BY_PARAMETER[detail["loc"]](detail["input"]))
    return invalid(
        [
            FieldProblem(
                field=".".join(map(str, detail["loc"][1:])),
                message=_message(detail, body),
                received=None if detail["type"] == "missing" else str(detail["input"])[:80],
            )
            for detail in details
        ]
    )


def _message(detail: Any, body: type[BaseModel] | None) -> str:
    is_unknown = detail["type"] == "extra_forbidden"
    return unknown_field(detail["loc"][1:], body) if is_unknown else in_words(detail)


def _body_model(request: Request) -> type[BaseModel] | None:
    """What the route of the request reads its body as; None if it reads none, or reads it itself."""
    field = getattr(request.scope.get("route"), "body_field", None)
    return None if field is None else next(models_in(field.field_info.annotation), None)


def _of_status(error: HTTPException) -> Problem:
    if (
        error.status_code == 400
    ):  # raised by FastAPI for bytes that are not text, and for numbers with thousands of digits
        message = "Invalid JSON: the body is not text in UTF-8, or has a number with too many digits"
        return invalid([FieldProblem("", message)])
    title = http.HTTPStatus(error.status_code).phrase
    no_detail = "nothing has this address" if error.status_code == http.HTTPStatus.NOT_FOUND else ""
    detail = error.detail if error.detail != title else no_detail
    slug = re.sub(r"[^a-z]+", "-", title.lower())
    return Problem(error.status_code, slug, title, detail, headers=error.headers)


def _of_database(error: SQLAlchemyError) -> Problem:
    cause = getattr(error, "orig", None)
    if isinstance(cause, (postgres.UndefinedTable, postgres.UndefinedColumn)):
        return Unavailable("the database is not migrated")
    if isinstance(cause, postgres.DiskFull):
        return Unavailable(_NO_SPACE)
    if isinstance(error, (InterfaceError, PoolTimeout)) or (isinstance(error, DBAPIError) and is_away(error)):
        return Unavailable("the database does not answer")
    if isinstance(error, DataError):  # a text or number that the column cannot hold
        return Problem(422, "invalid-request", "Invalid request", "a value cannot be stored")
    return Broken()


def _of_system(error: OSError) -> Problem:
    """A new connection to the database fails like this too, where no file can be opened."""
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return Unavailable("the service has too many open files")
    return Broken()


_NOT_FOUND_BY_PARAMETER: dict[tuple[str, ...], type[LookupError]] = {
    ("path", "job_id"): JobNotFound,
    ("path", "study_id"): StudyNotFound,
    ("path", "number"): SampleNotFound,
    ("path", "view_id"): ViewNotFound,
    ("path", "article_id"): ArticleNotFound,
    ("path", "webhook_id"): WebhookNotFound,
    ("path", "delivery_id"): DeliveryNotFound,
    ("path", "name"): HostNotFound,
    ("path", "project"): ProjectNotFound,
    ("path", "dataset"): DatasetNotFound,
    ("path", "version"): DatasetNotFound,
    ("path", "upload_id"): UploadNotFound,
    ("path", "digest"): CodeNotFound,
    ("path", "other"): CodeNotFound,
    ("path", "attempt"): CheckpointNotFound,
    ("path", "step"): CheckpointNotFound,
    ("path", "token_id"): TokenNotFound,
    ("path", "user_name"): UserNotFound,
}


def _no_such(noun: str) -> Callable[[Exception], Problem]:
    """404, for an error whose text is the id or the name that was not found."""
    slug, title = f"{noun}-not-found", f"{noun.capitalize()} not found"
    return lambda error: Problem(404, slug, title, f"there is no {noun} {error}")


def _conflict(slug: str, title: str, status: int = 409) -> Callable[[Exception], Problem]:
    """409 or another status, with the error's own message."""
    return lambda error: Problem(status, slug, title, str(error))


def _wrong_field(field: str) -> Callable[[Exception], Problem]:
    """422 at one field, with the error's own message."""
    return lambda error: invalid([FieldProblem(field, str(error))])


def _wrong_named_field(error: UnworkablePlan | DefaultProject) -> Problem:
    """422 at the field that the error names."""
    return invalid([FieldProblem(error.field, str(error))])


_USED_LINK = "this link is unknown, was used already or has expired; `hora login` makes a new one"
_PROBLEMS: dict[type, Callable[[Any], Problem]] = {
    Problem: lambda error: error,
    OSError: _of_system,
    InvalidSpec: lambda error: invalid(error.problems),
    UnworkablePlan: _wrong_named_field,
    DefaultProject: _wrong_named_field,
    InvalidCursor: _wrong_field("cursor"),
    TooMuchToSearch: lambda error: invalid([FieldProblem(error.field, str(error))]),
    WrongPattern: lambda error: invalid([FieldProblem("where", str(error), shortened(error.where.text))]),
    ImpossibleTarget: _wrong_field("target"),
    TooMuchUsage: _wrong_field("by"),
    ForbiddenAddress: _wrong_field("url"),
    RequestValidationError: _of_parameters,
    JobNotFound: _no_such("job"),
    StudyNotFound: _no_such("study"),
    ArticleNotFound: _no_such("article"),
    HostNotFound: _no_such("host"),
    DatasetNotFound: _no_such("dataset"),
    UploadNotFound: _no_such("upload"),
    CodeNotFound: _no_such("code"),
    TokenNotFound: _no_such("token"),
    UserNotFound: _no_such("user"),
    ProjectNotFound: _no_such("project"),
    SampleNotFound: _no_such("sample"),
    ViewNotFound: _no_such("view"),
    WebhookNotFound: _no_such("webhook"),
    DeliveryNotFound: _no_such("delivery"),
    ArtifactNotFound: lambda _: Problem(404, "artifact-not-found", "Artifact not found", "the job has no such file"),
    CheckpointNotFound: lambda _: Problem(
        404, "checkpoint-not-found", "Checkpoint not found", "the store has no such checkpoint or file of the job"
    ),
    JobEnded: _conflict("job-ended", "Job has ended"),
    JobNotEnded: _conflict("job-not-ended", "Job has not ended"),
    StudyNotEnded: _conflict("study-not-ended", "Study has not ended"),
    JobInUse: _conflict("job-in-use", "Job is in use"),
    RunChanged: _conflict("run-changed", "Run has changed"),
    HostInUse: _conflict("host-in-use", "Host is in use"),
    DatasetInUse: _conflict("dataset-in-use", "Dataset is in use"),
    UploadInUse: _conflict("upload-in-use", "Upload is in use"),
    TooManyDatasets: _conflict("too-many-datasets", "Too many datasets"),
    TooManyUploads: _conflict("too-many-uploads", "Too many uploads"),
    UserDisabled: _conflict("user-disabled", "User is disabled"),
    TooManyTokens: _conflict("too-many-tokens", "Too many tokens"),
    TooManyLogins: _conflict("too-many-logins", "Too many logins"),
    LastAdmin: _conflict("last-admin", "The last admin"),
    ProjectExists: _conflict("project-exists", "Project exists"),
    ProjectArchived: _conflict("project-archived", "Project is archived"),
    QueueFull: _conflict("quota-exceeded", "Quota exceeded"),
    StorageFull: _conflict("quota-exceeded", "Quota exceeded"),
    TooManyNotes: _conflict("too-many-notes", "Too many notes"),
    TooManyQueuedJobs: _conflict("too-many-queued-jobs", "Too many queued jobs"),
    ViewExists: _conflict("view-exists", "View exists"),
    TooManyViews: _conflict("too-many-views", "Too many views"),
    ArticleChanged: _conflict("article-changed", "Article has changed"),
    TooManyArticles: _conflict("too-many-articles", "Too many articles"),
    WebhookDisabled: _conflict("webhook-disabled", "Webhook is disabled"),
    TooManyWebhooks: _conflict("too-many-webhooks", "Too many webhooks"),
    IdempotencyConflict: lambda _: Problem(
        409, "idempotency-conflict", "Idempotency key in use", "this Idempotency-Key was used before with another body"
    ),
    UploadGone: _conflict("upload-gone", "Upload is gone", 410),
    ArtifactsInUse: _conflict("artifacts-in-use", "Artifacts are in use"),
    ArtifactsRemoved: _conflict("artifacts-removed", "Artifacts are not kept", 410),
    CheckpointsRemoved: _conflict("checkpoints-removed", "Checkpoints are not kept", 410),
    NotAllowed: lambda error: Forbidden(str(error)),
    LoginRefused: lambda _: Problem(403, "login-refused", "Login refused", _USED_LINK),
    HTTPException: _of_status,
    ClientDisconnect: lambda _: Problem(400, "client-disconnected", "Client disconnected"),
    SQLAlchemyError: _of_database,
}


def _methods_of(request: Request) -> list[str]:
    """The methods of all routes with the request's path. The router's own answer names those of one route only."""
    path = request.url.path
    routes = iter_route_contexts(request.app.routes)
    return sorted({method for route in routes if _has_path(route, path) for method in route.methods or ()})


def _has_path(route: object, path: str) -> bool:
    regex: re.Pattern[str] | None = getattr(route, "path_regex", None)
    return regex is not None and regex.match(path) is not None
