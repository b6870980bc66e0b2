"""The Python client of a Hora service, over HTTP.

    with Client(url, token) as client:
        job = client.submit({"dataset": "digits", "batch_size": 64, "learning_rate": 0.001, "gpus": 2})
        job = client.wait(job["id"])

Jobs and all other answers are the API's own JSON, as dicts. Errors:

    HoraError
      ServiceUnavailable    no answer: nothing listens there, or it went away
      ProblemError          the service said no: `status`, `title`, `detail`, and `errors` by field
        NotFound            404
        NotAuthorized       401 or 403
      WaitTimeout           the job has not ended yet
"""

import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast
from urllib.parse import quote
from uuid import uuid4

import httpx2 as httpx

from hora.errors import (
    HoraError,
    Json,
    NotAuthorized,
    NotFound,
    ProblemError,
    ServiceUnavailable,
    WaitTimeout,
    problem_of,
)

if TYPE_CHECKING:
    from jobs.spec import Spec

__all__ = [
    "Client", "HoraError", "Json", "NotAuthorized", "NotFound", "ProblemError", "ServiceUnavailable", "WaitTimeout",
]  # fmt: skip

ENDED = frozenset({"succeeded", "failed", "cancelled"})
AWAY_LIMIT_S = 60.0  # for how long `wait` bears a service that gives no answer
RETRY_AFTER_S = (0.1, 0.3, 1.0)  # pauses after a request that got no answer


