"""Hands folders to the user that runs scripts (`HORA_CODE_USER`), and takes them back.

Called by what prepares an attempt on each host, by its ranks, and by what ends it. Without such a user scripts run as
the worker's, and nothing is handed over. Links are never followed. Standard library only.

    NoSuchUser      the host has no such user; the text is a sentence
"""

import errno
import os
import pwd
import stat
import subprocess
from collections.abc import Sequence
from pathlib import Path

_PASSAGE = 0o011
_SHARED_FOLDER = 0o2770  # what is made below keeps the worker's group, so the worker and the api can read it
_SHARED_FILE = 0o660


class NoSuchUser(OSError):
    """The host has no such user; the text is a sentence."""


def ids_of(user: str) -> tuple[int, int]:
    """The user's uid and gid. Raises `NoSuchUser`."""
    try:
        entry = pwd.getpwnam(user)
    except KeyError:
        raise NoSuchUser(f"this host has no user {user}, which HORA_CODE_USER names") from None
    if entry.pw_uid == 0:
        raise NoSuchUser(f"HORA_CODE_USER must not be {user}: scripts never run as the host's administrator")
    return entry.pw_uid, entry.pw_gid


def give(folders: Sequence[Path], user: str | None) -> None:
    """Let the user write below these folders, and this user still read what is made there. Raises `OSError`."""
    if user is None:
        return
    uid, _ = ids_of(user)
    for folder in folders:
        # A script of another rank may already move what lies in a folder that they share. So nothing is named by a
        # path: each thing is opened first, in a folder that is open, and then handed over by its descriptor.
        try:
            for _, _, names, opened_folder in os.fwalk(folder):
                _hand_over(opened_folder, uid)
                for name in names:
                    _hand_over_file(name, opened_folder, uid)
        except RecursionError:
            raise OSError(errno.ELOOP, f"its folders are nested too deep: {folder}") from None


def _hand_over_file(name: str, folder: int, uid: int) -> None:
    try:
        opened = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return
    try:
        _hand_over(opened, uid)
    finally:
        os.close(opened)


def _hand_over(opened: int, uid: int) -> None:
    """Hand over what this user has made: no link, nothing with a second name elsewhere, and nothing of others."""
    status = os.fstat(opened)
    is_folder = stat.S_ISDIR(status.st_mode)
    is_file = (stat.S_ISREG(status.st_mode) or stat.S_ISFIFO(status.st_mode)) and status.st_nlink == 1
    if status.st_uid == os.geteuid() and (is_folder or is_file):
        path = f"/proc/self/fd/{opened}"  # leads to what is open, whatever its name leads to by now
        os.chown(path, uid, os.getegid())
        os.chmod(path, _SHARED_FOLDER if is_folder else status.st_mode & 0o110 | _SHARED_FILE)


def open_to_read(folders: Sequence[str], user: str | None) -> None:
    """Let every user read what is below these folders, who gets there: the folders above stay closed.

    What belongs to others stays as it is: they decide.
    """
    if user is not None and folders:
        _run("chmod", "-R", "o+rX", "--", *folders)


def let_pass(folder: Path, home: Path) -> None:
    """Let every user go through the folders from `home` down to `folder`, without a look into them."""
    for path in (folder, *folder.parents):
        if path.is_relative_to(home):
            mode = stat.S_IMODE(path.stat().st_mode)
            if mode & _PASSAGE != _PASSAGE:
                path.chmod(mode | _PASSAGE)


def take_back(folders: Sequence[Path], user: str | None) -> None:
    """Own again what a script left below these folders, whatever rights it left there.

    Call it when no process of the script is left. What cannot be changed stays as it is.
    """
    paths = [str(folder) for folder in folders if folder.is_dir() and not folder.is_symlink()]
    if not paths:
        return
    if user is not None:
        _run("chown", "-R", "--no-dereference", f"{os.geteuid()}:{os.getegid()}", "--", *paths)
    _run("chmod", "-R", "u+rwX,go=,-s", "--", *paths)


def remove(folders: Sequence[Path]) -> None:
    """Remove folders in which a script wrote, however deep and whatever rights it left. The rest stays."""
    take_back(folders, None)
    _run("rm", "-rf", "--", *(str(folder) for folder in folders))


def _run(*argv: str) -> None:
    """Run a program that walks folders of any depth, which functions of Python do not."""
    subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
