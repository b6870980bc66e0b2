"""Requests to a service and its answers: retries, pages, problems. All of `hora.service` uses it."""

import random
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, cast
from urllib.parse import quote

import httpx2 as httpx

from hora.errors import AWAY, HoraError, Json, ServiceUnavailable, UnexpectedAnswer, problem_of
from hora.sign_in import require_address, require_token

PAUSES_S = (
    0.1,
    0.3,
    1.0,
)  # before a request is sent again; up to half as much is added by chance, so that clients spread
LONGEST_PAUSE_S = 10.0  # a service that asks for a longer pause is an error at once
_NOT_MODIFIED = 304
_RATE_LIMITED = 429  # nothing was done: any request may be sent again
_STREAM = "text/event-stream"
_QUIET_S = 40.0  # the service writes to a stream at least every fifteen seconds


class Transport:
    """Connections to one service. Threads may share them. Redirects are not followed.

    A request without an answer, or with 502, 503 or 504, is sent again if that is safe: it only reads, or it is
    `repeatable`. A request that was answered with 429 is always sent again, when the service says.
    """

    def __init__(self, url: str, token: str | None, timeout_s: float, transport: httpx.BaseTransport | None) -> None:
        require_address(url)
        headers = {"Accept": "application/json", "User-Agent": "hora-client"}
        if token:
            require_token(token)
            headers["Authorization"] = f"Bearer {token}"
        self.url = url.rstrip("/")
        self._http = httpx.Client(
            base_url=self.url, headers=headers, timeout=timeout_s, transport=transport, verify=_needs_certificates(url)
        )

    def document(self, method: str, path: str, *, repeatable: bool | None = None, **request: Any) -> Json:
        """The JSON object in the answer to a request."""
        return _object(self.send(method, path, repeatable=repeatable, **request))

    def items(self, path: str, key: str, query: Mapping[str, Any] | None = None) -> list[Json]:
        """The list that an answer has below `key`."""
        return cast("list[Json]", self.document("GET", path, params=query).get(key, []))

    def pages(self, path: str, query: Mapping[str, Any] | None = None) -> Iterator[Json]:
        """The items of all pages of a list, fetched as they are consumed."""
        cursor: str | None = None
        while True:
            page = self.document("GET", path, params={**(query or {}), "cursor": cursor})
            yield from cast("list[Json]", page.get("items", []))
            cursor = page.get("next_cursor")
            if cursor is None:
                return

    def newer(self, path: str, etag: str | None) -> tuple[Json | None, str | None]:
        """The object at `path` and its tag. None instead of the object if it still has the given tag."""
        answer = self.send("GET", path, headers={"If-None-Match": etag} if etag else {})
        return (None, etag) if answer.status_code == _NOT_MODIFIED else (_object(answer), answer.headers.get("ETag"))

    def send(
        self,
        method: str,
        path: str,
        *,
        repeatable: bool | None = None,
        params: Mapping[str, Any] | None = None,
        **request: Any,
    ) -> httpx.Response:
        """The answer to a request. Parameters that are None are not sent."""
        query = {name: value for name, value in (params or {}).items() if value is not None}
        safe = method == "GET" if repeatable is None else repeatable
        for pause in (*PAUSES_S, None):
            answer = self._attempt(method, path, last=pause is None or not safe, params=query, **request)
            retry_after_s = None if answer is None else _retry_after_s(answer)
            if answer is not None:
                try_later = answer.status_code == _RATE_LIMITED or (safe and answer.status_code in AWAY)
                if pause is None or not try_later or (retry_after_s or 0) > LONGEST_PAUSE_S:
                    break
            if pause is not None:
                time.sleep(max(pause, retry_after_s or 0) + random.uniform(0, pause / 2))  # noqa: S311 - no secret
        assert answer is not None
        # Following a redirect would take the token to another address. 304 counts as one for httpx.
        if answer.is_redirect and answer.status_code != _NOT_MODIFIED:
            raise ServiceUnavailable(f"{answer.url} redirects to {answer.headers.get('Location')}: use that address")
        if answer.status_code >= 400:
            raise problem_of(answer, retry_after_s)
        return answer

    def _attempt(self, method: str, path: str, *, last: bool, **request: Any) -> httpx.Response | None:
        """The answer to one try of a request. Without an answer: None, or an error if it was the last try."""
        try:
            return self._http.request(method, path, **request)
        except (httpx.TransportError, httpx.InvalidURL) as error:
            if last or not isinstance(error, httpx.TransportError):
                raise ServiceUnavailable(f"{self.url} gives no answer ({_reason(error)})") from error
            return None
        except UnicodeError as error:  # a name from the command line that is not text
            raise HoraError("The request contains a name that is not text in UTF-8.") from error

    @contextmanager
    def stream(
        self, path: str, params: Mapping[str, Any], last_event_id: str | None
    ) -> Iterator[Iterator[httpx.ServerSentEvent] | None]:
        """The events of a live stream, from its start or after one of them. None if that one was the last.

        Nothing is sent again: a broken stream is `ServiceUnavailable`, and the caller knows where to continue.
        """
        headers = {"Accept": _STREAM} | ({"Last-Event-ID": last_event_id} if last_event_id else {})
        query = {name: value for name, value in params.items() if value is not None}
        timeout = httpx.Timeout(_QUIET_S, connect=10.0)
        try:
            with self._http.stream("GET", path, params=query, headers=headers, timeout=timeout) as answer:
                if answer.status_code >= 400:
                    answer.read()
                    raise problem_of(answer, _retry_after_s(answer))
                if answer.status_code != 204 and not answer.headers.get("Content-Type", "").startswith(_STREAM):
                    raise UnexpectedAnswer(f"{self.url} has no live streams: the service is older than this client")
                yield None if answer.status_code == 204 else iter(httpx.EventSource(answer))
        except (httpx.TransportError, httpx.InvalidURL) as error:
            raise ServiceUnavailable(f"{self.url} gives no answer ({_reason(error)})") from error

    @contextmanager
    def download(self, path: str, headers: Mapping[str, str]) -> Iterator[httpx.Response]:
        """An answer whose body the caller reads. A body that breaks off is `ServiceUnavailable`."""
        all_headers = {"Accept": "*/*", "Accept-Encoding": "identity", **headers}
        try:
            with self._http.stream("GET", path, headers=all_headers) as answer:
                if answer.status_code >= 400:
                    answer.read()
                    raise problem_of(answer, _retry_after_s(answer))
                yield answer
        except (httpx.TransportError, httpx.InvalidURL) as error:
            raise ServiceUnavailable(f"{self.url} gives no answer ({_reason(error)})") from error

    def close(self) -> None:
        """Close the connections."""
        self._http.close()


