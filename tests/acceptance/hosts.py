"""Worker hosts on one machine, each with a network, a name, processes and files of its own. For acceptance tests.

    with Hosts(folder, ("ha", "hb"), {"HORA_LEASE_S": "10"}) as hosts:
        hosts.client.submit(...)
        hosts["hb"].cut()

Every host is a set of Linux namespaces with a worker in it. A bridge connects the hosts. The database and the broker
run outside. The hosts reach them through a forwarder on the bridge, so a host that is cut off reaches nothing. The
hosts share no storage; with `shared_runs` they share the files of jobs. Only root can do all this.

Nothing is left behind. Each process ends with the process that started it. Namespaces, links and mounts end with the
last process in them.
"""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import parse_qs, urlsplit

import pytest
import redis

from hora.service import Service
from hora.stack.control import Stack
from hora.stack.keys import make_keys
from jobs.runtime.processes import command_line, pids
from tests import namespaces
from tests.acceptance.forwarder import carry
from tests.namespaces import ALONE, ROOT, bridge, connect, run, running_process
from tests.unhurried import allowing
from tests.waiting import until
from worker.attempt.processes import pids_with_mark

_TOOLS = ("ssh", "ssh-keygen", "sshd")
HUB_IP = "10.77.0.254"
DATABASE_PORT, BROKER_PORT = 5432, 6379

# The first process of a host prepares the host. Then it reaps orphaned processes until its input ends.
_INIT = f"""
set -e
hostname "$1"
mount -t tmpfs tmpfs /run
mount --bind "$2" /etc/hosts
mount --bind "$3" "$4"
if [[ -n $5 ]]; then mkdir -p "$4/runs"; mount --bind "$5" "$4/runs"; fi
ip link set lo up
{namespaces.WAIT}
"""


def reason_to_skip() -> str | None:
    """Why this machine cannot run such hosts; None if it can."""
    return namespaces.reason_to_skip(_TOOLS)


