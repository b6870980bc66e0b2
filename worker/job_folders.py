"""The folders of the jobs on this host, and the removal of what is in them. Used by the retention of a worker."""

import logging
import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from jobs.runtime.files import path_of

_log = logging.getLogger(__name__)

_JOB_ID = re.compile(r"[0-9a-z]{1,32}")


def job_folders(runs_dir: Path) -> Iterable[str]:
    """The ids of the jobs with a folder there that is no link."""
    try:
        with os.scandir(runs_dir) as entries:
            return [
                entry.name for entry in entries if _JOB_ID.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False)
            ]
    except FileNotFoundError:
        return []


def remove_folders(job_dir: Path, names: re.Pattern[str]) -> bool:
    """Remove the folders with these names from a job's folder. False if it has none.

    Then remove the folder of the artifacts and the job's folder if they are empty.
    """
    try:
        # Everything below is reached through this descriptor, so a link that appears meanwhile is not followed.
        folder = os.open(job_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return False  # another host was faster, or it is a link
    try:
        removable = [name for name in os.listdir(folder) if names.fullmatch(name)]
        for name in removable:
            _remove(name, folder)
        with suppress(OSError):  # it is not empty, or it is gone
            os.rmdir("artifacts", dir_fd=folder)
    finally:
        os.close(folder)
    with suppress(OSError):  # it is not empty
        job_dir.rmdir()
    return bool(removable)


def _remove(name: str, folder: int) -> None:
    """Remove a folder in the folder of this descriptor."""
    try:
        shutil.rmtree(name, onerror=_log_failure, dir_fd=folder)
    except RecursionError:  # a script made folders that are deeper than Python walks
        subprocess.run(["rm", "-rf", "--", name], cwd=path_of(folder), stdin=subprocess.DEVNULL, check=False)


def _log_failure(_function: object, path: str, raised: tuple[type[BaseException], BaseException, object]) -> None:
    if not isinstance(raised[1], FileNotFoundError):
        _log.warning("%s cannot be removed: %s", path, raised[1])