class NoName(HoraError):
    """The text cannot be the name or the id of anything: it would be lost in a path, or lead to another one."""


def api_path(*parts: str) -> str:
    """A path below /v1. Each part is quoted, so it stays one part. Raises `NoName`, `TypeError`."""
    for part in parts:
        if not isinstance(part, str):
            raise TypeError(f"a name or an id is a text, not {part!r:.200}")
        if part in ("", ".", ".."):
            raise NoName(f"{part!r} is no name and no id of anything.")
    return "/v1/" + "/".join(quote(part, safe="", errors="replace") for part in parts)


def _needs_certificates(url: str) -> bool:
    """Whether the certificates that are trusted have to be loaded, which takes 50 ms; http:// has no use for them."""
    return not url.lower().startswith("http://")


def _object(answer: httpx.Response) -> Json:
    try:
        document = answer.json()
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise UnexpectedAnswer(f"{answer.url} is not a Hora service: its answer is not a JSON object")
    return document


def _retry_after_s(answer: httpx.Response) -> float | None:
    """When to send again. RFC 9110 allows seconds, or a date."""
    header = answer.headers.get("Retry-After", "")
    if header.isdecimal():
        return float(header)
    try:
        return max((parsedate_to_datetime(header) - datetime.now(UTC)).total_seconds(), 0)
    except (TypeError, ValueError):  # none, or nonsense
        return None


def _reason(error: Exception) -> str:
    return str(error).rstrip(".") or type(error).__name__
