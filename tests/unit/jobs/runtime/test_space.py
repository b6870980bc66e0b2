"""The floor of each file system that Hora writes, and the errors of a full one."""

import errno
import os
import re
from pathlib import Path
from typing import Any

import pytest

from jobs.runtime import space
from jobs.runtime.settings import Settings
from jobs.runtime.space import FolderSpace, can_write, is_full, measure, problem_of, says_full, shortage


def settings(home: Path, **values: Any) -> Settings:
    return Settings(home=home, **values)


def test_folders_of_one_file_system_are_measured_together_with_a_floor(tmp_path: Path) -> None:
    (measured,) = measure(settings(tmp_path))
    status = os.statvfs(tmp_path)
    assert set(measured.folders) == set(space.FOLDERS)
    assert measured.least_bytes == min(10**9, int(0.05 * status.f_blocks * status.f_frsize))
    assert 0 < measured.free_bytes <= status.f_blocks * status.f_frsize
    unusable = Path("/", "x" * 300)  # as a folder of another user, or one on a disk with errors: it hides no other
    (measured,) = measure(settings(tmp_path, datasets_dir=unusable))
    assert set(measured.folders) == set(space.FOLDERS) - {"datasets"}
    (chosen,) = measure(settings(tmp_path, min_free_gb=1e6, min_free_files=10**12), ["runs"])
    assert (chosen.least_bytes, chosen.folders) == (10**15, ("runs",))
    assert shortage(settings(tmp_path, min_free_gb=1e6), "runs") is not None
    assert shortage(settings(tmp_path, min_free_gb=0, min_free_files=0)) is None
    assert can_write(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_elsewhere_has_an_entry_of_its_own(tmp_path: Path) -> None:
    if os.stat("/dev/shm").st_dev == tmp_path.stat().st_dev:
        pytest.skip("/dev/shm is on the same file system")
    entries = measure(settings(tmp_path, datasets_dir=Path("/dev/shm/none/such")))
    assert ("datasets",) in [entry.folders for entry in entries]


@pytest.mark.parametrize(
    ("measured", "problem"),
    [
        (FolderSpace(("runs",), 800_000, 800_000), None),
        (FolderSpace(("runs",), 799_999, 800_000), "runs has 0.8 MB free, less than 0.8 MB"),
        (FolderSpace(("runs", "cache"), 0, 10**9), "runs and cache have 0.0 MB free, less than 1.0 GB"),
        (FolderSpace(("home", "runs"), 0, 10**9), "HORA_HOME has 0.0 MB free, less than 1.0 GB"),
        (FolderSpace(("runs",), 10, 5, 99, 100), "runs has room for 99 more files, less than 100"),
        (FolderSpace(("runs",), 10, 5, None, None), None),
        (FolderSpace(("runs",), 10, 5, read_only=True), "runs cannot be written"),
    ],
)
def test_a_problem_names_the_folder_its_free_space_and_the_floor(measured: FolderSpace, problem: str | None) -> None:
    assert measured.problem == problem
    assert problem_of([measured, FolderSpace(("cache",), 9, 5)]) == problem


def test_the_errors_of_a_full_disk_are_recognized_behind_others() -> None:
    def wrapped(number: int) -> BaseException:
        try:
            try:
                raise OSError(number, os.strerror(number))
            except OSError as error:
                raise RuntimeError("it failed") from error
        except RuntimeError as error:
            return error

    assert all(is_full(wrapped(number)) for number in (errno.ENOSPC, errno.EDQUOT, errno.EROFS))
    assert not is_full(wrapped(errno.EACCES))
    assert says_full("leaving: [Errno 28] No space left on device: '/x'")
    assert not says_full("Permission denied")


# Files of the stack, which count as `home`; a file that is removed at once; programs that the first start unpacks.
NOT_FOLDERS = {"url", "token", "state.json", "keeper.lock", ".doctor", "postgresql-"}


def test_every_folder_below_the_home_has_a_floor() -> None:
    """A new folder needs a line in `jobs.runtime.space.FOLDERS`, or it can fill a disk unseen."""
    root = Path(__file__).parents[4]
    sources = [path for part in ("api", "hora", "jobs", "worker", "trainer") for path in (root / part).rglob("*.py")]
    names = {
        name
        for path in sources
        for name in re.findall(r'\bhome(?:\.path)?\)? / f?"([^"{]+)', path.read_text())
        + (re.findall(r'self\.path / f?"([^"{]+)', path.read_text()) if path.name == "home.py" else [])
    }
    home = Path("/home-of-hora")
    listed = {path.name for place in space.FOLDERS.values() if (path := place(settings(home))) != home}
    assert names - NOT_FOLDERS <= listed, f"not in FOLDERS: {names - NOT_FOLDERS - listed}"
    assert {"runs", "datasets", "cache", "weights", "postgres"} <= names
