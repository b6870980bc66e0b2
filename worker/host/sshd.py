"""The ssh server for the stack's other hosts: accepts their connections, and starts an `sshd -i` for each.

A thread of the worker. It listens itself, so that there is no server process to watch, none is left when the worker
dies, and the next worker finds the port free. Connections outlive the worker, because their jobs do.
"""

import logging
import os
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

from jobs.runtime.files import make_private
from jobs.runtime.settings import Settings
from worker.host.inventory import Endpoint, find_endpoint
from worker.host.ssh import SshUnusable, files_of, find_sshd
from worker.periodic import PeriodicThread

_log = logging.getLogger(__name__)

_MOST_CONNECTIONS = 512  # one for each rank and member here; sshd itself ends those that do not log in
_RETRY_S = 5.0
_PERIOD_S = 1.0  # between two looks for connections that ended


class Sshd(PeriodicThread):
    """Serves until it is stopped. If it cannot serve, it tries again every few seconds.

    `endpoint` is the address for other hosts, None while they cannot reach this one; `on_change` is called after it
    changed. `connections` has one process for each connection.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__("sshd", period_s=_RETRY_S, rests_first=False)
        self.endpoint: Endpoint | None = None
        self.on_change: Callable[[], None] = lambda: None
        self._settings = settings
        self._argv: list[str] = []
        self.connections: list[subprocess.Popen[bytes]] = []
        self._last_logged = ""

    def once(self) -> None:
        """Accept other hosts until a stop. Keys and addresses may appear after the worker's start.

        After a stop no new connection is accepted. The present connections go on.
        """
        try:
            endpoint = find_endpoint(self._settings)
            self._argv = [find_sshd(), "-i", "-e", "-f", str(files_of(self._settings).server_config)]
            if os.geteuid() == 0:
                make_private(Path("/run/sshd"))  # root's sshd needs this folder to drop its privileges
            with socket.create_server((endpoint.ip, self._settings.ssh_port)) as listener:
                self._log_news(
                    logging.INFO, f"accepting connections of other hosts at {endpoint.ip}:{self._settings.ssh_port}"
                )
                self._reachable_at(endpoint)
                listener.settimeout(_PERIOD_S)
                self._serve(listener)
        except (SshUnusable, OSError) as reason:
            self._log_news(logging.WARNING, f"no jobs on several hosts here: {reason}")
        finally:
            self._reachable_at(None)

    def _reachable_at(self, endpoint: Endpoint | None) -> None:
        if endpoint != self.endpoint:
            self.endpoint = endpoint
            self.on_change()

    def _log_news(self, level: int, message: str) -> None:
        """Log a message, unless it equals the last one."""
        if message != self._last_logged:
            self._last_logged = message
            _log.log(level, "%s", message, extra={"host": self._settings.host})

    def _serve(self, listener: socket.socket) -> None:
        while not self.stopped.is_set():
            try:
                connection, (host, *_) = listener.accept()
            except TimeoutError:
                connection = None
            self.connections = [process for process in self.connections if process.poll() is None]
            if connection is None:
                continue
            with connection:
                if len(self.connections) < _MOST_CONNECTIONS:
                    self._hand_over(connection)
                else:
                    _log.error("a connection from %s is refused: there are %d already", host, _MOST_CONNECTIONS)

    def _hand_over(self, connection: socket.socket) -> None:
        connection.settimeout(None)
        try:
            process = subprocess.Popen(
                self._argv,
                env={"PATH": os.defpath},  # nothing of the worker's environment, which has secrets
                cwd="/",
                stdin=connection.fileno(),
                stdout=connection.fileno(),
                start_new_session=True,  # so that it does not end with the worker
            )
        except OSError as error:
            _log.error("sshd cannot be started: %s", error)
        else:
            self.connections.append(process)
