"""All routes of the app, and the scope that each needs. For tests that check every route."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from fastapi import FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.routing import iter_route_contexts

from jobs.model.scopes import Scope

OPEN = {"/", "/healthz", "/readyz", "/metrics", "/openapi.json", "/docs", "/docs/{name}", "/redoc"}
OPEN |= {"/help", "/help/", "/help/{path:path}"}
LOGIN = {"/login", "/logout"}  # a browser without a token requests these; tested in test_login
SAFE = {"GET", "HEAD", "OPTIONS"}


@dataclass(frozen=True)
class GuardedRoute:
    """A route below /v1 that needs a token."""

    name: str
    method: str
    path: str  # with a value for each parameter
    guards: frozenset[str]  # the names of its dependencies

    @property
    def needs(self) -> Scope:
        """The scope that the token must have, by the route's dependencies. Fails for a route without a guard."""
        if "_admin" in self.guards:
            return Scope.ADMIN
        if "_coder" in self.guards:
            return Scope.CODE
        if "_any_token" in self.guards:
            return Scope.READ
        assert "_reader_or_submitter" in self.guards, f"{self.method} {self.path} is not made by api.callers.router"
        return Scope.READ if self.method in SAFE else Scope.SUBMIT


def closed_routes(app: FastAPI) -> Iterator[GuardedRoute]:
    """All routes except the public ones."""
    for route in iter_route_contexts(app.routes):
        assert route.path is not None
        for method in sorted(route.methods or ()):
            if route.path not in OPEN | LOGIN:
                dependant: Dependant | None = getattr(route, "dependant", None)
                path = re.sub(r"\{[^}]*\}", "0", route.path)
                yield GuardedRoute(str(route.name), method, path, frozenset(_names(dependant)))


def _names(dependant: Dependant | None) -> Iterator[str]:
    for dependency in dependant.dependencies if dependant is not None else ():
        yield getattr(dependency.call, "__name__", "")
        yield from _names(dependency)
