"""Answers polls of unchanged jobs with 304 before FastAPI starts to route them. Middleware of `api.main`.

Most requests ask every second whether something changed, and mostly it has not. The check is part of one shared read.
FastAPI's routing and its dependencies would cost several times as much.
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
from api.polling.job_tags import JobTags
from jobs.model.scopes import Scope


@dataclass(frozen=True)
class PolledRoute:
    """A polled route with one id in its path. `tag` reads the tag that its answer has now."""

    path: str
    tag: Callable[[JobTags, str], Awaitable[str]]


class UnchangedPolls:
    """Answers a plain poll with 304 if nothing changed. Every other request is passed on."""

    def __init__(self, app: ASGIApp, polled: PolledRoute) -> None:
        self._app = app
        self._polled = polled
        self._path = re.compile(re.sub(r"\{\w+\}", "([0-9a-z]{1,32})", polled.path))

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        match = self._path.fullmatch(scope["path"]) if _is_plain(scope) else None
        if match is not None and await self._is_answered(scope, receive, send, match[1]):
            return
        await self._app(scope, receive, send)

    async def _is_answered(self, scope: Connection, receive: Receive, send: Send, resource_id: str) -> bool:
        request = Request(scope)
        if not (if_none_match := request.headers.get("if-none-match")):
            return False
        scope["route"] = self._polled  # requests are counted by route
        services: Services = request.app.state.services
        request.state.caller = caller = await caller_of(request, services)
        caller.require_scope(Scope.READ)
        tag = await self._polled.tag(services.job_tags, resource_id)
        if not is_known(tag, if_none_match):
            return False
        await unchanged(tag)(scope, receive, send)
        return True


def _is_plain(scope: Connection) -> bool:
    return scope["type"] == "http" and scope["method"] == "GET" and not scope["query_string"]
