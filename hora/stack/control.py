"""Starts and stops the embedded stack: a database, a broker, the api and a worker on this machine.

Used by `hora up` and `hora down`, and by tests:

    with Stack(home, port=0, slots=2) as stack:
        Client(stack.url, stack.token)

The work is done by the keeper (`hora.stack.keeper`), a process of its own.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from hora.home import Home, StackError, State, cannot_write
from hora.stack.keeper import ALREADY_RUNNING, READY_WITHIN_S, last_lines
from hora.stack.parts import PARTS, teardown, with_sources
from hora.stack.processes import POLL_S, wait_ended

STOPPED_WITHIN_S = 90.0  # a little more than the sum of the parts' own limits


class _Ended(Exception):
    """The keeper that had the home has ended."""


@dataclass
class Stack:
    """The stack below `home`. An argument that is None comes from the environment, as for `hora up`.

    As a context manager it starts on entry, and is stopped on exit or when this process dies, however it dies.
    `parts` starts only some, such as ("database", "broker"). `embedded` ignores addresses in the environment.
    """

    home: Path
    port: int | None = None
    slots: int | None = None
    parts: tuple[str, ...] = PARTS
    embedded: bool = True
    _keeper: subprocess.Popen[bytes] | None = None

    @property
    def _home(self) -> Home:
        return Home.at(self.home)

    @property
    def state(self) -> State:
        """The state that the keeper last wrote."""
        return self._home.read_state()

    @property
    def url(self) -> str:
        """The API's address."""
        return _required(self.state.url, "api")

    @property
    def token(self) -> str:
        """The admin token."""
        return self._home.token()

    @property
    def database_url(self) -> str:
        """The database's address, without a driver's name."""
        return _required(self.state.database_url, "database")

    @property
    def broker_url(self) -> str:
        """The broker's address, in the form of Celery."""
        return _required(self.state.broker_url, "broker")

    def pid_of(self, part: str) -> int:
        """The process of a part now; a part that was started again has another."""
        return self.state.parts[part].pid

    def log_of(self, part: str) -> str:
        """All that a part (or "keeper") has written."""
        return self._home.log_file(part).read_text(errors="replace")

    def start(self, *, stays: bool, on_phase: Callable[[str], None] = lambda _: None) -> bool:
        """Start the stack and wait until it is ready; False when it ran already. Raises `StackError`.

        With `stays` it outlives this process; else it ends with it.
        """
        home = self._home
        if os.geteuid() == 0 and "database" in self.parts:
            home.refuse_home_folder()
        home.create()
        deadline = time.monotonic() + READY_WITHIN_S + 10
        while True:
            if not home.is_kept():
                self._reap()
                self._keeper = self._spawn_keeper(stays)
            try:
                return self._wait_ready(deadline, on_phase)
            except _Ended:
                continue  # the other keeper was about to stop; now it is our turn
            except StackError:
                self._reap(only_ended=True)
                raise

    def stop(self) -> list[str]:
        """Stop everything of this stack, whoever started it. Returns what was stopped, a line each."""
        home = self._home
        if not home.path.exists():
            return []
        deadline = time.monotonic() + STOPPED_WITHIN_S
        signalled = None
        while time.monotonic() < deadline:
            with home.lock() as is_ours:
                if is_ours:
                    self._reap()
                    return list(home.read_state().stopped) if signalled else self._clear(home)
            keeper = home.read_state().keeper
            if keeper is not None and keeper != signalled and keeper.is_alive:
                keeper.signal(signal.SIGTERM)
                signalled = keeper
            time.sleep(POLL_S)
        if signalled is not None:
            signalled.signal(signal.SIGKILL)
            wait_ended([signalled], 5)
            self._reap()
        with home.lock() as is_ours:
            return self._clear(home) if is_ours else ["another process holds the stack's lock; nothing was stopped"]

    def __enter__(self) -> Self:
        self.start(stays=False)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _spawn_keeper(self, stays: bool) -> subprocess.Popen[bytes]:
        environment = dict(os.environ)
        if self.embedded:
            for name in ("HORA_DATABASE_URL", "HORA_BROKER_URL"):
                environment.pop(name, None)
        environment["HORA_HOME"] = str(self._home.path)
        environment |= {} if self.port is None else {"HORA_PORT": str(self.port)}
        environment |= {} if self.slots is None else {"HORA_SLOTS": str(self.slots)}
        argv = [sys.executable, "-m", "hora.stack.keeper", "--parts", ",".join(self.parts)]
        try:
            log = os.open(self._home.log_file("keeper"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError as error:
            raise cannot_write(self._home.path, error) from error
        try:
            return subprocess.Popen(
                argv if stays else [*argv, "--goes-with-stdin"],
                env=with_sources(environment),
                cwd="/",
                stdin=subprocess.DEVNULL if stays else subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        finally:
            os.close(log)

    def _wait_ready(self, deadline: float, on_phase: Callable[[str], None]) -> bool:
        """Wait until the stack is ready; True when our own keeper made it so. Raises `StackError`."""
        keeper, last_phase = self._keeper, ""
        while time.monotonic() < deadline:
            state = self.state
            code = None if keeper is None else keeper.poll()
            if code == ALREADY_RUNNING:
                keeper = None  # another one was faster
            elif code is not None:
                raise StackError(self._why_it_ended(keeper, code))
            elif keeper is None and not self._home.is_kept():
                raise _Ended
            elif state.keeper is not None and state.keeper.is_alive and (not keeper or state.keeper.pid == keeper.pid):
                if state.phase == "ready":
                    return keeper is not None
                if state.phase != last_phase:
                    last_phase = state.phase
                    on_phase(last_phase)
            time.sleep(POLL_S)
        raise StackError(f"The stack is not ready yet; its logs are in {self._home.path / 'logs'}.")

    def _why_it_ended(self, keeper: subprocess.Popen[bytes] | None, code: int) -> str:
        if code == 0:
            return "The stack was stopped while it was starting."
        state = self.state
        is_its_state = keeper is not None and state.keeper is not None and state.keeper.pid == keeper.pid
        said = (is_its_state and state.failure) or "\n".join(last_lines(self._home.log_file("keeper")))
        return said or f"The stack ended with code {code} and wrote no log: is there space in {self._home.path}?"

    def _clear(self, home: Home) -> list[str]:
        """Stop the processes that a killed keeper left. The caller holds the lock."""
        state = home.read_state()
        stopped = teardown(home, state.parts)
        home.note_stop(State(phase="stopped", stopped=tuple(stopped)))
        return stopped

    def _reap(self, *, only_ended: bool = False) -> None:
        """Forget the keeper that this process started; it has ended, or is about to."""
        if self._keeper is not None and not (only_ended and self._keeper.poll() is None):
            self._keeper.wait(STOPPED_WITHIN_S)
            if self._keeper.stdin is not None:
                self._keeper.stdin.close()
            self._keeper = None


def _required(value: str | None, part: str) -> str:
    if value is None:
        raise StackError(f"This stack has no {part}.")
    return value
