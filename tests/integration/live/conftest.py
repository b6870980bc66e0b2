"""The api on a real server with real sockets, because a client in memory cannot stream."""

from collections.abc import Callable, Iterator

import pytest
from fastapi import FastAPI

from hora.service import Service
from jobs.db.engine import Sessions
from jobs.runtime.settings import Settings
from tests.integration.api.starting_rows import SPEC, TOKEN
from tests.integration.live.reading import Reader
from tests.servers import serving


@pytest.fixture
def url(app: FastAPI, configuration: Settings) -> Iterator[str]:
    """Address of a server of the api on this test's own database."""
    with serving(app, configuration, timeout_graceful_shutdown=1) as port:
        yield f"http://127.0.0.1:{port}"


@pytest.fixture
def service(url: str) -> Iterator[Service]:
    with Service(url, TOKEN) as service:
        yield service


@pytest.fixture
def job_id(service: Service, sessions: Sessions) -> str:
    """A queued job."""
    return str(service.submit(SPEC)["id"])


@pytest.fixture
def start_reader(url: str) -> Iterator[Callable[..., Reader]]:
    """Starts readers of streams: `start_reader("/v1/jobs/ID/events", "include=logs", after="ID of an event")`."""
    readers: list[Reader] = []

    def start(path: str, query: str = "", *, after: str | None = None, token: str = TOKEN) -> Reader:
        readers.append(Reader(f"{url}{path}?{query}", token, after))
        return readers[-1]

    yield start
    for reader in readers:
        reader.leave()
