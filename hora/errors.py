"""The errors of the client, as `hora.service` names them to everybody else. Their text is for a person."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import httpx2 as httpx  # which takes its time to import, and is not needed to say what went wrong

Json = dict[str, Any]


class HoraError(Exception):
    """Every error of the client. The text is a sentence for a person."""


class ServiceUnavailable(HoraError):
    """The service gave no answer."""


class WaitTimeout(HoraError):
    """The job or the study had not ended when the time was over; `seen` is how it was then, `noun` which it is."""

    def __init__(self, seen: Json, noun: str = "job") -> None:
        self.seen = seen
        self.noun = noun
        super().__init__(f"{noun} {seen['id']} is still {seen.get('status', 'running')}")


class ProblemError(HoraError):
    """The service said no, as RFC 9457 problem details."""

    def __init__(self, status: int, title: str, detail: str | None = None, errors: list[Json] | None = None) -> None:
        self.status = status
        self.title = title
        self.detail = detail
        self.errors = errors or []  # {field, message, ...} for each wrong field
        super().__init__(f"{title}: {detail}" if detail else title)


class NotFound(ProblemError):
    """There is no such thing."""


class NotAuthorized(ProblemError):
    """The token is missing, unknown, or not allowed to do this."""


def problem_of(answer: "httpx.Response") -> ProblemError:
    """The error that an answer of the service is, whether it is a problem document or not."""
    try:
        document = answer.json()
    except ValueError:
        document = None
    if not isinstance(document, dict):
        document = {}
    kind = {401: NotAuthorized, 403: NotAuthorized, 404: NotFound}.get(answer.status_code, ProblemError)
    title = document.get("title") or f"HTTP {answer.status_code} {answer.reason_phrase}"
    return kind(answer.status_code, title, document.get("detail"), document.get("errors"))
