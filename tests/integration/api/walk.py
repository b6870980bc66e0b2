"""The routes of the app, one after the other, and what each needs: for the tests that hold for all of them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from fastapi import FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.routing import iter_route_contexts

from jobs.model.scopes import Scope

OPEN = {"/", "/healthz", "/readyz", "/metrics", "/openapi.json", "/docs", "/docs/oauth2-redirect", "/redoc"}
OPEN |= {"/help", "/help/", "/help/{path:path}"}
LOGIN = {"/login", "/logout"}  # what a browser without a token asks for; tested in test_login
SAFE = {"GET", "HEAD", "OPTIONS"}


@dataclass(frozen=True)
class Walked:
    """A route below /v1 that needs a token."""

    name: str
    method: str
    path: str  # with something for its parameters
    guards: frozenset[str]  # the names of what it depends on

    @property
    def needs(self) -> Scope:
        """The scope that its token must have, as its dependencies say. A KeyError for a route without any."""
        if "_admin" in self.guards:
            return Scope.ADMIN
        if "_anybody" in self.guards:
            return Scope.READ
        assert "_reader_or_submitter" in self.guards, f"{self.method} {self.path} is not made by api.callers.router"
        return Scope.READ if self.method in SAFE else Scope.SUBMIT


def closed_routes(app: FastAPI) -> Iterator[Walked]:
    """All routes but those that are open to everybody."""
    for route in iter_route_contexts(app.routes):
        assert route.path is not None
        for method in sorted(route.methods or ()):
            if route.path not in OPEN | LOGIN:
                dependant: Dependant | None = getattr(route, "dependant", None)
                path = re.sub(r"\{[^}]*\}", "0", route.path)
                yield Walked(str(route.name), method, path, frozenset(_names(dependant)))


def _names(dependant: Dependant | None) -> Iterator[str]:
    for one in dependant.dependencies if dependant is not None else ():
        yield getattr(one.call, "__name__", "")
        yield from _names(one)
