"""The keeper: the process that starts the parts of one stack, keeps them alive, and stops them.

`hora up` runs it in the foreground; `hora up -d` and the tests run it as `python -m hora.stack.keeper`. It owns the
home's lock for as long as it lives, and writes what it does to the home's state file.
"""

import argparse
import errno
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

from hora.home import StackError, State, cannot_write, write_private
from hora.stack import parts, postgres
from hora.stack.parts import LOOPBACK, PARTS, Part, Wiring, teardown
from hora.stack.settings import StackSettings, stack_settings
from jobs.runtime.files import PRIVATE_UMASK, size_text
from jobs.runtime.processes import ProcessId
from jobs.runtime.space import is_full

ALREADY_RUNNING = 3  # exit code: another keeper has the home
READY_WITHIN_S = 180.0  # a worker with GPUs first asks TensorFlow, for two minutes at most
BACKOFF_S = (0.2, 10.0)  # first and longest pause before a part is started again
SETTLED_S = 30.0  # a part that lived for so long starts again without a pause
STOP_SIGNALS = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
NEARLY_FULL_BYTES, NEARLY_FULL_FILES = 32 * 1024 * 1024, 16  # PostgreSQL needs 16 MB at once, for its log
LOG_LIMIT_BYTES = 16 * 1024 * 1024


class _StopRequested(Exception):
    """A stop signal came, or the process that this one shall not outlive ended."""


@dataclass
class _Running:
    part: Part
    process: subprocess.Popen[bytes]
    started_at: float
    failures: int = 0
    start_again_at: float | None = None


