"""Keeps a template running, and has it fork supervisors. A thread of the worker, if `HORA_WARM_RANKS` is not 0.

Whatever goes wrong here costs an attempt a cold start and nothing else.
"""

import logging
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from jobs.runtime.settings import Settings
from worker.host.inherited import rank_environment
from worker.nursery.orders import send_order
from worker.nursery.parent import socket_of
from worker.nursery.stem import OF_AN_ATTEMPT
from worker.nursery.template import READY, STALE, UNABLE
from worker.periodic import PeriodicThread

_log = logging.getLogger(__name__)

_PERIOD_S = 5.0
_LOOK_S = 0.2
_FORK_S = 5.0  # longer than a fork takes on a busy host
_MOST_SAID = 64
_RESTART_S = 60.0  # at least, from the start of a template that failed to the start of the next


@dataclass(frozen=True)
class _Template:
    process: subprocess.Popen[bytes]
    connection: socket.socket
    started_at: float


class Nursery(PeriodicThread):
    """The template of this host. `threads` are those of a rank on one slot, which libraries look at."""

    def __init__(self, settings: Settings, *, threads: int) -> None:
        super().__init__("nursery", period_s=_PERIOD_S, rests_first=False)
        environment = rank_environment(
            os.environ, mark="", home=settings.home, scratch=settings.home, threads=threads,
            variables=settings.rank_variables,
        )  # fmt: skip
        self._environment = {name: value for name, value in environment.items() if name not in OF_AN_ATTEMPT}
        # Only hosts with a server for ssh get ranks of jobs that other hosts lead.
        self._connectors_at = [] if settings.ssh_dir is None else [str(socket_of(settings.home, settings.host))]
        self._lock = threading.Lock()  # for the conversation with the template
        self._template: _Template | None = None
        self._is_ready = False
        self._not_before = 0.0
        self.memory_bytes: int | None = None  # of a template that is ready
        self.on_change: Callable[[], None] = lambda: None  # called when that changed

    def once(self) -> None:
        """Start a template if there is none, and notice that it is ready, or has ended."""
        with self._lock:
            if self._template is None:
                if time.monotonic() >= self._not_before and not self.stopped.is_set():
                    self._template = self._new_template()
            elif not self._is_ready:
                self._look(self._template)
            elif self._template.process.poll() is not None:
                self._give_up("died", _last_word(self._template))

    def pause_s(self) -> float:
        """Look often until it is ready."""
        return _PERIOD_S if self._is_ready or self._template is None else _LOOK_S

    def fork_supervisor(
        self, argv: Sequence[str], environment: Mapping[str, str], task: Mapping[str, Any], *, log: int
    ) -> int | None:
        """The pid of a supervisor with this task, in a session of its own. None: none was forked, start it cold."""
        with self._lock:
            template = self._template
            if template is None or not self._is_ready:
                return None
            ours, theirs = socket.socketpair()
            try:
                with theirs:
                    socket.send_fds(template.connection, [b"fork"], [theirs.fileno()])
                answer = template.connection.recv(_MOST_SAID)
            except OSError as error:  # it hangs, or it has ended
                answer, why = _last_word(template), f"does not answer: {error}"
            else:
                why = "died"
            if not answer.isdigit():
                ours.close()
                self._give_up(why, answer)
                self.wake()
                return None
        order = {
            "argv": list(argv), "environment": dict(environment), "folder": os.getcwd(), "task": dict(task),
            "imported_with": self._environment,
        }  # fmt: skip
        with suppress(OSError):  # the supervisor was killed; the agent will see it
            send_order(ours, order, files=[log])
        return int(answer)

    def close(self) -> None:
        """End the template. Its supervisors go on."""
        self.stop()
        with self._lock:
            if self._template is not None:
                self._end(self._template)
                self._template = None

    def _new_template(self) -> _Template:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(_FORK_S)
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-m", "worker.nursery.template", str(theirs.fileno()), *self._connectors_at],
                stdin=subprocess.DEVNULL,
                env=self._environment,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._is_ready = False
        return _Template(process, ours, time.monotonic())

    def _look(self, template: _Template) -> None:
        template.connection.setblocking(False)
        try:
            said = template.connection.recv(_MOST_SAID)
        except BlockingIOError:
            return
        except OSError:
            said = b""
        finally:
            template.connection.settimeout(_FORK_S)
        if said == UNABLE:
            self._give_up("needs a kernel with CONFIG_CHECKPOINT_RESTORE: ranks start cold")
            self.stopped.set()
        elif not said:
            self._give_up("could not import what ranks import, and they start cold")
        else:
            self._is_ready, self.memory_bytes = True, int(said.removeprefix(READY))
            self.on_change()
            _log.info("ranks start warm: it took %.1f s to import", time.monotonic() - template.started_at)

    def _give_up(self, why: str, last_word: bytes = b"") -> None:
        assert self._template is not None
        is_stale = last_word == STALE
        _log.warning("the template of ranks %s", "is of files that were changed" if is_stale else why)
        self._not_before = 0.0 if is_stale else self._template.started_at + _RESTART_S
        self._end(self._template)
        self._template, self._is_ready, self.memory_bytes = None, False, None
        self.on_change()

    def _end(self, template: _Template) -> None:
        template.connection.close()
        template.process.kill()
        template.process.wait()


def _last_word(template: _Template) -> bytes:
    """What a template has said that nobody has read yet."""
    template.connection.setblocking(False)
    try:
        return template.connection.recv(_MOST_SAID)
    except OSError:
        return b""
    finally:
        template.connection.settimeout(_FORK_S)
