"""The room in the folders that Hora writes: a floor of free bytes and of free files for each file system.

Workers measure their folders with each heartbeat (`worker.host.space_watch`), and jobs are placed only on hosts that
are above the floor. The api looks before it takes a piece of an upload, and `hora doctor` shows all folders.

`FOLDERS` is the only list of these folders. A test fails if a stack makes a folder in its home that is not in it.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from jobs.runtime.files import FULL, size_text
from jobs.runtime.settings import Settings

_FULL_TEXTS = tuple(os.strerror(number) for number in sorted(FULL))

# Without a setting: this much, but not more than a share of the file system, so that small disks can be used.
DEFAULT_BYTES, DEFAULT_FILES, DEFAULT_SHARE = 1_000_000_000, 10_000, 0.05
# A file system that was below its floor has room again with a fifth more than the floor, or it would change all the
# time. Not more than this share of the file system, so that a floor near its size can be reached.
_MORE_AGAIN, _MOST_MORE_SHARE = 0.2, 0.01

FOLDERS: Mapping[str, Callable[[Settings], Path]] = {
    "home": lambda settings: settings.home,
    "runs": lambda settings: settings.runs_dir,
    "datasets": lambda settings: settings.datasets,
    "cache": lambda settings: settings.cache_folder,
    "weights": lambda settings: settings.home / "weights",
    "packages": lambda settings: settings.packages_dir,
    "database": lambda settings: settings.home / "postgres",
    "logs": lambda settings: settings.home / "logs",
    "sockets": lambda settings: settings.home / "run",
    "ssh": lambda settings: settings.home / "ssh",
    "slurm": lambda settings: settings.home / "slurm",
    "keras": lambda settings: settings.home / ".keras",
}


@dataclass(frozen=True)
class FolderSpace:
    """The free space of the file system of some folders, and its floor. None: it does not count files."""

    folders: tuple[str, ...]
    free_bytes: int
    least_bytes: int
    free_files: int | None = None
    least_files: int | None = None
    read_only: bool = False

    @property
    def problem(self) -> str | None:
        """Why nothing more should be written there; None if there is room."""
        names = "HORA_HOME" if "home" in self.folders else " and ".join(self.folders)
        have = "have" if len(self.folders) > 1 and "home" not in self.folders else "has"
        if self.read_only:
            return f"{names} cannot be written"
        if self.free_bytes < self.least_bytes:
            return f"{names} {have} {size_text(self.free_bytes)} free, less than {size_text(self.least_bytes)}"
        if self.free_files is not None and self.least_files is not None and self.free_files < self.least_files:
            return f"{names} {have} room for {self.free_files:,} more files, less than {self.least_files:,}"
        return None

    def to_json(self) -> dict[str, Any]:
        """The form in which a host's row stores it."""
        return asdict(self)


def measure(
    settings: Settings, names: Iterable[str] = FOLDERS, *, before: Iterable[FolderSpace] = ()
) -> list[FolderSpace]:
    """The space of these folders, an entry for each file system. A folder that cannot be looked at is left out.

    `before` is an earlier measurement: what was below its floor then has a higher floor now. May block while a network
    file system does not answer.
    """
    folders: dict[int, list[str]] = {}
    places: dict[int, Path] = {}
    for name in names:
        try:
            place = _existing(FOLDERS[name](settings))
            device = place.stat().st_dev
        except OSError:
            continue
        folders.setdefault(device, []).append(name)
        places.setdefault(device, place)
    short = {name for space in before if space.problem is not None for name in space.folders}
    return list(_measured(settings, folders, places, short))


def problem_of(spaces: Iterable[FolderSpace]) -> str | None:
    """Why nothing more should be written to some of them; None if all have room."""
    return "; ".join(problem for space in spaces if (problem := space.problem) is not None) or None


def shortage(settings: Settings, *names: str) -> str | None:
    """Why nothing more should be written to these folders (none: all of them). None if they have room."""
    return problem_of(measure(settings, names or FOLDERS))


def has_database(settings: Settings) -> bool:
    """Whether the embedded database is on this machine. The folder stays when another database is set."""
    return "host=" in settings.database_url and FOLDERS["database"](settings).is_dir()


def is_full(error: BaseException | None) -> bool:
    """Whether an error, or one that caused it, says that a disk is full or cannot be written."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in FULL:
            return True
        error = error.__cause__ or error.__context__
    return False


def says_full(text: str) -> bool:
    """Whether another program says so."""
    return any(words in text for words in _FULL_TEXTS)


def can_write(folder: Path, size_bytes: int = 65_536) -> bool:
    """Whether a small file can be made there now. For the end of something that may have failed for lack of room."""
    probe = folder / f".probe-{os.getpid()}"
    try:
        probe.write_bytes(b"\0" * size_bytes)
    except OSError as error:
        return error.errno not in FULL
    finally:
        with suppress(OSError):  # a read-only file system refuses to remove also what is not there
            probe.unlink()
    return True


def _measured(
    settings: Settings, folders: Mapping[int, Sequence[str]], places: Mapping[int, Path], short: Set[str]
) -> Iterator[FolderSpace]:
    for device, place in places.items():
        try:
            status = os.statvfs(place)
        except OSError:
            continue
        all_bytes, all_files = status.f_blocks * status.f_frsize, status.f_files
        counts_files = all_files > 0  # btrfs and others count none
        was_short = not short.isdisjoint(folders[device])
        yield FolderSpace(
            folders=tuple(folders[device]),
            free_bytes=status.f_bavail * status.f_frsize,
            least_bytes=_least(settings.min_free_gb, 1e9, DEFAULT_BYTES, all_bytes, was_short),
            free_files=status.f_favail if counts_files else None,
            least_files=_least(settings.min_free_files, 1, DEFAULT_FILES, all_files, was_short)
            if counts_files
            else None,
            read_only=bool(status.f_flag & os.ST_RDONLY),
        )


def _least(configured: float | None, unit: float, default: int, in_all: int, was_short: bool) -> int:
    floor = min(default, DEFAULT_SHARE * in_all) if configured is None else configured * unit
    return int(floor + min(_MORE_AGAIN * floor, _MOST_MORE_SHARE * in_all)) if was_short else int(floor)


def _existing(path: Path) -> Path:
    """The folder, or the nearest one above it that exists."""
    return next((place for place in (path, *path.parents) if place.exists()), path)
