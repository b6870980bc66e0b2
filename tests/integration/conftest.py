"""What all integration tests share."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI
from starlette.routing import BaseRoute

from api import main
from api.pages import help_pages, page
from jobs.runtime.hints import Hints
from jobs.runtime.settings import Settings
from tests.integration.api.starting_rows import TOKEN


@pytest.fixture
def configuration(database: str) -> Settings:
    return Settings(database_url=database, broker_url="memory://", token=TOKEN)


@pytest.fixture
def app(configuration: Settings) -> FastAPI:
    return main.app_for(configuration)


@pytest.fixture(scope="session", autouse=True)
def _routes_made_once() -> Iterator[None]:
    """Let the apps of this process share their routes: to make them takes most of a test.

    Routes know no settings, but the folders of the pages that they serve.
    """
    add_routes, made = main._add_routes, dict[tuple[Path, Path], list[BaseRoute]]()

    def add(app: FastAPI) -> None:
        folders = (page.FOLDER, help_pages.FOLDER)
        if folders in made:
            app.router.routes.extend(made[folders])
            return
        of_fastapi = len(app.router.routes)
        add_routes(app)
        made[folders] = app.router.routes[of_fastapi:]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(main, "_add_routes", add)
        yield


@pytest.fixture
def hints(broker: str) -> Iterator[Hints]:
    hints = Hints(broker)
    yield hints
    hints.close()
