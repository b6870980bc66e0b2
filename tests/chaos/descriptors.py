"""Uses up the file descriptors of a running process: its limit becomes what it has open, and a little more."""

import os
import resource
import socket
from collections.abc import Callable
from contextlib import ExitStack, suppress
from urllib.parse import urlsplit

from jobs.runtime.processes import ProcessId, descendants

_SPARE = 8


def take_descriptors(process: ProcessId, *, spare: int = 0) -> Callable[[], None]:
    """Let the process open only `spare` more files. Returns the way back.

    Processes that it starts meanwhile inherit the limit, so they get it back as well.
    """
    soft, hard = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
    open_now = len(os.listdir(f"/proc/{process.pid}/fd"))
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (min(open_now + spare, hard), hard))

    def give_back() -> None:
        for pid in [process.pid, *descendants(process.pid)] if process.is_alive else []:
            with suppress(ProcessLookupError):
                resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))

    return give_back


def connect_until_full(process: ProcessId, url: str) -> Callable[[], None]:
    """Take the last descriptors of a server by connections that send nothing. Returns the way back."""
    give_back, address = take_descriptors(process, spare=_SPARE), urlsplit(url)
    connections = ExitStack()
    for _ in range(2 * _SPARE):
        with suppress(OSError):
            connections.enter_context(socket.create_connection((address.hostname, address.port), timeout=1))

    def let_go() -> None:
        give_back()
        connections.close()

    return let_go
