"""Asks the app directly, as a server does: a stream is left once its status is known."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from fastapi import FastAPI

HOST, CLIENT = "hora.test", "192.0.2.1"


class Reply(NamedTuple):
    """The answer to a request."""

    status: int
    headers: Mapping[str, str]
    body: str

    @property
    def verdict(self) -> str:
        """The status, and for a problem its type: `200`, `403 forbidden`."""
        if self.headers.get("content-type") != "application/problem+json":
            return str(self.status)
        return f"{self.status} {json.loads(self.body)['type'].removeprefix('urn:hora:problem:')}"


async def ask(app: FastAPI, method: str, address: str, headers: Mapping[str, str], body: bytes) -> Reply:
    """Send a request; returns the answer."""
    path, _, query = address.partition("?")
    fields = {"host": HOST, "content-length": str(len(body)), **headers}
    scope = {
        "type": "http", "http_version": "1.1", "method": method, "scheme": "http", "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(), "root_path": "", "client": (CLIENT, 1), "server": (HOST, 80),
        "headers": [(name.lower().encode(), value.encode()) for name, value in fields.items()],
    }  # fmt: skip
    messages: list[dict[str, Any]] = []
    has_body, is_left = True, asyncio.Event()

    async def receive() -> dict[str, Any]:
        nonlocal has_body
        if has_body:
            has_body = False
            return {"type": "http.request", "body": body, "more_body": False}
        await is_left.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        messages.append(message)
        if b"text/event-stream" in dict(message.get("headers", ())).get(b"content-type", b""):
            is_left.set()

    await app(scope, receive, send)  # type: ignore[arg-type]
    is_left.set()
    start = messages[0]
    content = b"".join(message.get("body", b"") for message in messages[1:])
    answered = {name.decode(): value.decode("latin-1") for name, value in start["headers"]}
    return Reply(start["status"], answered, content.decode("utf-8", "replace"))
