"""A host with keys and a server for ssh on loopback. For tests of the server, and of ranks that ssh starts."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hora.stack.keys import make_keys
from jobs.runtime.settings import Settings
from tests.waiting import until
from worker.host import sshd
from worker.host.inventory import Endpoint
from worker.host.ssh import SshUnusable, find_sshd, prepare
from worker.host.sshd import Sshd


def settings_with_keys(home: Path, keys: Path, host_name: str) -> Settings:
    """The settings of a host with keys and a port of its own."""
    try:
        find_sshd()
    except SshUnusable as reason:
        pytest.skip(str(reason))
    make_keys(keys)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    return Settings(home=home, host_name=host_name, ssh_dir=keys, ssh_port=port)


@contextmanager
def serving_ssh(settings: Settings) -> Iterator[Sshd]:
    """A running server for ssh with these settings."""

    def on_loopback(settings: Settings) -> Endpoint:
        prepare(settings)
        return Endpoint("127.0.0.1", "127.0.0.1", "lo")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sshd, "find_endpoint", on_loopback)
        server = Sshd(settings)
        server.start()
        until(lambda: server.endpoint is not None, what="a server for ssh")
        yield server
        server.stop()
        server.join()
        for connection in server.connections:
            connection.wait(120)
