"""Starts the process of a script, so that it can reach only what it needs. Called by the rank that watches over it.

Standard library only: people wait for the first line of their script.
"""

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class View:
    """What a script may use of the file system beside the system's own programs and libraries. Absolute paths."""

    readable: Sequence[str]
    writable: Sequence[str]


def start(
    command: Sequence[str],
    *,
    folder: Path,
    environment: Mapping[str, str],
    view: View,
    user: str | None,
    keep_open: Sequence[int] = (),
) -> "subprocess.Popen[bytes]":
    """Start the command in `folder` with exactly this environment, in a session of its own.

    It inherits stdout, stderr and the descriptors in `keep_open`, and ends with this process. `user` is the name of the
    user to run as; None: that of this process. Raises `OSError` if it cannot be started.
    """
    return subprocess.Popen(
        list(command), cwd=folder, env=dict(environment), stdin=subprocess.DEVNULL, pass_fds=tuple(keep_open),
        start_new_session=True,
    )  # fmt: skip


def give(folders: Sequence[Path], user: str | None) -> None:
    """Let the script's user write below these folders. Call it before `start`. Raises `OSError`."""


def take_back(folders: Sequence[Path], user: str | None) -> None:
    """Let the worker's user own again what the script left there. Call it when no process of the script is left."""