class Client:
    """A connection to one service. Close it, or use it as a context manager; it may be shared by threads.

    A request that got no answer is sent again when that is safe: it only reads, or it carries a key by which
    the service knows it again. Every method raises `ServiceUnavailable` and `ProblemError`.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout_s: float = 30.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        headers = {"Accept": "application/json", "User-Agent": "hora-client"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        self.url = url.rstrip("/")
        self._http = httpx.Client(base_url=self.url, headers=headers, timeout=timeout_s, transport=transport)

    def submit(self, spec: "Spec | Mapping[str, Any]", *, idempotency_key: str | None = None) -> Json:
        """Submit a spec and return its job. The same key gives the same job again; without one it gets its own."""
        key = {"Idempotency-Key": idempotency_key or uuid4().hex}
        return self._object("POST", "/v1/jobs", json=_document(spec), headers=key, again=True)

    def dry_run(self, spec: "Spec | Mapping[str, Any]") -> Json:
        """What the spec comes to; nothing is stored."""
        return self._object("POST", "/v1/jobs", json=_document(spec), params={"dry_run": "true"}, again=True)

    def job(self, job_id: str) -> Json:
        """One job: spec, plan, status, end_reason, progress, summary."""
        return self._object("GET", f"/v1/jobs/{_segment(job_id)}")

    def jobs(
        self,
        *,
        status: str | None = None,
        label: str | None = None,
        name: str | None = None,
        paused: bool | None = None,
        sort: str | None = None,
        page_size: int = 100,
    ) -> Iterator[Json]:
        """All jobs that match, newest first, fetched page by page as they are consumed. `label` is `key:value`."""
        filters = {
            "status": status, "label": label, "name": name, "paused": paused, "sort": sort, "limit": page_size,
        }  # fmt: skip
        yield from self._pages("/v1/jobs", filters)

    def cancel(self, job_id: str) -> Json:
        """Ask for the job's end; it comes within seconds. Asking twice does no harm."""
        return self._object("POST", f"/v1/jobs/{_segment(job_id)}/cancel", again=True)

    def pause(self, job_id: str) -> Json:
        """Let the job wait in the queue; a running one saves and goes back there. Asking twice does no harm."""
        return self._object("POST", f"/v1/jobs/{_segment(job_id)}/pause", again=True)

    def resume(self, job_id: str) -> Json:
        """Let a paused job go on. Asking twice does no harm."""
        return self._object("POST", f"/v1/jobs/{_segment(job_id)}/resume", again=True)

    def clone(
        self, job_id: str, changes: Mapping[str, Any] | None = None, *, idempotency_key: str | None = None
    ) -> Json:
        """Submit the job's spec once more with `changes` (nested like the spec) laid over it."""
        key = {"Idempotency-Key": idempotency_key or uuid4().hex}
        path = f"/v1/jobs/{_segment(job_id)}/clone"
        return self._object("POST", path, json=dict(changes or {}), headers=key, again=True)

    def metrics(
        self, job_id: str, *, name: str | None = None, axis: str | None = None, max_points: int | None = None
    ) -> list[Json]:
        """Series `{name, rank, x, y}`; rank -1 is over all ranks. `axis` is step, epoch or time."""
        query = {"name": name, "axis": axis, "max_points": max_points}
        return _items(self._object("GET", f"/v1/jobs/{_segment(job_id)}/metrics", params=query), "series")

    def utilization(self, job_id: str, *, metric: str | None = None, max_points: int | None = None) -> Json:
        """The samples of the slots that the job had."""
        query = {"metric": metric, "max_points": max_points}
        return self._object("GET", f"/v1/jobs/{_segment(job_id)}/utilization", params=query)

    def logs(
        self,
        job_id: str,
        *,
        rank: int | None = None,
        tail: int | None = None,
        after: int | None = None,
        limit: int | None = None,
    ) -> Json:
        """Log lines `{items: [{id, at, attempt, rank, text}], next_after}`; rank -1 is the launcher.

        `after` gives the lines that follow that id, `tail` only the last ones.
        """
        query = {"rank": rank, "tail": tail, "after": after, "limit": limit}
        return self._object("GET", f"/v1/jobs/{_segment(job_id)}/logs", params=query)

    def events(self, job_id: str) -> list[Json]:
        """The job's history, oldest first."""
        return list(self._pages(f"/v1/jobs/{_segment(job_id)}/events", {}))

    def attempts(self, job_id: str) -> list[Json]:
        """The launches of the job, oldest first."""
        return list(self._pages(f"/v1/jobs/{_segment(job_id)}/attempts", {}))

    def hosts(self) -> list[Json]:
        """The hosts and their slots."""
        return list(self._pages("/v1/hosts", {}))

    def host(self, name: str) -> Json:
        """One host and its slots."""
        return self._object("GET", f"/v1/hosts/{_segment(name)}")

    def drain(self, name: str, *, requeue: bool = False) -> Json:
        """Place nothing new on the host; with `requeue` the jobs there save and go elsewhere."""
        return self._object("POST", f"/v1/hosts/{_segment(name)}/drain", json={"requeue": requeue}, again=True)

    def undrain(self, name: str) -> Json:
        """Let jobs be placed on the host again."""
        return self._object("POST", f"/v1/hosts/{_segment(name)}/undrain", again=True)

    def forget_host(self, name: str) -> None:
        """Remove a host that is lost; it registers anew if it comes back."""
        self._send("DELETE", f"/v1/hosts/{_segment(name)}")

    def is_ready(self) -> bool:
        """Whether the service answers and can serve requests. Raises only `ServiceUnavailable`."""
        try:
            self.readiness()
        except ProblemError:
            return False
        return True

    def readiness(self) -> Json:
        """How the service's database, its schema and the broker are; a `ProblemError` where it is not ready."""
        return self._object("GET", "/readyz")

    def clock(self) -> datetime:
        """The service's time, to the second."""
        return parsedate_to_datetime(self._send("GET", "/healthz").headers["Date"])

    def wait(
        self,
        job_id: str,
        *,
        on_update: Callable[[Json], None] | None = None,
        timeout_s: float | None = None,
        period_s: float = 0.5,
    ) -> Json:
        """Return the job when it has ended, whatever way. Raises `WaitTimeout`.

        `on_update` gets the job whenever it has changed, its end included. A service that goes away for less
        than a minute is waited for.
        """
        begun = last_seen = time.monotonic()
        etag: str | None = None
        job: Json = {"id": job_id, "status": "unknown"}
        while True:
            try:
                headers = {"If-None-Match": etag} if etag else {}
                answer = self._send("GET", f"/v1/jobs/{_segment(job_id)}", headers=headers)
                last_seen = time.monotonic()
            except HoraError as error:
                away = isinstance(error, ServiceUnavailable) or (
                    isinstance(error, ProblemError) and error.status >= 500
                )
                if not away or time.monotonic() - last_seen > AWAY_LIMIT_S:
                    raise
            else:
                if answer.status_code != 304:
                    etag, job = answer.headers.get("ETag"), _object(answer)
                    if on_update is not None:
                        on_update(job)
                    if job["status"] in ENDED:
                        return job
            if timeout_s is not None and time.monotonic() - begun > timeout_s:
                raise WaitTimeout(job)
            time.sleep(period_s)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _object(self, method: str, path: str, *, again: bool = False, **request: Any) -> Json:
        return _object(self._send(method, path, again=again, **request))

    def _pages(self, path: str, query: Mapping[str, Any]) -> Iterator[Json]:
        cursor: str | None = None
        while True:
            page = self._object("GET", path, params={**query, "cursor": cursor})
            yield from _items(page, "items")
            cursor = page.get("next_cursor")
            if cursor is None:
                return

    def _send(
        self, method: str, path: str, *, again: bool = False, params: Mapping[str, Any] | None = None, **request: Any
    ) -> httpx.Response:
        query = {name: value for name, value in (params or {}).items() if value is not None}
        pauses = RETRY_AFTER_S if method == "GET" or again else ()
        for pause in (*pauses, None):
            try:
                answer = self._http.request(method, path, params=query, **request)
                break
            except (httpx.TransportError, httpx.InvalidURL) as error:
                if pause is None or not isinstance(error, httpx.TransportError):
                    raise ServiceUnavailable(f"{self.url} gives no answer ({_reason(error)})") from error
                time.sleep(pause)
        if answer.status_code >= 400:
            raise problem_of(answer)
        return answer


def _object(answer: httpx.Response) -> Json:
    try:
        document = answer.json()
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise HoraError(f"{answer.url} is not a Hora service: it answers with no JSON object")
    return document


def _items(document: Json, key: str) -> list[Json]:
    return cast("list[Json]", document.get(key, []))


def _document(spec: "Spec | Mapping[str, Any]") -> Json:
    """What is sent: of a `Spec` only what was set, so that the service's own defaults hold for the rest."""
    return dict(spec) if isinstance(spec, Mapping) else spec.model_dump(mode="json", exclude_unset=True)


def _segment(text: str) -> str:
    return quote(text, safe="")


def _reason(error: Exception) -> str:
    return str(error).rstrip(".") or type(error).__name__
