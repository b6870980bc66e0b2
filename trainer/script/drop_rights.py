"""The first program of a script's process: it gives up rights and then becomes the script.

    python -I -S drop_rights.py ORDERS COMMAND ...

`trainer.script.confinement` starts it, within a view of the file system that `bubblewrap` made where that works. A
program of its own, because code between `fork` and `exec` of a process with threads may hang. Standard library only,
and nothing of Hora: the view need not have it.

It writes to the descriptor `report` of its orders: `entered`, and then why the command cannot be started, if so.
"""

import ctypes
import errno
import json
import os
import resource
import signal
import struct
import sys
from typing import Any

# linux/prctl.h
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
_CAPABILITIES_3 = 0x20080522  # _LINUX_CAPABILITY_VERSION_3 of linux/capability.h
# linux/landlock.h; the numbers of the system calls are the same on all architectures
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_CREATE_RULESET_VERSION = 1
_RULE_PATH_BENEATH = 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _TRUNCATE, _IOCTL_DEV = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14, 1 << 15
_FILE_RIGHTS = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_SCOPE_ABSTRACT_SOCKETS, _SCOPE_SIGNAL = 1 << 0, 1 << 1
# By version of Landlock: how many rights it knows. Later versions have no further ones for files.
_RIGHTS_KNOWN = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
_NEWEST_KNOWN = 5
_FIRST_WITH_SCOPES = 6

_libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Carry out the orders, and run the command in this process."""
    orders: dict[str, Any] = json.loads(sys.argv[1])
    command = sys.argv[2:]
    report: int = orders["report"]
    os.set_inheritable(report, False)
    os.write(report, b"entered\n")
    try:
        _drop_rights(orders)
        _require_python(orders["python"])
        os.execvp(command[0], command)  # noqa: S606 - no shell is the point
    except OSError as error:
        os.write(report, f"{error.strerror or error}".encode())
    os._exit(127)


def _drop_rights(orders: dict[str, Any]) -> None:
    _be_first_when_memory_runs_out()
    for name, most in orders["limits"].items():
        _limit(getattr(resource, name), most)
    if orders["ids"] is not None:
        uid, gid = orders["ids"]
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    os.umask(orders["umask"])
    drop_capabilities()
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    if orders["parent"] is not None:
        _end_with(orders["parent"])
    if orders["landlock"] is not None:
        _restrict(orders["landlock"]["readable"], orders["landlock"]["writable"])


def _require_python(python: str) -> None:
    """Raises `OSError` if this user cannot run it: a search along PATH would find another one."""
    if not os.access(python, os.X_OK):
        raise PermissionError(errno.EACCES, f"its user (uid {os.getuid()}) may not run {python}")


def _be_first_when_memory_runs_out() -> None:
    try:
        with open("/proc/self/oom_score_adj", "w") as score:
            score.write("1000")
    except OSError:
        pass  # no /proc here; the limit of memory counts all the same


def _limit(kind: int, most: int) -> None:
    _, hard = resource.getrlimit(kind)
    value = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(kind, (value, value))


def drop_capabilities() -> None:
    """Hold no capability, now and after any `exec` of a user but root. Raises `OSError`."""
    _libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    header, none = struct.pack("Ii", _CAPABILITIES_3, 0), bytes(24)
    _check(_libc.capset(header, none))


def _end_with(parent: int) -> None:
    """Be killed when the parent ends. It may have ended before."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0))
    if os.getppid() != parent:
        os._exit(127)


def landlock_version() -> int:
    """The version of Landlock that the kernel has; 0: it has none, or it is off."""
    return max(int(_libc.syscall(_CREATE_RULESET, None, 0, _CREATE_RULESET_VERSION)), 0)


def _restrict(readable: list[str], writable: list[str]) -> None:
    """Let this process and all below it use nothing of the file system but these paths (landlock(7)). Raises `OSError`.

    They can send signals to nobody else. Before version 6 they can, to processes of the same user.
    """
    version = landlock_version()
    known = (1 << _RIGHTS_KNOWN[min(version, _NEWEST_KNOWN)]) - 1
    # Some services trust whatever connects as root. Other users need these sockets: NCCL's ranks meet by them.
    all_scopes = _SCOPE_SIGNAL | (_SCOPE_ABSTRACT_SOCKETS if os.getuid() == 0 else 0)
    scopes = all_scopes if version >= _FIRST_WITH_SCOPES else 0
    attributes = struct.pack("QQQ", known, 0, scopes) if scopes else struct.pack("Q", known)
    rules = _check(_libc.syscall(_CREATE_RULESET, attributes, len(attributes), 0))
    for paths, rights in ((readable, _READ), (writable, known)):
        for path in paths:
            _allow(rules, path, rights & known)
    _check(_libc.syscall(_RESTRICT_SELF, rules, 0))
    os.close(rules)


def _allow(rules: int, path: str, rights: int) -> None:
    try:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # what is not there need not be allowed
    if not os.path.isdir(path):
        rights &= _FILE_RIGHTS
    try:
        rule = struct.pack("=Qi", rights, opened)
        _check(_libc.syscall(_ADD_RULE, rules, _RULE_PATH_BENEATH, rule, 0))
    finally:
        os.close(opened)


def _check(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


if __name__ == "__main__":
    main()
