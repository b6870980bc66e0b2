"""Starts the process of a script, so that it can reach only what it needs. Called by the rank that watches over it.

What holds it depends on the host (`protections` says which of these there are):

- bubblewrap gives it file systems and processes of its own: it sees nothing else. Needs namespaces of the kernel.
- Landlock lets it open nothing else. It still sees which processes there are. A mount gives it a /dev/shm of its own.
- A user of its own (`HORA_CODE_USER`) keeps from it what is the worker's. Needs the right to change to that user.

In every case it has no capabilities, cannot get more rights by any program, and ends with its rank. Landlock alone does
not hold what runs as root: it knows no rules for modes and owners of files. Standard library only: people wait for the
first line of their script.

    CannotStart     the script cannot be started; the text is a sentence
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path

from jobs.runtime.files import make_private
from jobs.runtime.processes import MARK
from jobs.runtime.script_user import give, hand_over, ids_of, let_pass
from jobs.runtime.shared_memory import SHARED_MEMORY
from trainer.script import drop_rights
from trainer.script.limits import MOST_TASKS
from trainer.script.view import TEMPORARY, View, arguments, readable_everywhere, writable_everywhere

_PROGRAM = Path(drop_rights.__file__)
_NAMESPACES = ("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--die-with-parent")
# Processes and threads of the user, beside those that it has already. Several times what one script may start
# (`trainer.script.limits`), so that no script keeps the others of the host from theirs.
_MOST_TASKS = 4 * MOST_TASKS
_TRY_S = 10.0
_ENTERED = "entered\n"


class CannotStart(Exception):
    """The script cannot be started; the text is a sentence."""


@dataclass(frozen=True)
class Protections:
    """What this host has to hold scripts."""

    bubblewrap: bool
    landlock: int  # its version; 0: none
    mounts: bool  # whether a script gets a /dev/shm of its own, by bubblewrap or without it
    is_root: bool  # this process runs as the host's administrator


@cache
def protections() -> Protections:
    """What this host has to hold scripts."""
    # Many containers allow no namespaces, with which both work.
    bubblewrap = _works(["bwrap", *_NAMESPACES, "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "true"])
    mounts = bubblewrap or _works([sys.executable, "-I", "-S", str(_PROGRAM)])
    return Protections(bubblewrap, drop_rights.landlock_version(), mounts, os.geteuid() == 0)


def _works(argv: Sequence[str]) -> bool:
    try:
        tried = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_TRY_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return tried.returncode == 0


def start(
    command: Sequence[str],
    *,
    folder: Path,
    environment: Mapping[str, str],
    view: View,
    user: str | None,
    home: Path,
    most_file_bytes: int | None,
) -> "subprocess.Popen[bytes]":
    """Start the command in `folder` with exactly this environment, in a session of its own.

    It inherits stdout and stderr, and nothing else. `home` is the folder of this host's worker. Raises `CannotStart`,
    `OSError`.
    """
    has, view = protections(), replace(view, readable=[*view.readable, str(_PROGRAM)])
    if has.is_root and user is None:
        raise CannotStart("no script runs as root: set HORA_CODE_USER")
    make_private(Path(view.temporary))
    give([Path(view.temporary)], user)
    if has.mounts:
        _make_shared_memory(view.shared_memory, user)
    if user is not None and not has.bubblewrap:
        for path in (str(folder), *view.readable, *view.writable):
            let_pass(Path(path), home)
    own = {"TMPDIR": TEMPORARY} if has.bubblewrap else {}  # a short name: sockets may have no long ones
    reading, report = os.pipe()
    orders_file = os.memfd_create("orders", os.MFD_CLOEXEC)
    try:
        orders = {
            "report": report,
            "limits": _limits(most_file_bytes, user, has),
            "ids": None if user is None else ids_of(user),
            "python": sys.executable,
            "umask": 0o077 if user is None else 0o007,
            "parent": None if has.bubblewrap else os.getpid(),
            "shared_memory": view.shared_memory if has.mounts and not has.bubblewrap else None,
            "landlock": _landlock(view, has),
            "environment": {**environment, **own},
        }
        with open(orders_file, "w", encoding="utf-8", closefd=False) as file:
            json.dump(orders, file)
        os.lseek(orders_file, 0, os.SEEK_SET)
        child = subprocess.Popen(
            [
                *(_bubblewrap(view, folder, user) if has.bubblewrap else []),
                os.path.realpath(sys.executable), "-I", "-S", str(_PROGRAM), str(orders_file), *command,
            ],
            cwd=folder, env=_trusted(os.environ), stdin=subprocess.DEVNULL, pass_fds=(report, orders_file),
            start_new_session=True,
        )  # fmt: skip
    except BaseException:
        os.close(reading)
        raise
    finally:
        os.close(report)
        os.close(orders_file)
    with open(reading) as answer:
        _require_started(answer.read(), command[0], child)
    return child


def _make_shared_memory(folder: str, user: str | None) -> None:
    """Make the folder, or take that of another rank of the attempt. Raises `CannotStart` if somebody else made it."""
    with suppress(FileExistsError):
        os.mkdir(folder, mode=0o700)
    try:
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise CannotStart(f"{folder} is no folder that Hora made: {error.strerror}") from None
    try:
        if os.fstat(opened).st_uid not in (os.geteuid(), os.geteuid() if user is None else ids_of(user)[0]):
            raise CannotStart(f"{folder} belongs to another user of this host")
        hand_over(opened, user)
    finally:
        os.close(opened)


def _trusted(inherited: Mapping[str, str]) -> dict[str, str]:
    """The environment of what still has rights: nothing of it comes from the spec. A sweep needs the mark."""
    kept = {name: inherited[name] for name in ("PATH", "LD_LIBRARY_PATH", MARK) if name in inherited}
    return {**kept, "LC_ALL": "C.UTF-8"}


def _require_started(answer: str, program: str, child: "subprocess.Popen[bytes]") -> None:
    """Raises `CannotStart` if the report of the first program says so."""
    if answer == _ENTERED:
        return
    child.wait()
    if answer.startswith(_ENTERED):
        raise CannotStart(f"{program!r} cannot be started: {answer.removeprefix(_ENTERED)}")
    raise CannotStart("the view of the file system for the script could not be made; the log says more")


def _limits(most_file_bytes: int | None, user: str | None, has: Protections) -> dict[str, int]:
    """Limits of the kernel, by their names in `resource`."""
    limits = {"RLIMIT_CORE": 0}
    if most_file_bytes is not None:
        limits["RLIMIT_FSIZE"] = most_file_bytes
    has_own_count = has.bubblewrap and not has.is_root  # a namespace of users counts its processes by itself
    uid = os.geteuid() if user is None else ids_of(user)[0]
    limits["RLIMIT_NPROC"] = _MOST_TASKS + (0 if has_own_count else _tasks_of(uid))
    return limits


def _tasks_of(uid: int) -> int:
    """How many threads the processes of a user have now."""
    count = 0
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and os.stat(f"/proc/{name}").st_uid == uid:
                count += len(os.listdir(f"/proc/{name}/task"))
        except OSError:
            continue  # it has ended
    return count


def _bubblewrap(view: View, folder: Path, user: str | None) -> list[str]:
    to_change_user = () if user is None else ("--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID")
    drop = ("--cap-drop", "ALL", *to_change_user) if os.geteuid() == 0 else ()
    return [str(shutil.which("bwrap")), *_NAMESPACES, *drop, *arguments(view, folder=str(folder)), "--"]


def _landlock(view: View, has: Protections) -> dict[str, list[str]] | None:
    if has.bubblewrap or not has.landlock:
        return None
    own, shared = ([SHARED_MEMORY], []) if has.mounts else ([], [SHARED_MEMORY])
    return {"readable": readable_everywhere(view), "writable": [*writable_everywhere(view), *own], "shared": shared}


def main() -> None:
    """Print what this host has to hold scripts, as JSON; for `hora doctor`."""
    print(json.dumps(asdict(protections())))


if __name__ == "__main__":
    main()
