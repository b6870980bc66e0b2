"""Errors as RFC 9457 problems (`application/problem+json`). `api.problem_answers` writes them.

Problem                 an answer that is an error
├── Unauthorized        401
├── Forbidden           403
│   └── InsufficientScope   the token lacks the scope
├── BodyTooLarge        413
├── UnsupportedBody     415
├── TooManyRequests     429
├── TooManyStreams      429
├── Unavailable         503
├── StoreIsAway         503
└── Broken              500
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from jobs.model.problems import FieldProblem
from jobs.model.spec import MAX_BYTES

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = 2
_STORE_RETRY_AFTER_S = 5
_MOST_FIELDS = 50  # that an answer names


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
    """The request has no valid token. `error` is RFC 6750's code for a token that is not valid."""

    def __init__(self, detail: str, error: str | None = None) -> None:
        challenge = 'Bearer realm="hora"' + (f', error="{error}"' if error else "")
        super().__init__(401, "unauthorized", "Not authenticated", detail, headers={"WWW-Authenticate": challenge})


class Forbidden(Problem):
    """The token is valid, but its user may not do this."""

    def __init__(self, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(403, "forbidden", "Not allowed", detail, headers=headers)


class InsufficientScope(Forbidden):
    """The token is valid, but lacks the scope that this needs."""

    def __init__(self, needed: str, own: str) -> None:
        challenge = f'Bearer realm="hora", error="insufficient_scope", scope="{needed}"'
        detail = f"this needs a token with the scope {needed}; yours has {own}"
        super().__init__(detail, {"WWW-Authenticate": challenge})


class TooManyRequests(Problem):
    """This token or this address sends more requests than it may."""

    def __init__(self, detail: str, *, retry_after_s: int) -> None:
        pause_s = max(retry_after_s, 1)
        retry = {"Retry-After": str(pause_s)}
        super().__init__(429, "rate-limited", "Too many requests", f"{detail}; wait {pause_s} s", headers=retry)


class TooManyStreams(Problem):
    """The user has as many live streams open as allowed."""

    def __init__(self, user: str, most: int) -> None:
        detail = (
            f"{user} has {most} live streams open at all apis together, the most allowed for a user "
            "(HORA_MAX_STREAMS): close one and try again, or read pages instead of a stream"
        )
        retry = {"Retry-After": str(RETRY_AFTER_S)}
        super().__init__(429, "too-many-streams", "Too many live streams", detail, headers=retry)


class BodyTooLarge(Problem):
    """The request's body is larger than the limit."""

    def __init__(self, limit: int = MAX_BYTES) -> None:
        super().__init__(413, "body-too-large", "Body too large", f"a body may have at most {limit} bytes")


class UnsupportedBody(Problem):
    """The request's body has a media type that the route does not read."""

    def __init__(self, received: str | None, *allowed: str) -> None:
        detail = f"the body is {received or 'without a Content-Type'}; send {' or '.join(allowed)}"
        super().__init__(415, "unsupported-media-type", "Unsupported media type", detail)


class Unavailable(Problem):
    """The database does not answer, or is not migrated yet."""

    def __init__(self, detail: str) -> None:
        retry = {"Retry-After": str(RETRY_AFTER_S)}
        super().__init__(503, "unavailable", "Service unavailable", detail, headers=retry)


class StoreIsAway(Problem):
    """The store does not answer, or refuses. `why` has no credentials in it."""

    def __init__(self, why: str) -> None:
        retry = {"Retry-After": str(_STORE_RETRY_AFTER_S)}
        super().__init__(503, "store-away", "Store is away", f"the store is away: {why}", headers=retry)


class Broken(Problem):
    """A fault of Hora. The cause is in the log under the request's id, and never in the answer."""

    def __init__(self) -> None:
        super().__init__(
            500, "internal-error", "Internal error", "the service's log has the cause under the request_id"
        )


def invalid(errors: Sequence[FieldProblem]) -> Problem:
    """422: these fields are wrong. An answer names the first `_MOST_FIELDS` of them."""
    named_errors = [
        replace(error, field=_cut(error.field, 200), message=_cut(error.message, 2000))
        for error in errors[:_MOST_FIELDS]
    ]
    detail = "; ".join(f"{error.field or 'body'}: {error.message}" for error in named_errors)
    if len(errors) > _MOST_FIELDS:
        detail += f"; and {len(errors) - _MOST_FIELDS} more"
    return Problem(422, "invalid-request", "Invalid request", detail, errors=named_errors)


def _cut(text: str, limit: int) -> str:
    """A text of a request, cut so that no answer gets larger than its request."""
    return text if len(text) <= limit else text[: limit - 1] + "…"
