"""Gets a rank from the template of its host, where the ssh command of another host's launcher would start it cold.

    python -m worker.nursery.connector SOCKET env NAME=VALUE ... COMMAND

It hands over its own standard descriptors, environment and folder, waits for the rank, and ends with its exit code. If
it gets none, it becomes the command. Standard library only, and little of that: the rank begins after its imports.
"""

import os
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress

from worker.nursery.orders import rank_of, write_order

_FORK_S = 5.0  # longer than a fork takes on a busy host
READY, REFUSED = b"ready", b"cold"  # what a process says that was forked for a connector, before the exit code
_MOST_SAID = 16
_UNKNOWN = 1  # the exit code of a rank whose parent died


def main(path: str, command: list[str]) -> int:
    """The exit code of the rank. Does not return if it starts cold."""
    os.umask(0o077)  # PRIVATE_UMASK of `jobs.runtime.files`, without an import of `jobs`
    # Not `os.environ`: where no locale is set, the interpreter adds a variable.
    with open("/proc/self/environ", "rb") as file:
        own = dict(os.fsdecode(item).split("=", 1) for item in file.read().split(b"\0") if b"=" in item)
    code = _end_of_warm_rank(path, command, own)
    if code is None:
        os.execvpe(command[0], command, own)  # noqa: S606 - ssh has started a shell already
    return code


def _end_of_warm_rank(path: str, command: Sequence[str], own: dict[str, str]) -> int | None:
    """The exit code of the rank; None if there was no warm one."""
    argv, variables = rank_of(command)
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            environment = {**own, **variables}
            order = {"argv": argv, "environment": environment, "folder": os.getcwd(), "groups": os.getgroups()}
            folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
            connection.settimeout(_FORK_S)
            connection.connect(path)
            if connection.recv(len(READY)) != READY:
                return None
            write_order(connection, order, files=[0, 1, 2, folder])
        except OSError:
            return None
        os.close(folder)
        connection.settimeout(None)
        said = b""
        with suppress(ConnectionResetError):
            said = connection.recv(_MOST_SAID)
    if said == REFUSED:
        return None
    return int(said) if said else _UNKNOWN


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
