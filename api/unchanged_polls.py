"""Polls that end before FastAPI begins, with 304: the caller has the answer already.

Most of what clients ask, every second, is whether something changed, and mostly it has not. To find that out takes a
part of one read; to find out in FastAPI's way which route is meant, and what it takes, costs several times as much.
"""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as Connection

from api.callers import caller_of
from api.deps import Services
from api.polling.entity_tags import is_known, unchanged
from api.polling.job_polls import Polls
from jobs.model.scopes import Scope


@dataclass(frozen=True)
class Polled:
    """A route that is polled, with one id in its path, and the tag that its answer would have now."""

    path: str
    tag: Callable[[Polls, str], Awaitable[str]]


class ShortAnswers:
    """Answers a plain poll of what has not changed. All else goes on: what changed, queries, ids that are none."""

    def __init__(self, app: ASGIApp, polled: Polled) -> None:
        self._app = app
        self._polled = polled
        self._path = re.compile(re.sub(r"\{\w+\}", "([0-9a-z]{1,32})", polled.path))

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        found = self._path.fullmatch(scope["path"]) if _is_plain(scope) else None
        if found is not None and await self._is_answered(scope, receive, send, found[1]):
            return
        await self._app(scope, receive, send)

    async def _is_answered(self, scope: Connection, receive: Receive, send: Send, key: str) -> bool:
        request = Request(scope)
        if not (if_none_match := request.headers.get("if-none-match")):
            return False
        scope["route"] = self._polled  # by which it is counted
        services: Services = request.app.state.services
        request.state.caller = caller = await caller_of(request, services)
        caller.require_scope(Scope.READ)
        tag = await self._polled.tag(services.polls, key)
        if not is_known(tag, if_none_match):
            return False
        await unchanged(tag)(scope, receive, send)
        return True


def _is_plain(scope: Connection) -> bool:
    return scope["type"] == "http" and scope["method"] == "GET" and not scope["query_string"]
