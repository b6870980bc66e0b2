"""Every error in HTTP: what went wrong, as RFC 9457 `application/problem+json`. The one module that does this.

    Problem                 an answer that is an error
    ├── Unauthorized        401
    ├── Forbidden           403
    ├── BodyTooLarge        413
    ├── UnsupportedBody     415
    ├── Unavailable         503
    └── Broken              500

The domain raises its own errors and knows nothing of HTTP; `problem_of` says what each means here.
"""

import http
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from fastapi.routing import iter_route_contexts
from psycopg import errors as postgres
from sqlalchemy.exc import DataError, InterfaceError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from jobs.cursors import InvalidCursor
from jobs.draining import HostInUse
from jobs.hosts import HostNotFound
from jobs.plan import UnworkablePlan
from jobs.spec import MAX_BYTES, FieldProblem, InvalidSpec
from jobs.store import IdempotencyConflict, JobEnded, JobNotFound
from jobs.studies.store import StudyNotFound

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = 2

_log = structlog.get_logger(__name__)


class Problem(Exception):
    """An answer that is an error. `errors` names every wrong field of a request."""

    def __init__(
        self,
        status: int,
        slug: str,
        title: str,
        detail: str = "",
        *,
        errors: Sequence[FieldProblem] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.status, self.slug, self.title, self.detail = status, slug, title, detail
        self.errors = errors
        self.headers = headers or {}
        super().__init__(detail or title)


class Unauthorized(Problem):
    """The request carries no token that is let in."""

    def __init__(self, detail: str) -> None:
        challenge = {"WWW-Authenticate": 'Bearer realm="hora"'}
        super().__init__(401, "unauthorized", "Not authenticated", detail, headers=challenge)


class Forbidden(Problem):
    """The token is good, but does not let its user do this."""

    def __init__(self, detail: str) -> None:
        super().__init__(403, "forbidden", "Not allowed", detail)


class BodyTooLarge(Problem):
    """The request's body has more bytes than any that makes sense."""

    def __init__(self) -> None:
        super().__init__(413, "body-too-large", "Body too large", f"a body may have {MAX_BYTES} bytes")


class UnsupportedBody(Problem):
    """The request's body is not of a media type that is read here."""

    def __init__(self, received: str | None, *allowed: str) -> None:
        detail = f"the body is {received or 'of no named type'}; send {' or '.join(allowed)}"
        super().__init__(415, "unsupported-media-type", "Unsupported media type", detail)


class Unavailable(Problem):
    """The database does not answer, or has not got the tables yet."""

    def __init__(self, detail: str) -> None:
        retry = {"Retry-After": str(RETRY_AFTER_S)}
        super().__init__(503, "unavailable", "Service unavailable", detail, headers=retry)


class Broken(Problem):
    """Hora is at fault. The cause is in the log, under the request's id, and never in the answer."""

    def __init__(self) -> None:
        super().__init__(500, "internal-error", "Internal error", "the log has the cause under the request's id")


def invalid(errors: Sequence[FieldProblem]) -> Problem:
    """422: the request is understood and wrong in these fields."""
    detail = "; ".join(f"{error.field or 'body'}: {error.message}" for error in errors)
    return Problem(422, "invalid-request", "Invalid request", detail, errors=errors)


def problem_of(error: Exception) -> Problem:
    """What an error means to the one who asked; `Broken` where it means nothing to them."""
    kinds = [kind for kind in type(error).__mro__ if kind in _MEANINGS]
    return _MEANINGS[kinds[0]](error) if kinds else Broken()


async def answer(request: Request, error: Exception) -> Response:
    """The response for an error, which is logged where Hora or its database is at fault."""
    problem = problem_of(error)
    if problem.status == 500:
        _log.error("request failed", exc_info=error)
    elif problem.status == 503:
        _log.warning("request refused", reason=problem.detail, error=str(error).partition("\n")[0])
    headers = dict(problem.headers)
    if problem.status == 405:
        headers["Allow"] = ", ".join(_methods_of(request)) or headers.get("Allow", "")
    return Response(_body(problem, request), problem.status, headers, MEDIA_TYPE)


def install(app: FastAPI) -> None:
    """Let `app` answer with problems. Anything not listed here is caught by `api.requests`."""
    for kind in _MEANINGS:
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


def _of_parameters(error: RequestValidationError) -> Problem:
    details = error.errors()
    for detail in details:
        if detail["loc"] in _NAMES:  # a malformed id is the id of no job
            return problem_of(_NAMES[detail["loc"]](detail["input"]))
    return invalid(
        [
            FieldProblem(
                field=".".join(map(str, detail["loc"][1:])),
                message=detail["msg"].removeprefix("Value error, "),
                received=None if detail["type"] == "missing" else str(detail["input"])[:80],
            )
            for detail in details
        ]
    )


def _of_status(error: HTTPException) -> Problem:
    title = http.HTTPStatus(error.status_code).phrase
    detail = error.detail if error.detail != title else ""
    slug = re.sub(r"[^a-z]+", "-", title.lower())
    return Problem(error.status_code, slug, title, detail, headers=error.headers)


def _of_database(error: SQLAlchemyError) -> Problem:
    cause = getattr(error, "orig", None)
    if isinstance(cause, (postgres.UndefinedTable, postgres.UndefinedColumn)):
        return Unavailable("the database is not migrated")
    if isinstance(error, (OperationalError, InterfaceError, PoolTimeout)):
        return Unavailable("the database does not answer")
    if isinstance(error, DataError):  # a text or number that no column can hold
        return Problem(422, "invalid-request", "Invalid request", "a value cannot be stored")
    return Broken()


_NAMES: dict[tuple[str, ...], type[LookupError]] = {
    ("path", "job_id"): JobNotFound,
    ("path", "study_id"): StudyNotFound,
    ("path", "name"): HostNotFound,
}
_MEANINGS: dict[type, Callable[[Any], Problem]] = {
    Problem: lambda error: error,
    InvalidSpec: lambda error: invalid(error.problems),
    UnworkablePlan: lambda error: invalid([FieldProblem(error.field, str(error))]),
    InvalidCursor: lambda error: invalid([FieldProblem("cursor", str(error))]),
    RequestValidationError: _of_parameters,
    JobNotFound: lambda error: Problem(404, "job-not-found", "Job not found", f"there is no job {error}"),
    StudyNotFound: lambda error: Problem(404, "study-not-found", "Study not found", f"there is no study {error}"),
    HostNotFound: lambda error: Problem(404, "host-not-found", "Host not found", f"there is no host {error}"),
    HostInUse: lambda error: Problem(409, "host-in-use", "Host is in use", str(error)),
    JobEnded: lambda error: Problem(409, "job-ended", "Job has ended", str(error)),
    IdempotencyConflict: lambda _: Problem(
        409, "idempotency-conflict", "Idempotency key in use", "this Idempotency-Key came before with another body"
    ),
    HTTPException: _of_status,
    ClientDisconnect: lambda _: Problem(400, "client-disconnected", "Client disconnected"),
    SQLAlchemyError: _of_database,
}


def _methods_of(request: Request) -> list[str]:
    """Methods of every route of the request's path: a router's own answer names those of one route only."""
    path = request.url.path
    routes = iter_route_contexts(request.app.routes)
    return sorted({method for route in routes if _has_path(route, path) for method in route.methods or ()})


def _has_path(route: object, path: str) -> bool:
    regex: re.Pattern[str] | None = getattr(route, "path_regex", None)
    return regex is not None and regex.match(path) is not None
