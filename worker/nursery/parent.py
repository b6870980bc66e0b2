"""The parent of a warm rank on a host that does not lead its attempt.

The template forks it for a connector (`worker.nursery.connector`), which ssh has started there. Only this process reads
the order. It forks the rank and tells the connector how it ended. If the connector ends first, the rank is told to end.
The template is not needed any more.
"""

import fcntl
import os
import re
import select
import signal
import socket
import struct
import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from jobs.runtime.files import make_private
from jobs.runtime.processes import MARK
from jobs.runtime.rank_variables import is_of_launcher
from worker.host.inherited import inherited
from worker.nursery import becoming
from worker.nursery.becoming import Forked
from worker.nursery.connector import READY, REFUSED
from worker.nursery.orders import read_order
from worker.nursery.stem import OF_AN_ATTEMPT, RANK_ENDED

_ORDER_S = 10.0  # for an order that follows at once, on a busy host
_ARGV = (sys.executable, "-m", __name__)  # for process lists
_CREDENTIALS = struct.Struct("3i")  # struct ucred: pid, uid, gid
_NOT_AT_IMPORT = frozenset((*OF_AN_ATTEMPT, "CUDA_VISIBLE_DEVICES"))  # the last is set by the rank itself
# A login adds variables, also those that its user chose. The ranks of the lead have none of them.
_OF_LIBRARIES = re.compile(
    "(PYTHON|LC|LD|MALLOC|OMP|GOMP|KMP|MKL|DNNL|ONEDNN|OPENBLAS|TF|XLA|KERAS|CUDA|NVIDIA|NCCL|HOROVOD)"
)


def socket_of(home: Path, host: str) -> Path:
    """Where the template of a host takes connectors. Hosts may share `HORA_HOME`."""
    return home / "run" / f"ranks-{host}"


def listen(path: Path) -> socket.socket:
    """Take connectors there, in the place of an earlier template. Raises `OSError`, also if the path is too long."""
    os.close(os.pidfd_open(os.getpid()))  # kernels before 5.3 have none
    make_private(path.parent)
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    listener.setblocking(False)
    return listener


def accept(listener: socket.socket) -> socket.socket | None:
    """The next connection of this user, if there is one."""
    try:
        connection, _ = listener.accept()
    except OSError:  # it did not wait
        return None
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    if _CREDENTIALS.unpack(credentials)[1] == os.geteuid():
        return connection
    connection.close()
    return None


def be_parent(connector: socket.socket, files: frozenset[int], imported_with: Mapping[str, str]) -> None:
    """Fork the rank of this connector and wait for its end. `imported_with` is the environment of the template."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    connector.settimeout(_ORDER_S)
    try:
        connector.sendall(READY)
        received = read_order(connector, files=4)
    except OSError:  # it does not want a rank any more
        return
    if received is None:
        return
    order, (*standard, proof) = received
    if not _is_open(Path(connector.getsockname()).parent, proof):
        return
    if not _fits(imported_with, order["environment"]) or not _has_groups(order["groups"]):
        connector.sendall(REFUSED)
        return
    try:
        _lead_rank(order, standard, kept={*files, connector.fileno()})
        rank = _forked_rank(order, files)
    except OSError:
        connector.sendall(REFUSED)
        return
    signal.signal(RANK_ENDED, signal.SIG_IGN)  # sent to all processes of an attempt: the rank may have to save
    rank_end = os.pidfd_open(rank.pid)
    ended, _, _ = select.select([rank_end, connector.fileno()], [], [])
    if rank_end not in ended:
        os.kill(rank.pid, RANK_ENDED)
    code = rank.wait()
    with suppress(OSError):  # it ended first
        connector.sendall(str(code if code >= 0 else 128 - code).encode())  # as a shell says it


def _is_open(folder: Path, descriptor: int) -> bool:
    """Whether this descriptor lets its sender read the folder.

    Landlock, which holds scripts of the same user on some hosts, keeps nobody from sockets.
    """
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    return not flags & os.O_PATH and os.path.samestat(os.fstat(descriptor), folder.stat())


def _fits(imported_with: Mapping[str, str], environment: Mapping[str, str]) -> bool:
    """Whether a rank with this environment may import with the other one: libraries look at some variables then."""
    looked_at = {
        name
        for name in environment
        if (name in inherited(environment) or _OF_LIBRARIES.match(name)) and not is_of_launcher(name)
    }
    names = (looked_at | imported_with.keys()) - _NOT_AT_IMPORT
    return all(environment.get(name) == imported_with.get(name) for name in names)


def _has_groups(groups: list[int]) -> bool:
    """Whether this process is in the groups that a login gives. Only root can enter them."""
    if os.getgroups() != groups:
        try:
            os.setgroups(groups)
        except OSError:
            return False
    return True


def _lead_rank(order: Mapping[str, Any], standard: Sequence[int], *, kept: Collection[int]) -> None:
    """Become a process of the attempt, with these standard descriptors."""
    stdin, stdout, stderr = standard
    becoming.lead_session(stdin=stdin, stdout=stdout, stderr=stderr)
    # Not the rank's number, or the sampler would take this process for the rank.
    own = {name: value for name, value in order["environment"].items() if name in (MARK, "HORA_HOME")}
    becoming.become(_ARGV, own, folder="/", kept=kept)


def _forked_rank(order: Mapping[str, Any], files: frozenset[int]) -> Forked:
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        becoming.run(partial(_be_rank, order, parent, files))
    return Forked(pid)


def _be_rank(order: Mapping[str, Any], parent: int, files: frozenset[int]) -> None:
    becoming.end_with_parent(RANK_ENDED, parent)
    os.setsid()
    becoming.become(order["argv"], order["environment"], folder=order["folder"], kept=files)
    import_module("trainer.__main__").main(*order["argv"][3:])
