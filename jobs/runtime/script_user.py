"""Hands folders to the user that runs scripts (`HORA_CODE_USER`), and takes them back.

Called by what prepares an attempt on each host, by its ranks, and by what ends it. Without such a user scripts run as
the worker's, and nothing is handed over. Links are never followed. Standard library only.

    NoSuchUser      the host has no such user; the text is a sentence
"""

import os
import pwd
import stat
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from jobs.runtime.files import path_of
from jobs.runtime.open_folders import walk

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


def uid_of(user: str | None) -> int | None:
    """The user's uid. None for nobody, and on a host that has no such user, where no script of it ran."""
    try:
        return None if user is None else ids_of(user)[0]
    except NoSuchUser:
        return None


def give(folders: Sequence[Path], user: str | None) -> None:
    """Let the user write below these folders, and this user still read what is made there. Raises `OSError`."""
    if user is None:
        return
    uid, _ = ids_of(user)
    for folder in folders:
        # A script of another rank may already move what lies in a folder that they share.
        for opened in _opened_below(folder):
            _hand_over(opened, uid)


def hand_over(opened: int, user: str | None) -> None:
    """Let the user write in an open folder that this user has made. Raises `OSError`."""
    if user is not None:
        _hand_over(opened, ids_of(user)[0])


def _opened_below(folder: Path) -> Iterator[int]:
    """A descriptor of a folder and of everything below it, each open until the next one. A folder comes before its own.

    Nothing is named by a path: a script may move what lies there meanwhile. What went is left out. Raises `OSError`.
    """
    top = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)  # it may be closed to its owner
    try:
        yield top
        for below in walk(top, leave_out=True):
            for name in (*below.folders, *below.others):
                with suppress(FileNotFoundError):
                    opened = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=below.descriptor)
                    try:
                        yield opened
                    finally:
                        os.close(opened)
    finally:
        os.close(top)


def _hand_over(opened: int, uid: int) -> None:
    """Hand over what this user has made: no link, nothing with a second name elsewhere, and nothing of others."""
    status = os.fstat(opened)
    is_folder = stat.S_ISDIR(status.st_mode)
    if _is_own(status) and (is_folder or stat.S_ISREG(status.st_mode) or stat.S_ISFIFO(status.st_mode)):
        path = path_of(opened)  # leads to what is open, whatever its name leads to by now
        os.chown(path, uid, os.getegid())
        os.chmod(path, _SHARED_FOLDER if is_folder else status.st_mode & 0o110 | _SHARED_FILE)


def open_to_read(folders: Sequence[str], user: str | None) -> None:
    """Let every user read what is below these folders, who gets there: the folders above stay closed.

    What belongs to others stays as it is: they decide. Raises `OSError`.
    """
    if user is None:
        return
    for folder in folders:
        if os.path.isdir(folder):
            for opened in _opened_below(Path(folder)):
                status = os.fstat(opened)
                if _is_own(status) and not stat.S_ISLNK(status.st_mode):
                    enter_or_run = stat.S_IXOTH if stat.S_ISDIR(status.st_mode) or status.st_mode & 0o111 else 0
                    os.chmod(path_of(opened), stat.S_IMODE(status.st_mode) | stat.S_IROTH | enter_or_run)


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
    uid = uid_of(user)
    for folder in folders:
        with suppress(OSError):
            for opened in _opened_below(folder):
                with suppress(OSError):
                    _take_back(opened, uid)


def _take_back(opened: int, uid: int | None) -> None:
    status = os.fstat(opened)
    is_theirs = status.st_uid == uid
    if is_theirs:
        os.chown(path_of(opened), os.geteuid(), os.getegid())
    is_folder = stat.S_ISDIR(status.st_mode)
    if (is_theirs or _is_own(status)) and not stat.S_ISLNK(status.st_mode):
        enter_or_run = stat.S_IXUSR if is_folder or status.st_mode & 0o111 else 0
        os.chmod(path_of(opened), status.st_mode & 0o700 | stat.S_IRUSR | stat.S_IWUSR | enter_or_run)


def _is_own(status: os.stat_result) -> bool:
    """Whether this user has made it, and it is no second name of something elsewhere."""
    return status.st_uid == os.geteuid() and (stat.S_ISDIR(status.st_mode) or status.st_nlink == 1)


def remove(folders: Sequence[Path], user: str | None) -> None:
    """Remove folders in which a script wrote, however deep and whatever rights it left. The rest stays."""
    if user is None:  # else this user may remove what belongs to the other
        take_back(folders, None)
    paths = [str(folder) for folder in folders]
    subprocess.run(
        ["rm", "-rf", "--", *paths],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
