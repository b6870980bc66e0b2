"""The first program of a script's process: it gives up rights and then becomes the script.

    python -I -S drop_rights.py ORDERS COMMAND ...
    python -I -S drop_rights.py                      exits with 0 if it may give a script its own /dev/shm here

`trainer.script.confinement` starts it, within a view of the file system that `bubblewrap` made where that works. A
program of its own, because code between `fork` and `exec` of a process with threads may hang. Standard library only,
and nothing of Hora: the view need not have it.

ORDERS is the number of a descriptor to read them from: a process list shows arguments to everybody. The environment of
the script is in the orders too. This program itself must not have it: variables such as GCONV_PATH make the C library
load code, which would run with all rights.

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
_REMOVE_FILE, _MAKE_REG = 1 << 5, 1 << 8
# In a folder that all scripts share: files whose names it knows. It makes no links and folders, and lists nothing.
_SHARED = _WRITE_FILE | _READ_FILE | _TRUNCATE | _REMOVE_FILE | _MAKE_REG
_FILE_RIGHTS = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_SCOPE_ABSTRACT_SOCKETS, _SCOPE_SIGNAL = 1 << 0, 1 << 1
# By version of Landlock: how many rights it knows. Later versions have no further ones for files.
_RIGHTS_KNOWN = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
_NEWEST_KNOWN = 5
_FIRST_WITH_SCOPES = 6

# linux/sched.h, linux/mount.h
_CLONE_NEWNS, _CLONE_NEWUSER = 0x20000, 0x10000000
_MS_BIND, _MS_REC, _MS_PRIVATE = 4096, 16384, 1 << 18
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - where the C library makes shared memory

# linux/seccomp.h, linux/filter.h, linux/sched.h; the offsets are those of struct seccomp_data on little-endian machines
_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 22, 2
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000
_LOAD, _RETURN = 0x20, 0x06
_IF_EQUAL, _IF_AT_LEAST, _IF_ANY_BIT = 0x15, 0x35, 0x45
_AT_NUMBER, _AT_ARCHITECTURE, _AT_FIRST_ARGUMENT = 0, 4, 16
_FIRST_OF_X32 = 0x40000000  # another set of numbers for the same calls, on x86-64
_NEW_NAMESPACES = 0x7E020000  # CLONE_NEW*: cgroup, uts, ipc, user, pid, net and mount
_SYSTEM_CALLS = {
    "x86_64": {
        "architecture": 0xC000003E, "clone": 56, "clone3": 435, "unshare": 272, "setns": 308, "shmget": 29,
        "msgget": 68, "semget": 64, "add_key": 248, "request_key": 249, "keyctl": 250,
    },
    "aarch64": {
        "architecture": 0xC00000B7, "clone": 220, "clone3": 435, "unshare": 97, "setns": 268, "shmget": 194,
        "msgget": 186, "semget": 190, "add_key": 217, "request_key": 218, "keyctl": 219,
    },
}  # fmt: skip
_REFUSED_CALLS = ("unshare", "setns", "shmget", "msgget", "semget", "add_key", "request_key", "keyctl")

_libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Carry out the orders, and run the command in this process."""
    if len(sys.argv) == 1:
        mount_shared_memory(_SHARED_MEMORY)
        return
    with open(int(sys.argv[1]), "rb") as file:
        orders: dict[str, Any] = json.load(file)
    command = sys.argv[2:]
    report: int = orders["report"]
    os.set_inheritable(report, False)
    os.write(report, b"entered\n")
    try:
        _drop_rights(orders)
        _require_python(orders["python"])
        os.execvpe(command[0], command, orders["environment"])  # noqa: S606 - no shell is the point
    except OSError as error:
        os.write(report, f"{error.strerror or error}".encode())
    os._exit(127)


