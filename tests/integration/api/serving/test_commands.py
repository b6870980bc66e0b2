"""The commands that start the api, as processes."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2

from tests.integration.api.starting_rows import TOKEN
from tests.waiting import until


@contextmanager
def running(database: str, log: Path, *argv: str, files: tuple[int, ...] = ()) -> Iterator[subprocess.Popen[bytes]]:
    """A process of the api, which is ended in the end."""
    environment = os.environ | {"HORA_DATABASE_URL": database, "HORA_BROKER_URL": "memory://", "HORA_TOKEN": TOKEN}
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, *argv], env=environment, stdout=output, stderr=output, pass_fds=files
        )
    try:
        yield process
    finally:
        process.terminate()
        assert process.wait(120) is not None


def wait_for_start(log: Path) -> None:
    until(lambda: "Uvicorn running on" in log.read_text(), what="a server that listens")


def test_the_api_listens_on_a_unix_socket(database: str, short_folder: Path, tmp_path: Path) -> None:
    path, log = str(short_folder / "api"), tmp_path / "log"
    with running(database, log, "-m", "api", "--uds", path):
        wait_for_start(log)
        with httpx2.Client(transport=httpx2.HTTPTransport(uds=path)) as client:
            assert client.get("http://api/healthz").status_code == 200
    assert "without limits" not in log.read_text()


def test_a_port_in_use_is_a_failure(database: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        with running(database, log, "-m", "api", "--port", port) as process:
            assert process.wait(120) == 3
    assert "address already in use" in log.read_text()
    assert "Traceback" not in log.read_text()
