"""The api on a real server with real sockets, because a client in memory cannot stream."""

import socket
import threading
from collections.abc import Callable, Iterator

import pytest
import uvicorn
from fastapi import FastAPI

from api.main import app_for
from hora.service import Service
from jobs.db.engine import Sessions
from jobs.runtime.settings import Settings
from tests.integration.live.reading import Reader
from tests.waiting import until

TOKEN = "hora_live-token"


@pytest.fixture
def app(database: str) -> FastAPI:
    return app_for(Settings(database_url=database, broker_url="memory://", token=TOKEN))


@pytest.fixture
def url(app: FastAPI) -> Iterator[str]:
    """Address of a server of the api on this test's own database."""
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=1))
    with socket.create_server(("127.0.0.1", 0), backlog=256) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, name="api")
        thread.start()
        try:
            until(lambda: server.started, what="a server")
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(120)
    assert not thread.is_alive()


@pytest.fixture
def service(url: str) -> Iterator[Service]:
    with Service(url, TOKEN) as service:
        yield service


@pytest.fixture
def job_id(service: Service, sessions: Sessions) -> str:
    """A queued job."""
    spec = {"dataset": "digits", "batch_size": 64, "learning_rate": 0.001, "gpus": 2}
    return str(service.submit(spec)["id"])


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
