"""Takes the rights of other users from `HORA_HOME`: an older release left it open. Called by each process at its start.

Only the home and the folders at its top are changed. Nobody gets past a closed folder, so what is below needs no walk.
Folders that somebody put elsewhere with a link, and folders of another user, stay as they are.
"""

import os
import stat
from contextlib import suppress
from pathlib import Path

FOLDERS = ("cache", "datasets", "logs", "runs", "ssh", "weights")
SOCKETS = "run"
DATABASE = "postgres"
_FILES = ("url", "token", "state.json", "keeper.lock")
_PASSAGE = 0o011


def close_home(home: Path, *, scripts_pass: bool = False) -> None:
    """Close the home and what is at its top, as far as it exists and belongs to this user.

    `scripts_pass`: scripts run as another user, who was let through to their own folders.
    """
    # A database of another user is below. `hora.stack.postgres` lets that user pass; nothing here may undo it.
    passage = _PASSAGE if _is_of_another_user(home / DATABASE) else 0
    script_passage = _PASSAGE if scripts_pass else 0
    _close(home, keeps=passage | script_passage)
    _close(home / SOCKETS, keeps=passage)
    for name in FOLDERS:
        _close(home / name, keeps=script_passage)
    for name in _FILES:
        _close(home / name)


def _close(path: Path, *, keeps: int = 0) -> None:
    with suppress(OSError):  # it does not exist, or is on a disk that this process may not write to
        status = path.lstat()
        mode = stat.S_IMODE(status.st_mode)
        closed_mode = mode & ~0o077 | mode & keeps
        if mode != closed_mode and status.st_uid == os.geteuid() and not stat.S_ISLNK(status.st_mode):
            path.chmod(closed_mode)


def _is_of_another_user(folder: Path) -> bool:
    try:
        return folder.lstat().st_uid != os.geteuid()
    except OSError:
        return False
