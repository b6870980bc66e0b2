"""The database of a stage: a primary and a standby on this machine, each an embedded PostgreSQL with its own clock.

The standby has every transaction before it is confirmed (synchronous replication). `switch_over` kills the primary for
good and promotes the standby. The old primary comes back as the new standby. A server that is killed otherwise starts
again, as a service manager would start it.
"""

import os
import shutil
import signal
import subprocess
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psycopg

from hora.home import Home
from hora.stack import postgres
from hora.stack.processes import wait_ended
from jobs.runtime.processes import ProcessId, descendants
from tests.chaos.clocks import Clock
from tests.waiting import until

_START_AGAIN_S = 0.2
_RETRY_S = 0.5
_HELD = ("setpriv", "--pdeathsig", "KILL", "--")  # the server ends with this process


class Server(threading.Thread):
    """One PostgreSQL. The thread starts it again when it ends, until it is abandoned."""

    def __init__(self, embedded: postgres.Embedded, clock: Clock, log: Path) -> None:
        super().__init__(name=f"server {embedded.data.parent.name}", daemon=True)
        self.embedded = embedded
        self.clock = clock
        self._log = log
        self._abandoned = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    @property
    def name_of_host(self) -> str:
        """The name of its host, for reports."""
        return self.embedded.data.parent.name

    @property
    def processes(self) -> list[ProcessId]:
        """The server and its backends, the server first."""
        pid = 0 if self._process is None else self._process.pid
        candidates = [ProcessId.of(each) for each in (pid, *descendants(pid))] if pid else []
        return [process for process in candidates if process is not None]

    def run(self) -> None:
        """Start the server, and again when it ends."""
        while True:
            with self._lock, self._log.open("ab") as log:
                if self._abandoned.is_set():
                    return
                self._process = subprocess.Popen(
                    [*_HELD, *self.embedded.argv()],
                    env=self.embedded.environment() | self.clock.environment,
                    cwd="/",
                    user=self.embedded.uid,
                    group=self.embedded.gid,
                    extra_groups=[] if self.embedded.uid is not None else None,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            self._process.wait()
            self._abandoned.wait(_START_AGAIN_S)

    def abandon(self) -> None:
        """Kill it and its backends, and do not start it again."""
        with self._lock:
            self._abandoned.set()
            processes = self.processes
        for process in processes:
            process.signal(signal.SIGKILL)
        self.join()
        wait_ended(processes, 30)

    def connect(self) -> psycopg.Connection:
        """A connection to this server, whether it is the primary or not."""
        return psycopg.connect(self.embedded.url, autocommit=True, connect_timeout=2)


class DatabasePair:
    """A primary and its standby. `url` always leads to the primary."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stopped = threading.Event()
        self._is_whole = threading.Event()  # the standby has all that the primary confirmed
        self._rebuild: threading.Thread | None = None
        home = Home.at(folder / "a")
        home.create()
        embedded = postgres.prepare(home, folder / "a" / "sockets")
        (folder / "b").mkdir(mode=0o711)
        folder.chmod(0o755)
        beside = replace(embedded, data=folder / "b" / "postgres", sockets=folder / "b" / "sockets")
        self._made_folder(beside.sockets, beside)
        self.primary = Server(embedded, Clock(folder / "a" / "clock"), folder / "a.log")
        self._second = (beside, Clock(folder / "b" / "clock"))

    @property
    def url(self) -> str:
        """The address of both; a client finds the one that takes writes."""
        hosts = ",".join(str(self._folder / name / "sockets") for name in ("a", "b"))
        return (
            f"postgresql://{postgres.ROLE}@/{postgres.DATABASE}?host={hosts}&port=5432&target_session_attrs=read-write"
        )

    def start(self) -> None:
        """Start both, and wait until the standby follows."""
        self.primary.start()
        until(self._primary_is_ready, what="the primary")
        self.standby = self._standby(*self._second)
        until(self._is_whole.is_set, what="the standby")

    def stop(self) -> None:
        """End both."""
        self._stopped.set()
        if self._rebuild is not None:
            self._rebuild.join()
        for server in (self.standby, self.primary):
            server.abandon()

    def switch_over(self) -> str:
        """Kill the primary for good and promote the standby. Returns what happened."""
        if not self._is_whole.is_set():
            return "there is no standby yet"
        self._is_whole.clear()
        old, new = self.primary, self.standby
        old.abandon()  # before the other one takes writes: two primaries would part for ever
        with new.connect() as connection:
            connection.execute("SELECT pg_promote()")
        self.primary = new
        self.standby = self._standby(old.embedded, old.clock)
        return f"{old.name_of_host} died, {new.name_of_host} is the primary"

    def _primary_is_ready(self) -> bool:
        with suppress(psycopg.OperationalError):
            self.primary.embedded.prepare_database()
            return True
        return False

    def _standby(self, embedded: postgres.Embedded, clock: Clock) -> Server:
        """A server that becomes the standby in the background."""
        server = Server(embedded, clock, self._folder / f"{embedded.data.parent.name}.log")
        self._rebuild = threading.Thread(target=self._build, args=(self.primary, server), name="rebuild", daemon=True)
        self._rebuild.start()
        return server

    def _build(self, primary: Server, standby: Server) -> None:
        while not self._copied(primary.embedded, standby.embedded):
            if self._stopped.wait(_RETRY_S):
                return
        standby.start()
        while not self._follows(primary):
            if self._stopped.wait(_RETRY_S):
                return
        self._is_whole.set()

    def _copied(self, primary: postgres.Embedded, standby: postgres.Embedded) -> bool:
        """Copy the primary's data. False if it did not answer."""
        shutil.rmtree(standby.data, ignore_errors=True)
        self._made_folder(standby.data, standby)
        argv = [
            str(primary.binaries / "pg_basebackup"), "--host", str(primary.sockets), "--port", "5432", "--username",
            postgres.ROLE, "--pgdata", str(standby.data), "--write-recovery-conf", "--checkpoint", "fast",
        ]  # fmt: skip
        done = subprocess.run(
            argv, env=primary.environment(), cwd="/", user=primary.uid, group=primary.gid, check=False,
            extra_groups=[] if primary.uid is not None else None, capture_output=True, timeout=120,
        )  # fmt: skip
        if done.returncode:
            return False
        with (standby.data / "postgresql.auto.conf").open("a") as file:
            file.write("synchronous_standby_names = ''\n")  # promoted, it must not wait for a standby that is gone
        return True

    @staticmethod
    def _follows(primary: Server) -> bool:
        """Whether the standby has all that the primary confirmed; the primary is set to wait for it."""
        with suppress(psycopg.OperationalError), primary.connect() as connection:
            connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            connection.execute("SELECT pg_reload_conf()")
            row = connection.execute("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'").fetchone()
            return row is not None and row[0] == 1
        return False

    @staticmethod
    def _made_folder(folder: Path, embedded: postgres.Embedded) -> None:
        folder.mkdir(mode=0o700, exist_ok=True)
        if embedded.uid is not None and embedded.gid is not None:
            os.chown(folder, embedded.uid, embedded.gid)
