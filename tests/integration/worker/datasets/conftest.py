"""A validator of host ha, and data that is registered for it."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.db.engine import Sessions
from jobs.runtime.settings import Settings
from tests.integration.worker.datasets.dataset_rows import Desk
from worker.datasets.validator import Validator


@pytest.fixture
def settings(tmp_path: Path, database: str, broker: str) -> Settings:
    (tmp_path / "data").mkdir()
    return Settings(
        home=tmp_path, database_url=database, broker_url=broker, host_name="ha", data_roots=str(tmp_path / "data"),
        inspection_timeout_s=60, reconcile_period_s=0.05,
    )  # fmt: skip


@pytest.fixture
def desk(sessions: Sessions, settings: Settings) -> Desk:
    return Desk(sessions, settings, Validator(sessions, settings))


@pytest.fixture
def silent_server() -> Iterator[str]:
    """A web server's address that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        connections: list[socket.socket] = []

        def hold() -> None:
            while True:
                try:
                    connections.append(server.accept()[0])
                except OSError:
                    return

        threading.Thread(target=hold, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        for connection in connections:
            connection.close()
