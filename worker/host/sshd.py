"""The door for the stack's other hosts: accepts their ssh connections, and gives each to an `sshd -i` of its own.

A thread of the worker. It listens itself, so that no server process is left when the worker dies, none has to be
watched, and the next worker finds the port free. A connection outlives the worker, as the jobs do that it is for.
"""

import logging
import os
import socket
import subprocess

from jobs.runtime.settings import Settings
from worker.host.inventory import Endpoint, find_endpoint
from worker.host.ssh import SshUnusable, files_of, find_sshd
from worker.periodic import PeriodicThread

_log = logging.getLogger(__name__)

_MOST_CONNECTIONS = 512  # one for each rank and member here; sshd itself ends those that do not log in
_RETRY_S = 5.0
_PERIOD_S = 1.0  # between two looks for connections that ended


class Sshd(PeriodicThread):
    """Serves until it is stopped; what keeps it from serving is tried again every few seconds.

    `endpoint` is where other hosts reach this one, None while they cannot; `connections` has one process for each.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__("sshd", period_s=_RETRY_S, rests_first=False)
        self.endpoint: Endpoint | None = None
        self._settings = settings
        self._argv: list[str] = []
        self.connections: list[subprocess.Popen[bytes]] = []
        self._last_logged = ""

    def once(self) -> None:
        """Let other hosts in until a stop. Keys and addresses may come later than the worker.

        After a stop nobody is let in. The connections that are there go on.
        """
        try:
            endpoint = find_endpoint(self._settings)
            self._argv = [find_sshd(), "-i", "-e", "-f", str(files_of(self._settings).server_config)]
            if os.geteuid() == 0:
                os.makedirs("/run/sshd", mode=0o755, exist_ok=True)  # sshd of root gives its rights up in there
            with socket.create_server((endpoint.ip, self._settings.ssh_port)) as listener:
                self._log_news(
                    logging.INFO, f"accepting connections of other hosts at {endpoint.ip}:{self._settings.ssh_port}"
                )
                self.endpoint = endpoint
                listener.settimeout(_PERIOD_S)
                self._serve(listener)
        except (SshUnusable, OSError) as reason:
            self._log_news(logging.WARNING, f"no jobs on several hosts here: {reason}")
        finally:
            self.endpoint = None

    def _log_news(self, level: int, message: str) -> None:
        """Log a message, unless it was the last one too."""
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
                env={"PATH": os.defpath},  # nothing of the worker's: what is in there are secrets
                cwd="/",
                stdin=connection.fileno(),
                stdout=connection.fileno(),
                start_new_session=True,  # a worker that ends leaves it alone
            )
        except OSError as error:
            _log.error("sshd cannot be started: %s", error)
        else:
            self.connections.append(process)