@dataclass
class Keeper:
    """Keeps one stack. `say` gets a line for everything that happens."""

    settings: StackSettings
    say: Callable[[str], None]
    goes_with: int | None = None  # a descriptor; the stack stops when it ends
    when_ready: Callable[[], None] = lambda: None
    state: State = field(default_factory=State)
    running: dict[str, _Running] = field(default_factory=dict)
    is_noted: bool = True  # the state is on disk
    wake: int = -1

    def run(self) -> int:
        """Start the stack and keep it until told to stop; returns 0 or `ALREADY_RUNNING`. Raises `StackError`."""
        self.settings.home.create()  # the folders above it are not Hora's: they get the modes of the person
        os.umask(PRIVATE_UMASK)
        self.wake = _wake_on_signals()
        with self.settings.home.lock(patience_s=0.5) as ours:
            if not ours:
                return ALREADY_RUNNING
            failure = None
            try:
                self._clear_leftovers()
                self._start_all()
                self._keep()
            except _StopRequested:
                pass
            except (StackError, OSError) as error:
                failure = str(error)
                if isinstance(error, OSError) and error.errno == errno.EROFS:
                    failure = str(cannot_write(self.settings.home.path, error))
            self._stop_all(failure)
            if failure:
                raise StackError(failure)
            return 0

    def _clear_leftovers(self) -> None:
        """Stop the processes of a keeper that was killed. Then this one is the only keeper of these parts."""
        left = self.settings.home.read_state()
        self._note(keeper=ProcessId.of(os.getpid()), phase="starting", parts=left.parts)
        if any(process.is_alive for process in left.parts.values()):
            self.say("an earlier stack was not stopped; stopping its processes")
        teardown(self.settings.home, left.parts, self.say)
        self._note(parts={})

    def _start_all(self) -> None:
        settings, deadline = self.settings, time.monotonic() + READY_WITHIN_S
        port = _free_port(settings.port) if "api" in settings.parts else settings.port
        runtime = settings.home.runtime_folder()
        first, database_url, broker_url = [], settings.database_url, settings.broker_url
        if database_url is None and "database" in settings.parts:
            self._note(phase="preparing the database")
            server = postgres.prepare(settings.home, runtime / "postgres")
            database_url = server.url
            first.append(parts.database(server))
        if broker_url is None and "broker" in settings.parts:
            broker_url = f"redis+socket://{runtime}/broker.sock"
            first.append(parts.broker(runtime / "broker.sock"))
        wiring = Wiring(
            settings.home,
            port,
            settings.slots,
            settings.home.token(settings.token),
            database_url or "",
            broker_url or "",
        )
        self._note(
            database_url=database_url, broker_url=broker_url, url=wiring.url if "api" in settings.parts else None
        )
        self._start(first, deadline)
        if "migrations" in settings.parts:
            self._start([parts.migrations(wiring)], deadline)
        last = [parts.api(wiring)] if "api" in settings.parts else []
        last += [parts.worker(wiring, with_api=bool(last))] if "worker" in settings.parts else []
        self._start(last, deadline)
        if "api" in settings.parts:
            write_private(settings.home.url_file, wiring.url + "\n")
        self._note(phase="ready")
        self.say(f"ready at {wiring.url}" if "api" in settings.parts else "ready")
        self.when_ready()

    def _start(self, group: Sequence[Part], deadline: float) -> None:
        """Start `group` together and wait until each part is ready, or has ended if it is meant to end."""
        for part in group:
            self._spawn(part)
        for part in group:
            self._note(phase=f"starting {part.name}")
            while True:
                code = self.running[part.name].process.poll()
                if part.ends and code == 0:
                    del self.running[part.name]
                    self._note(parts={name: process for name, process in self.state.parts.items() if name != part.name})
                    break
                if code is not None:
                    raise StackError(self._report(part, f"ended with code {code}"))
                if not part.ends and part.is_ready():
                    break
                if time.monotonic() > deadline:
                    raise StackError(self._report(part, f"is not ready after {READY_WITHIN_S:.0f} s"))
                self._pause(0.05)

    def _keep(self) -> None:
        """Start parts that ended again, until a stop is requested."""
        while True:
            now = time.monotonic()
            pauses = [1.0]
            if not self.is_noted:
                self._note()
            for running in self.running.values():
                code = running.process.poll()
                if code is None:
                    continue
                if running.start_again_at is None:
                    pause = _pause_before(running, lived_s=now - running.started_at)
                    running.start_again_at = now + pause
                    why = self._full_disk(running.part)
                    self.say(f"{running.part.name} ended with code {code}{why}; starting it again in {pause:.1f} s")
                if now >= running.start_again_at:
                    self._spawn(running.part, failures=running.failures)
                else:
                    pauses.append(running.start_again_at - now)
            self._pause(min(pauses))

    def _spawn(self, part: Part, failures: int = 0) -> None:
        log = self.settings.home.log_file(part.name)
        with _opened_log(log) as output:
            process = subprocess.Popen(
                part.argv,
                env=dict(part.environment),
                cwd=part.directory,
                user=part.uid,
                group=part.gid,
                extra_groups=[] if part.uid is not None else None,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self.running[part.name] = _Running(part, process, time.monotonic(), failures)
        process_id = ProcessId.of(process.pid)
        if process_id is not None:
            self._note(parts=self.state.parts | {part.name: process_id})
        self.say(f"{part.name} started, pid {process.pid}")

    def _stop_all(self, failure: str | None) -> None:
        self._note(phase="stopping")
        done = teardown(self.settings.home, self.state.parts, self.say)
        for running in self.running.values():
            running.process.wait(5)
        phase = "failed" if failure else "stopped"
        self.state = replace(self.state, phase=phase, failure=failure, stopped=tuple(done), parts={})
        self.settings.home.note_stop(self.state)

    def _note(self, **changes: object) -> None:
        """Change the state, on disk too. If that has no space, the stack goes on and it is written later."""
        self.state = replace(self.state, **changes)  # type: ignore[arg-type]
        try:
            self.settings.home.write_state(self.state)
        except OSError as error:
            if not is_full(error):
                raise
            self.is_noted = False
        else:
            self.is_noted = True

    def _full_disk(self, part: Part) -> str:
        """Why a part may have ended, in words to follow others: empty unless its disk is nearly full."""
        folder = self.settings.home.path / ("postgres" if part.name == "database" else "logs")
        with suppress(OSError):
            status = os.statvfs(folder)
            free_bytes = status.f_bavail * status.f_frsize
            if free_bytes < NEARLY_FULL_BYTES or (status.f_files and status.f_favail < NEARLY_FULL_FILES):
                return f" (its disk has only {size_text(free_bytes)} and {status.f_favail} files free: {folder})"
        return ""

    def _pause(self, seconds: float) -> None:
        """Wait until the time is over or a signal comes. The end of a part sends one."""
        watched = [self.wake] if self.goes_with is None else [self.wake, self.goes_with]
        ready, _, _ = select.select(watched, [], [], seconds)
        if self.goes_with in ready and os.read(self.goes_with, 1024) == b"":
            raise _StopRequested
        if self.wake in ready and STOP_SIGNALS & set(os.read(self.wake, 1024)):
            raise _StopRequested

    def _report(self, part: Part, problem: str) -> str:
        log = self.settings.home.log_file(part.name)
        problem += self._full_disk(part)
        return "\n".join([f"{part.name} {problem}. The end of {log}:", *last_lines(log)])


def _opened_log(log: Path) -> BinaryIO:
    """The log of a part, to append. On a full disk nothing that it writes is kept."""
    try:
        if log.exists() and log.stat().st_size > LOG_LIMIT_BYTES:
            log.rename(log.with_suffix(".log.1"))
        return open(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "wb")
    except OSError as error:
        if not is_full(error):
            raise
        return open(os.devnull, "wb")


def _pause_before(running: _Running, *, lived_s: float) -> float:
    running.failures = 0 if lived_s > SETTLED_S else running.failures + 1
    first, longest = BACKOFF_S
    return min(first * 2.0 ** max(running.failures - 1, 0), longest)


def _free_port(port: int) -> int:
    """`port` itself, or any free port for 0. Raises `StackError` when it is taken."""
    with closing(socket.socket()) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the api's server does
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            raise StackError(f"Port {port} on {LOOPBACK} is taken ({error.strerror}); set HORA_PORT.") from error
        bound_port: int = probe.getsockname()[1]
        return bound_port


def last_lines(path: Path, count: int = 15) -> list[str]:
    """The last lines of a text file; none if it does not exist."""
    try:
        with path.open(errors="replace") as file:
            return [line.rstrip("\n") for line in deque(file, count)]
    except OSError:
        return []


def _wake_on_signals() -> int:
    """Make the signals of a stop and SIGCHLD readable, a byte each, from the returned descriptor."""
    read, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    for number in (*STOP_SIGNALS, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    return read


def main() -> int:
    """`python -m hora.stack.keeper`: the home, the port and the rest come from the environment, as for `hora up`."""
    parser = argparse.ArgumentParser(prog="python -m hora.stack.keeper")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--goes-with-stdin", action="store_true", help="stop when standard input ends")
    arguments = parser.parse_args()

    def say(line: str) -> None:
        with suppress(OSError):  # the log's disk is full
            print(f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {line}", flush=True)

    try:
        settings = stack_settings(parts=tuple(arguments.parts.split(",")))
        return Keeper(settings, say, goes_with=0 if arguments.goes_with_stdin else None).run()
    except StackError as error:
        say(str(error))
        return 1


if __name__ == "__main__":
    sys.exit(main())
