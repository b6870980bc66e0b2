"""The api behind its own server, on real sockets."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from api.main import app_for
from jobs.runtime.settings import Settings
from tests.integration.api.starting_rows import TOKEN
from tests.raw_http import RawConnection
from tests.servers import serving

Serve = Callable[..., int]
Connect = Callable[..., RawConnection]


@pytest.fixture
def serve(database: str, tmp_path: Path) -> Iterator[Serve]:
    """Starts a server with changes to the settings. Returns its port: `serve(headers_timeout_s=1)`."""
    with ExitStack() as servers:

        def start(*, forwarded_allow_ips: str = "127.0.0.1", **changes: object) -> int:
            settings = Settings(database_url=database, broker_url="memory://", token=TOKEN, home=tmp_path)
            settings = settings.model_copy(update=changes)
            return servers.enter_context(serving(app_for(settings), settings, forwarded_allow_ips=forwarded_allow_ips))

        yield start


@pytest.fixture
def port(serve: Serve) -> int:
    """The port of a server with the settings by default."""
    return serve()


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Opens connections that are closed after the test: `connect(port)`."""
    with ExitStack() as connections:

        def open_one(port: int, **options: object) -> RawConnection:
            return connections.enter_context(RawConnection(port, **options))  # type: ignore[arg-type]

        yield open_one
