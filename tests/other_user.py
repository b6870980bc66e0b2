"""What another user of this machine gets at: a process with another uid tries every path that root can list."""

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a process of another user")

_TRIES = """
import json, os, socket, stat, sys
os.setgroups([]); os.setresgid({uid}, {uid}, {uid}); os.setresuid({uid}, {uid}, {uid})
def succeeds(attempt):
    try:
        attempt()
    except OSError:
        return False
    return True
def connect(path):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
def opened(path, flags):
    os.close(os.open(path, flags | os.O_NONBLOCK))
open_paths = []
for path, kind in json.load(sys.stdin):
    ways = {{
        "socket": (lambda: connect(path),),
        "folder": (lambda: os.listdir(path), lambda: os.mkdir(path + "/.made")),
        "file": (lambda: opened(path, os.O_RDONLY), lambda: opened(path, os.O_WRONLY)),
    }}[kind]
    if any(map(succeeds, ways)):
        open_paths.append(path)
print(json.dumps(open_paths))
"""


def paths_below(*folders: Path) -> Iterator[tuple[str, str]]:
    """Every path of the folders, and each folder itself, with its kind: `file`, `folder` or `socket`. Links are not."""
    for top in folders:
        yield str(top), "folder"
        for here, inner, names in os.walk(top):
            for name in inner + names:
                path = Path(here, name)
                if not path.is_symlink() and (path.is_dir() or path.is_file() or path.is_socket()):
                    yield str(path), "folder" if path.is_dir() else "file" if path.is_file() else "socket"


def modes_of(paths: list[tuple[str, str]]) -> dict[str, int]:
    """The permissions of each path. A file of a live stack may have been removed meanwhile: then it has none."""
    modes = {}
    for path, _ in paths:
        with suppress(FileNotFoundError):
            modes[path] = stat.S_IMODE(os.lstat(path).st_mode)
    return modes


def open_to_others(paths: list[tuple[str, str]]) -> list[str]:
    """Those that a user without any rights can list, read, write, or connect to."""
    tries = subprocess.run(
        [sys.executable, "-c", _TRIES.format(uid=NOBODY)],
        input=json.dumps(paths), capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    open_paths: list[str] = json.loads(tries.stdout)
    return open_paths
