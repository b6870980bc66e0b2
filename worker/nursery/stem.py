"""The process from which a supervisor's `horovodrun` and its ranks come, and the ranks that wait for their turn.

It is forked before the supervisor reads its orders, so it holds no secret. It waits until the supervisor wants to start
`horovodrun`, and becomes that. If the supervisor ends before, it ends too.
"""

import os
import signal
import socket
from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module

from jobs.runtime.processes import MARK
from worker.nursery import becoming
from worker.nursery.becoming import Forked
from worker.nursery.orders import send_order, wait_for_order

_LAUNCHER = ("-m", "worker.horovodrun")
OF_AN_ATTEMPT = (MARK, "TMPDIR")  # variables that no import looks at
RANK_ENDED = signal.SIGTERM  # what Horovod sends to the ranks of a launcher that died


class Stem:
    """The process as its supervisor sees it."""

    def __init__(self, pid: int, connection: socket.socket) -> None:
        self._process = Forked(pid)
        self._connection = connection
        self.environment: Mapping[str, str] = {}  # of the template, at its imports

    @property
    def descriptor(self) -> int:
        """The descriptor of its connection."""
        return self._connection.fileno()

    def can_run(self, argv: Sequence[str], environment: Mapping[str, str]) -> bool:
        """Whether it can become this program. Libraries look at some variables when they are imported."""
        return tuple(argv[1:3]) == _LAUNCHER and _at_import(environment) == _at_import(self.environment)

    def become_horovodrun(
        self, argv: Sequence[str], environment: Mapping[str, str], *, folder: str, log: int, ranks: int
    ) -> Forked:
        """Have it become `horovodrun` in a session of its own, with so many warm ranks. Raises `OSError`."""
        order = {"argv": list(argv), "environment": dict(environment), "folder": folder, "ranks": ranks}
        send_order(self._connection, order, files=[log])
        return self._process

    def close(self) -> None:
        """Let it end: it is not needed."""
        self._connection.close()
        self._process.wait()


def _at_import(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name not in OF_AN_ATTEMPT}


def forked_stem(of_worker: socket.socket, *, inherited: frozenset[int]) -> Stem:
    """Fork it from a process that is to be a supervisor. It closes that one's connection to the worker."""
    of_supervisor, of_stem = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        of_supervisor.close()
        of_worker.close()
        becoming.run(partial(_be_horovodrun, of_stem, inherited))
    of_stem.close()
    return Stem(pid, of_supervisor)


def _be_horovodrun(supervisor: socket.socket, inherited: frozenset[int]) -> None:
    if (received := wait_for_order(supervisor, files=1)) is None:
        return
    order, (log,) = received
    becoming.lead_session(stdout=log, stderr=log)
    becoming.become(order["argv"], order["environment"], folder=order["folder"], kept=inherited)
    ranks: list[WaitingRank] = []
    for _ in range(order["ranks"]):
        ranks.append(_waiting_rank(inherited, before=ranks))
    import_module("worker.horovodrun").main(order["argv"][3:], ranks)


class WaitingRank:
    """A process that waits to become a rank: a child of `horovodrun`."""

    def __init__(self, pid: int, connection: socket.socket) -> None:
        self.process = Forked(pid)
        self.connection = connection

    def start(self, argv: Sequence[str], environment: Mapping[str, str], *, stdout: int, stderr: int) -> None:
        """Let it begin, with these descriptors. Raises `OSError` if it died."""
        order = {"argv": list(argv), "environment": dict(environment)}
        send_order(self.connection, order, files=[stdout, stderr])


def _waiting_rank(inherited: frozenset[int], *, before: Sequence[WaitingRank]) -> WaitingRank:
    of_launcher, of_rank = socket.socketpair()
    launcher = os.getpid()
    pid = os.fork()
    if pid == 0:
        for connection in (of_launcher, *(rank.connection for rank in before)):
            connection.close()  # or the others would wait on when the launcher has died
        becoming.run(partial(_be_rank, of_rank, launcher, inherited))
    of_rank.close()
    return WaitingRank(pid, of_launcher)


def _be_rank(of_rank: socket.socket, launcher: int, inherited: frozenset[int]) -> None:
    if (received := wait_for_order(of_rank, files=2)) is None:
        return
    order, (stdout, stderr) = received
    becoming.end_with_parent(RANK_ENDED, launcher)
    becoming.lead_session(stdin=0, stdout=stdout, stderr=stderr)
    becoming.become(order["argv"], order["environment"], folder=os.getcwd(), kept=inherited)
    import_module("trainer.__main__").main(*order["argv"][3:])