def mount_shared_memory(folder: str) -> None:
    """Let /dev/shm be this folder, for this process and all below it. Raises `OSError`.

    Root needs CAP_SYS_ADMIN for it. Another user makes a namespace of users, where the kernel allows that.
    """
    uid, gid, is_root = os.geteuid(), os.getegid(), os.geteuid() == 0
    _check(_libc.unshare(_CLONE_NEWNS | (0 if is_root else _CLONE_NEWUSER)))
    if not is_root:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    _check(_libc.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None))
    opened = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    _check(_libc.mount(f"/proc/self/fd/{opened}".encode(), _SHARED_MEMORY.encode(), None, _MS_BIND, None))
    os.close(opened)


def _drop_rights(orders: dict[str, Any]) -> None:
    if orders["shared_memory"] is not None:
        mount_shared_memory(orders["shared_memory"])
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
        _restrict(**orders["landlock"])
    _refuse_system_calls()


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


def _restrict(readable: list[str], writable: list[str], shared: list[str]) -> None:
    """Let this process and all below it use nothing of the file system but these paths (landlock(7)). Raises `OSError`.

    `shared` are folders in which scripts of other jobs write too.

    They can send signals to nobody else. Before version 6 they can, to processes of the same user.
    """
    version = landlock_version()
    known = (1 << _RIGHTS_KNOWN[min(version, _NEWEST_KNOWN)]) - 1
    # Some services trust whatever connects as root. Other users need these sockets: NCCL's ranks meet by them.
    all_scopes = _SCOPE_SIGNAL | (_SCOPE_ABSTRACT_SOCKETS if os.getuid() == 0 else 0)
    scopes = all_scopes if version >= _FIRST_WITH_SCOPES else 0
    attributes = struct.pack("QQQ", known, 0, scopes) if scopes else struct.pack("Q", known)
    rules = _check(_libc.syscall(_CREATE_RULESET, attributes, len(attributes), 0))
    for paths, rights in ((readable, _READ), (writable, known), (shared, _SHARED)):
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


def _refuse_system_calls() -> None:
    """Refuse system calls that keep memory which nobody counts, or secrets beyond the job's end (seccomp(2)).

    That is System V memory and messages, the keyrings of the user, and namespaces, in which a script could mount file
    systems in memory. Without effect on processors whose numbers are not known here. Raises `OSError`.
    """
    numbers = _SYSTEM_CALLS.get(os.uname().machine)
    if numbers is None:
        return
    program = _filter(numbers)
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *instruction) for instruction in program))
    described = struct.pack("HxxxxxxQ", len(program), ctypes.addressof(code))  # struct sock_fprog
    _check(_libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.c_char_p(described), 0, 0))


def _filter(numbers: dict[str, int]) -> list[tuple[int, int, int, int]]:
    """The instructions of the filter, as (code, jump if true, jump if false, value)."""
    ends = [
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _REFUSE | errno.EPERM),
        (_RETURN, 0, 0, _REFUSE | errno.ENOSYS),
    ]
    tests: list[tuple[int, str, str, int]] = [
        (_LOAD, "next", "next", _AT_ARCHITECTURE),
        (_IF_EQUAL, "next", "absent", numbers["architecture"]),
        (_LOAD, "next", "next", _AT_NUMBER),
        (_IF_AT_LEAST, "absent", "next", _FIRST_OF_X32),
        (_IF_EQUAL, "absent", "next", numbers["clone3"]),  # its flags are out of reach: then programs use `clone`
        *((_IF_EQUAL, "refused", "next", numbers[name]) for name in _REFUSED_CALLS),
        (_IF_EQUAL, "next", "allowed", numbers["clone"]),
        (_LOAD, "next", "next", _AT_FIRST_ARGUMENT),
        (_IF_ANY_BIT, "refused", "allowed", _NEW_NAMESPACES),
    ]
    # A jump says how many instructions to pass over. Behind the tests come the three ends.
    targets = {"allowed": len(tests), "refused": len(tests) + 1, "absent": len(tests) + 2}

    def jump(at: int, to: str) -> int:
        return 0 if to == "next" else targets[to] - at - 1

    return [(code, jump(at, yes), jump(at, no), value) for at, (code, yes, no, value) in enumerate(tests)] + ends


def _check(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


if __name__ == "__main__":
    main()