@dataclass
class Host:
    """One worker host."""

    name: str
    ip: str
    folder: Path  # inside the host it is HORA_HOME
    pid: int  # its first process, as seen from outside
    hub_pid: int
    environment: Mapping[str, str]
    worker: "subprocess.Popen[bytes] | None" = None
    is_gone: bool = False

    @property
    def log(self) -> str:
        """The log of its worker."""
        return self.folder.with_suffix(".log").read_text(errors="replace")

    def start_worker(self) -> None:
        """Start its worker."""
        with self.folder.with_suffix(".log").open("ab") as log:
            self.worker = subprocess.Popen(
                [*self.inside(), sys.executable, "-m", "worker"],
                env={**os.environ, **self.environment},
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def inside(self) -> list[str]:
        """The words before a command that run it on this host."""
        return ["nsenter", "-t", str(self.pid), "-m", "-u", "-n", "-p", "--"]

    def lose(self) -> None:
        """Lose the host for good, with all that is on its disk."""
        self.is_gone = True
        os.kill(self.pid, signal.SIGKILL)
        if self.worker is not None:
            self.worker.wait(120)
        shutil.rmtree(self.folder)

    def cut(self) -> None:
        """Cut the host off from the network."""
        self._link("down")

    def mend(self) -> None:
        """Connect the host to the network again."""
        self._link("up")

    def pids_with_mark(self, mark: str) -> list[int]:
        """The processes of an attempt on this host, as seen from outside."""
        here = os.readlink(f"/proc/{self.pid}/ns/pid")
        return [pid for pid in pids_with_mark(mark) if _namespace_of(pid) == here]

    def running(self, part: str) -> list[int]:
        """The processes on this host whose command line holds `part`, as seen from outside."""
        here = os.readlink(f"/proc/{self.pid}/ns/pid")
        lines = {pid: b" ".join(command_line(pid)).decode(errors="replace") for pid in pids()}
        return [pid for pid, line in lines.items() if part in line and _namespace_of(pid) == here]

    def _link(self, state: str) -> None:
        run("nsenter", "-t", str(self.hub_pid), "-n", "ip", "link", "set", self.name, state)


@dataclass
class Hosts:
    """A stack whose workers run on hosts of their own, one slot each unless `environment` says otherwise.

    They may train the unhurried network.
    """

    folder: Path
    names: Sequence[str] = ("ha", "hb")
    environment: Mapping[str, str] = field(default_factory=dict)
    shared_runs: bool = False
    api_environment: Mapping[str, str] = field(default_factory=dict)
    sockets: Mapping[int, str] = field(default_factory=dict)  # what the hosts reach at more ports of HUB_IP
    _hosts: dict[str, Host] = field(default_factory=dict)
    _open: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Self:
        with ExitStack() as opened:
            self.folder.mkdir(parents=True, exist_ok=True)
            parts = ("database", "broker", "migrations", "api")
            with pytest.MonkeyPatch.context() as patch:
                for name, value in {**allowing(), **self.api_environment}.items():
                    patch.setenv(name, value)
                self.stack = opened.enter_context(Stack(self.folder / "stack", port=0, parts=parts))
            self.client = opened.enter_context(Service(self.stack.url, self.stack.token))
            self._give_hosts_a_broker_user()
            make_keys(self.folder / "keys")
            for folder in ("home", "runs"):
                (self.folder / folder).mkdir()
            hub = opened.enter_context(self._hub())
            for number, name in enumerate(self.names, start=1):
                self._hosts[name] = opened.enter_context(self._host(name, f"10.77.0.{number}", hub))
            for host in self._hosts.values():
                host.start_worker()
            until(self._all_known, what="the hosts")
            self._open = opened.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def __getitem__(self, name: str) -> Host:
        return self._hosts[name]

    def __iter__(self) -> Iterator[Host]:
        return iter(self._hosts.values())

    def _all_known(self) -> bool:
        for host in self._hosts.values():
            assert host.worker is None or host.worker.poll() is None, host.log
        known = {host["name"] for host in self.client.hosts() if host["address"] is not None}
        return known == set(self.names)

    def _give_hosts_a_broker_user(self) -> None:
        """Hosts reach the broker over a network, and there it wants a password. On its socket it wants none."""
        with redis.Redis(unix_socket_path=urlsplit(self.stack.broker_url).path) as broker:
            broker.acl_setuser(
                "hosts", enabled=True, passwords=["+password"], keys=["*"], channels=["*"], commands=["+@all"]
            )

    @contextmanager
    def _hub(self) -> Iterator[int]:
        """The network between the hosts, with the database and the broker on it; yields a process inside."""
        forwarder = [sys.executable, "-m", "tests.acceptance.forwarder", HUB_IP]
        database = parse_qs(urlsplit(self.stack.database_url).query)["host"][0]
        broker = urlsplit(self.stack.broker_url).path
        by_port = {DATABASE_PORT: f"{database}/.s.PGSQL.5432", BROKER_PORT: broker, **self.sockets}
        sockets = [f"{port}={path}" for port, path in by_port.items()]
        with running_process(bridge(*forwarder, *sockets, ip=HUB_IP)) as hub:
            yield hub.pid

    @contextmanager
    def _host(self, name: str, ip: str, hub_pid: int) -> Iterator[Host]:
        folder, home = self.folder / name, self.folder / "home"
        folder.mkdir()
        others = [f"10.77.0.{number} {other}" for number, other in enumerate(self.names, start=1)]
        table = self.folder / f"{name}.hosts"
        table.write_text("\n".join(["127.0.0.1 localhost", *others, ""]))
        runs = str(self.folder / "runs") if self.shared_runs else ""
        arguments = [name, str(table), str(folder), str(home), runs]
        with running_process([*ALONE, "bash", "-c", _INIT, "-", *arguments]) as holder:
            children = Path(f"/proc/{holder.pid}/task/{holder.pid}/children")
            pid = int(children.read_text().split()[0])
            connect(pid, hub_pid, port=name, ip=ip)
            host = Host(name, ip, folder, pid, hub_pid, self._environment(name))
            try:
                yield host
            finally:
                if not host.is_gone:
                    os.kill(pid, signal.SIGKILL)
                if host.worker is not None:
                    host.worker.wait(120)

    def _environment(self, name: str) -> dict[str, str]:
        return {
            **allowing({"PYTHONPATH": str(ROOT)}),
            "PYTHONUNBUFFERED": "1",
            "HORA_HOME": str(self.folder / "home"),
            "HORA_HOST_NAME": name,
            "HORA_SLOTS": "1",
            "HORA_NETWORK_INTERFACE": "eth0",
            "HORA_SSH_DIR": str(self.folder / "keys"),
            "HORA_DATABASE_URL": f"postgresql://hora@{HUB_IP}:{DATABASE_PORT}/hora",
            "HORA_BROKER_URL": f"redis://hosts:password@{HUB_IP}:{BROKER_PORT}/0",
            **self.environment,
        }


@contextmanager
def as_socket(port: int, path: Path) -> Iterator[None]:
    """Let a server on this machine's loopback be reached through a Unix socket, which no network namespace hides."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="as-socket", daemon=True)
    thread.start()

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            server_reader, server_writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(carry(reader, server_writer), carry(server_reader, writer))

    async def end(server: asyncio.Server) -> None:
        server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    server = asyncio.run_coroutine_threadsafe(asyncio.start_unix_server(connect, path), loop).result(10)
    try:
        yield
    finally:
        asyncio.run_coroutine_threadsafe(end(server), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def _namespace_of(pid: int) -> str | None:
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return None
