"""Requests to a service and its answers: what is sent again, pages, problems. The ground of `hora.service`."""

import time
from collections.abc import Iterator, Mapping
from typing import Any, cast
from urllib.parse import quote

import httpx2 as httpx

from hora.errors import HoraError, Json, ServiceUnavailable, problem_of

RETRY_AFTER_S = (0.1, 0.3, 1.0)  # pauses after a request that got no answer


class Transport:
    """Connections to one service. A request that got no answer is sent again when it only reads, or with `again`."""

    def __init__(self, url: str, token: str | None, timeout_s: float, transport: httpx.BaseTransport | None) -> None:
        headers = {"Accept": "application/json", "User-Agent": "hora-client"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        self.url = url.rstrip("/")
        self._http = httpx.Client(base_url=self.url, headers=headers, timeout=timeout_s, transport=transport)

    def document(self, method: str, path: str, *, again: bool = False, **request: Any) -> Json:
        """The JSON object that a request is answered with."""
        return _object(self.send(method, path, again=again, **request))

    def items(self, path: str, key: str, query: Mapping[str, Any] | None = None) -> list[Json]:
        """A list that an answer has below `key`."""
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
        """The object at `path` and its tag; None for the object that has the tag already."""
        answer = self.send("GET", path, headers={"If-None-Match": etag} if etag else {})
        return (None, etag) if answer.status_code == 304 else (_object(answer), answer.headers.get("ETag"))

    def send(
        self, method: str, path: str, *, again: bool = False, params: Mapping[str, Any] | None = None, **request: Any
    ) -> httpx.Response:
        """The answer to a request; of its parameters those that are not None are sent."""
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
            except UnicodeError as error:  # a name from the command line whose bytes are no text
                raise HoraError("What was asked is not text in UTF-8.") from error
        if answer.status_code >= 400:
            raise problem_of(answer)
        return answer

    def close(self) -> None:
        """Close the connections."""
        self._http.close()


def at(*parts: str) -> str:
    """The path of a thing below /v1; whatever a part holds, it stays one part."""
    return "/v1/" + "/".join(quote(part, safe="", errors="replace") for part in parts)


def _object(answer: httpx.Response) -> Json:
    try:
        document = answer.json()
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise HoraError(f"{answer.url} is not a Hora service: it answers with no JSON object")
    return document


def _reason(error: Exception) -> str:
    return str(error).rstrip(".") or type(error).__name__
