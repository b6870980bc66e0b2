"""A real server of an app, with real sockets, in a thread of the test; and free ports for other servers."""

import random
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import uvicorn
from fastapi import FastAPI

from api.serving.server import config_for
from jobs.runtime.settings import Settings
from tests.waiting import until


@contextmanager
def serving(app: FastAPI, configuration: Settings, **options: object) -> Iterator[int]:
    """The port of a server on loopback, as `python -m api` starts it. `options` are those of uvicorn."""
    config = config_for(app, configuration, **({"timeout_graceful_shutdown": 2} | options))
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0), backlog=256) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, name="api", daemon=True)
        thread.start()
        try:
            until(lambda: server.started, what="a server")
            yield listening.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join(120)
    assert not thread.is_alive()


def free_ports(among: range, count: int) -> list[int]:
    """Ports that nobody listens on now. Other processes of tests look for theirs elsewhere in the range."""
    found: list[int] = []
    for port in random.sample(among, len(among)):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("", port))
            found.append(port)
        if len(found) == count:
            return found
    raise OSError("no free ports")
