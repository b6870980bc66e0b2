"""What all integration tests share."""

from collections.abc import Iterator

import pytest
from fastapi import FastAPI
from starlette.routing import BaseRoute

from api import main


@pytest.fixture(scope="session", autouse=True)
def _routes_made_once() -> Iterator[None]:
    """Let the apps of this process share their routes, which know no settings. To make them takes most of a test."""
    add_routes, made = main._add_routes, list[BaseRoute]()

    def add(app: FastAPI) -> None:
        if made:
            app.router.routes.extend(made)
            return
        of_fastapi = len(app.router.routes)
        add_routes(app)
        made.extend(app.router.routes[of_fastapi:])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(main, "_add_routes", add)
        yield
