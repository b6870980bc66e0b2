"""The process that attempts are forked from: `python -m worker.nursery.template DESCRIPTOR [SOCKET]`.

It imports what a supervisor, `horovodrun` and a rank import, and then waits on the socket with that number, and on the
one at that path. It has no secret, touches no device and runs no thread of TensorFlow. For each message of the worker
it forks a supervisor, and for each connector of a rank whose attempt another host leads, the parent of that rank. These
get their orders through a socket of their own: so the template never sees them. It ends when the worker is gone, and
when a file that it has imported was changed.
"""

import ctypes
import gc
import os
import select
import signal
import socket
import sys
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import psutil

from jobs.runtime.files import PRIVATE_UMASK
from worker.nursery import becoming, parent
from worker.nursery.orders import wait_for_order
from worker.nursery.stem import forked_stem

_WARM = ("worker.supervisor", "worker.attempt.supervision", "worker.attempt.supervisor_task", "worker.horovodrun")
_RANK = "trainer.session"
# A shell may have started the worker with some of these ignored. When the worker starts an attempt cold, it handles
# them, so its children have the default.
_HANDLED_BY_THE_WORKER = (signal.SIGTERM, signal.SIGQUIT, signal.SIGHUP)
_MADV_DONTNEED = 4  # sys/mman.h
READY, STALE, UNABLE = b"ready ", b"stale", b"unable"  # what it says, beside the pid of a supervisor


def main() -> int:
    """Import, then fork until the worker is gone."""
    os.umask(PRIVATE_UMASK)
    imported_with = dict(os.environ)
    for number in _HANDLED_BY_THE_WORKER:
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    worker = socket.socket(fileno=int(sys.argv[1]))
    for name in _WARM:
        import_module(name)
    import_module("trainer.__main__")._import_runner(_RANK)
    gc.collect()
    gc.freeze()  # a collection would touch, and so copy, the memory of all modules
    if not _can_rename():
        worker.send(UNABLE)
        return 0
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps the supervisors
    files = _versions(_imported_files())
    inherited = _descriptors() - {worker.fileno()}
    _give_files_back()
    sources = [worker, *_listener(sys.argv[2:])]
    worker.send(READY + str(_memory_bytes()).encode())
    while True:
        source = select.select(sources, [], [])[0][0]
        connection = _sent_by(worker) if source is worker else parent.accept(source)
        if connection is None and source is worker:
            return 0
        if connection is None:
            continue
        if _versions(files) != files:
            worker.send(STALE)
            return 0
        pid = os.fork()
        if pid == 0:
            for each in sources:
                each.close()
            if source is worker:
                becoming.run(partial(_be_supervisor, connection, inherited))
            becoming.run(partial(parent.be_parent, connection, inherited, imported_with))
        connection.close()
        if source is worker:
            worker.send(str(pid).encode())


def _listener(paths: Sequence[str]) -> list[socket.socket]:
    """Where connectors come, if they can."""
    try:
        return [parent.listen(Path(path)) for path in paths]
    except OSError as error:
        sys.stderr.write(f"ranks of jobs that other hosts lead start cold: {paths[0]}: {error}\n")
        return []


def _sent_by(worker: socket.socket) -> socket.socket | None:
    """The connection of a new supervisor; None: the worker is gone."""
    message, received, *_ = socket.recv_fds(worker, 16, 1)
    return socket.socket(fileno=received[0]) if message else None


def _be_supervisor(of_worker: socket.socket, inherited: frozenset[int]) -> int:
    """Fork the process for `horovodrun`, and only then read the orders, with their secrets."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    stem = forked_stem(of_worker, inherited=inherited)
    if (received := wait_for_order(of_worker, files=1)) is None:
        return 0
    order, (log,) = received
    becoming.lead_session(stdout=log, stderr=log)
    becoming.become(order["argv"], order["environment"], folder=order["folder"], kept={*inherited, stem.descriptor})
    stem.environment = order["imported_with"]
    code: int = import_module("worker.supervisor").main(order["task"], stem)
    return code


def _can_rename() -> bool:
    """Whether a fork of this process can take other names. It has to, for its marks."""
    pid = os.fork()
    if pid == 0:
        try:
            becoming.rename(sys.argv, os.environ)
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitpid(pid, 0)[1] == 0


def _give_files_back() -> None:
    """Unmap the pages of libraries that are as in their files: half of all memory.

    The kernel has them in its cache, and each fork maps by itself what it uses.
    """
    madvise = ctypes.CDLL(None).madvise
    for mapping in psutil.Process().memory_maps(grouped=False):
        if mapping.path.startswith("/") and "w" not in mapping.perms and mapping.anonymous == 0:
            start, end = (int(address, 16) for address in mapping.addr.split("-"))
            madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), _MADV_DONTNEED)


def _memory_bytes() -> int:
    """The resident memory of this process."""
    return int(psutil.Process().memory_info().rss)


def _imported_files() -> set[str]:
    """The files of all modules and libraries in this process."""
    modules = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    with open("/proc/self/maps") as maps:
        mapped = {line.rstrip("\n").split(maxsplit=5)[5] for line in maps if "/" in line}
    return {path for path in modules | mapped if path and path.startswith("/") and not path.startswith("/dev/")}


def _versions(paths: Any) -> dict[str, tuple[int, int, int] | None]:
    """What changes when a file is replaced or written; None for a file that is gone."""
    versions: dict[str, tuple[int, int, int] | None] = {}
    for path in paths:
        try:
            about = os.stat(path)
        except OSError:
            versions[path] = None
        else:
            versions[path] = about.st_ino, about.st_size, about.st_mtime_ns
    return versions


def _descriptors() -> frozenset[int]:
    """The open descriptors of this process beyond the standard ones: those that libraries opened at their import."""
    numbers = frozenset(map(int, os.listdir("/proc/self/fd"))) - {0, 1, 2}
    return frozenset(number for number in numbers if Path(f"/proc/self/fd/{number}").exists())


if __name__ == "__main__":
    sys.exit(main())
