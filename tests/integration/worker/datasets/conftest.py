"""A validator of host ha, and data that is registered for it."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jobs.data import uploads, versions
from jobs.db.engine import Sessions
from jobs.runtime.settings import Settings
from jobs.views.data import NewDataset, NewUpload
from tests.integration.worker.datasets.dataset_rows import Register
from worker.datasets.validator import Validator


@pytest.fixture
def settings(tmp_path: Path, database: str, broker: str) -> Settings:
    (tmp_path / "data").mkdir()
    return Settings(
        home=tmp_path, database_url=database, broker_url=broker, host_name="ha", data_roots=str(tmp_path / "data"),
        inspection_timeout_s=60, reconcile_period_s=0.05,
    )  # fmt: skip


@pytest.fixture
def validator(sessions: Sessions, settings: Settings) -> Validator:
    return Validator(sessions, settings)


@pytest.fixture
def registered(sessions: Sessions) -> Register:
    """Registers data under the name chips; says the id of the row."""

    def registered(**fields: Any) -> int:
        with sessions.begin() as session:
            return versions.register(session, NewDataset(name="chips", **fields), owner="ada").id

    return registered


@pytest.fixture
def uploaded(sessions: Sessions, settings: Settings, registered: Register) -> Register:
    """Puts an archive where the api does, whole, and registers it."""

    def uploaded(archive: bytes, filename: str = "chips.zip", **fields: Any) -> int:
        with sessions.begin() as session:
            new = NewUpload(filename=filename, size_bytes=len(archive))
            upload = uploads.start(session, new, owner="ada", most_open=5)
            uploads.advance(session, upload.id, offset=0, size_bytes=len(archive))
        path = settings.datasets / uploads.FOLDER / upload.id
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(archive)
        return registered(upload=upload.id, **fields)

    return uploaded


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
