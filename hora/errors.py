"""The errors of the client, which `hora` exports. Their text is for a person.

    HoraError                   every error of the client
    ├── ServiceUnavailable      the service gave no answer
    ├── UnexpectedAnswer        this client cannot read the service's answer
    ├── WaitTimeout             the job or the study had not ended when the time was over
    ├── JobFailed               the job failed or was cancelled; raised by `run`, and by `wait` with `check`
    │   └── ScriptFailed        the function that `run` called raised an exception that cannot be read here
    └── ProblemError            the service refused the request
        ├── NotAuthorized       401, 403
        ├── NotFound            404
        ├── Conflict            409
        │   └── QuotaExceeded   its project has used up a quota
        └── RateLimited         429

The text of a `ProblemError` is the service's own.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import httpx2 as httpx  # slow to import, and not needed to show an error

    from jobs.views.jobs import JobView

_QUOTA = "quota-exceeded"  # how the type of such a problem ends
AWAY = frozenset({502, 503, 504})  # the service, or what it needs for an answer, is away for now

Json = dict[str, Any]


class HoraError(Exception):
    """Every error of the client. The text is a sentence for a person."""


class ServiceUnavailable(HoraError):
    """The service gave no answer."""


class UnexpectedAnswer(HoraError):
    """This client cannot read the service's answer: one of the two is older than the other."""


class WaitTimeout(HoraError):
    """The job or the study had not ended when the time was over. `seen` is its last state, `noun` its kind."""

    def __init__(self, seen: Json, noun: str = "job") -> None:
        self.seen = seen
        self.noun = noun
        super().__init__(f"{noun} {seen['id']} is still {seen.get('status', 'running')}")


class JobFailed(HoraError):
    """The job failed, or was cancelled. `job` is its last state."""

    def __init__(self, job: "JobView") -> None:
        self.job = job
        how = f"{job.status} ({job.end_reason})" if job.end_reason not in (None, "cancelled") else f"{job.status}"
        what = job.error or (job.cause if job.status == "failed" else None)
        said = f"job {job.id} {how}" + (f": {what}" if what else "")
        super().__init__(f"{said.removesuffix('.')}. {job.remedy}" if job.remedy else said)


class ScriptFailed(JobFailed):
    """A function ended its process on rank 0, or raised an exception that cannot be read here (`traceback`)."""

    def __init__(self, job: "JobView", traceback: str) -> None:
        self.traceback = traceback
        super().__init__(job)


class ProblemError(HoraError):
    """The service refused the request. The answer has RFC 9457 problem details."""

    def __init__(
        self,
        status: int,
        title: str,
        detail: str | None = None,
        errors: list[Json] | None = None,
        *,
        type: str = "about:blank",  # noqa: A002 - what RFC 9457 calls it
        retry_after_s: float | None = None,
    ) -> None:
        self.status = status
        self.type = type
        self.title = title
        self.detail = detail
        self.errors = errors or []  # {field, message, ...} for each wrong field
        self.retry_after_s = retry_after_s  # when to send the request again, if the service says so
        super().__init__(f"{title}: {detail}" if detail else title)

    @property
    def is_away(self) -> bool:
        """Whether another try may get an answer."""
        return self.status in AWAY


class NotFound(ProblemError):
    """The thing does not exist."""


class NotAuthorized(ProblemError):
    """The token is missing, unknown, or not allowed to do this."""


class Conflict(ProblemError):
    """The request does not fit the present state."""


class QuotaExceeded(Conflict):
    """The project has used up a quota."""


class RateLimited(ProblemError):
    """The token has sent more requests than it may."""


_KINDS: dict[int, type[ProblemError]] = {
    401: NotAuthorized,
    403: NotAuthorized,
    404: NotFound,
    409: Conflict,
    429: RateLimited,
}


def problem_of(answer: "httpx.Response", retry_after_s: float | None = None) -> ProblemError:
    """The error for an answer of the service, with or without a problem document."""
    try:
        document = answer.json()
    except ValueError:
        document = None
    if not isinstance(document, dict):
        document = {}
    kind, problem_type = _KINDS.get(answer.status_code, ProblemError), str(document.get("type") or "about:blank")
    if kind is Conflict and problem_type.endswith(_QUOTA):
        kind = QuotaExceeded
    return kind(
        answer.status_code,
        document.get("title") or f"HTTP {answer.status_code} {answer.reason_phrase}",
        document.get("detail"),
        document.get("errors"),
        type=problem_type,
        retry_after_s=retry_after_s,
    )
