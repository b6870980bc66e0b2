"""All routes of the app that need a token. For tests that check every route."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from fastapi import FastAPI
from fastapi.routing import iter_route_contexts

OPEN = {"/", "/healthz", "/readyz", "/metrics", "/openapi.json", "/docs", "/docs/{name}", "/redoc"}
OPEN |= {"/help", "/help/", "/help/{path:path}"}
LOGIN = {"/login", "/logout"}  # a browser without a token requests these; tested in test_login


@dataclass(frozen=True)
class GuardedRoute:
    """A route below /v1 that needs a token."""

    method: str
    path: str  # with a value for each parameter


def closed_routes(app: FastAPI) -> Iterator[GuardedRoute]:
    """All routes except the public ones."""
    for route in iter_route_contexts(app.routes):
        assert route.path is not None
        for method in sorted(route.methods or ()):
            if route.path not in OPEN | LOGIN:
                yield GuardedRoute(method, re.sub(r"\{[^}]*\}", "0", route.path))
