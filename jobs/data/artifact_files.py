"""What jobs left, as files below a folder of their own: `RUNS/JOB/artifacts`. Called by the api and the command line.

Whatever a job wrote there, nothing outside the folder can be reached through it: every part of a path is opened from
the folder above it and no link is followed, so that what is checked is what is read, also while somebody changes it.

    ArtifactNotFound    no regular file has this path there
    ArtifactsUnseen     this process does not see the disk on which the job's folder lies
"""

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

_MAX_PATH = 1000
_MAX_DEPTH = 20
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # to open a pipe would wait for its writer


class ArtifactNotFound(LookupError):
    """No regular file has this path among the job's artifacts."""


class ArtifactsUnseen(LookupError):
    """The folder is not there, although the job ran."""


@dataclass(frozen=True)
class Artifact:
    """A file that a job left; `path` is below the folder, with slashes."""

    path: str
    bytes: int
    modified_at: datetime
    etag: str  # strong: another file, length or time of change is another tag


@dataclass(frozen=True)
class OpenArtifact:
    """An artifact that is open to be read. It stays whole and the same whatever takes its name."""

    descriptor: int
    artifact: Artifact


def artifacts_dir(runs_dir: Path, job_id: str) -> Path:
    """Where the artifacts of a job lie on a host that ran it."""
    return runs_dir / job_id / "artifacts"


def parts_of(path: str) -> list[str]:
    """The names along a path. Raises `ArtifactNotFound` for one that no artifact has.

    Hidden names are those of files that are still being written.
    """
    parts = path.split("/")
    if len(path) > _MAX_PATH or len(parts) > _MAX_DEPTH or not all(map(_is_plain, parts)):
        raise ArtifactNotFound(path)
    return parts


def _is_plain(name: str) -> bool:
    return bool(name) and not name.startswith(".") and not _CONTROL.search(name) and len(os.fsencode(name)) <= 255


def listed(runs_dir: Path, job_id: str) -> list[Artifact]:
    """All artifacts of a job by their paths, in order. Raises `ArtifactsUnseen`."""
    with _opened_folder(runs_dir, job_id) as folder:
        return sorted(_below(folder, ""), key=lambda artifact: artifact.path)


def opened(runs_dir: Path, job_id: str, path: str) -> OpenArtifact:
    """Open an artifact; the caller closes it. Raises `ArtifactNotFound`, `ArtifactsUnseen`."""
    *folders, name = parts_of(path)
    with _opened_folder(runs_dir, job_id) as top:
        folder = os.dup(top)
        try:
            for part in folders:
                inner = _open(part, _FOLDER, folder, path)
                os.close(folder)
                folder = inner
            descriptor = _open(name, _FILE, folder, path)
        finally:
            os.close(folder)
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        os.close(descriptor)
        raise ArtifactNotFound(path)
    return OpenArtifact(descriptor, _artifact(path, found))


def _open(name: str, flags: int, folder: int, path: str) -> int:
    try:
        return os.open(name, flags, dir_fd=folder)
    except OSError:  # not there, a link, or of another kind
        raise ArtifactNotFound(path) from None


@contextmanager
def _opened_folder(runs_dir: Path, job_id: str) -> Iterator[int]:
    """The job's folder; the operator may have made a link of `runs_dir`, but nobody of what is below it."""
    descriptors: list[int] = []
    try:
        try:
            descriptors.append(os.open(runs_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
            for name in (job_id, "artifacts"):
                descriptors.append(os.open(name, _FOLDER, dir_fd=descriptors[-1]))
        except OSError:
            raise ArtifactsUnseen(job_id) from None
        yield descriptors[-1]
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _below(folder: int, prefix: str) -> Iterator[Artifact]:
    for name in os.listdir(folder):
        path = prefix + name
        try:
            parts_of(path)
        except ArtifactNotFound:  # what could not be asked for is not told of
            continue
        with suppress(OSError):  # it went away meanwhile
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISREG(found.st_mode):
                yield _artifact(path, found)
            elif stat.S_ISDIR(found.st_mode):
                yield from _inside(name, folder, f"{path}/")


def _inside(name: str, folder: int, prefix: str) -> Iterator[Artifact]:
    inner = os.open(name, _FOLDER, dir_fd=folder)
    try:
        yield from _below(inner, prefix)
    finally:
        os.close(inner)


def _artifact(path: str, found: os.stat_result) -> Artifact:
    modified_at = datetime.fromtimestamp(found.st_mtime_ns // 1_000_000_000, UTC)
    return Artifact(path, found.st_size, modified_at, f'"{found.st_ino:x}-{found.st_size:x}-{found.st_mtime_ns:x}"')
