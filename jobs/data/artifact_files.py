"""The artifacts of jobs as files, below the folder `RUNS/JOB/artifacts`. Called by the api and the command line.

A job can write anything there, but nothing outside the folder can be reached through it: every part of a path is opened
from the folder above it, and no link is followed. So the file that was checked is the file that is read, even while
somebody changes the folder.

    ArtifactNotFound    no regular file has this path there
    ArtifactsUnseen     this process does not see the disk with the job's folder
"""

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from jobs.runtime.open_folders import FOLDER, open_below

_MAX_PATH = 1000
_MAX_DEPTH = 20
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


class ArtifactNotFound(LookupError):
    """No regular file has this path among the job's artifacts."""


class ArtifactsUnseen(LookupError):
    """This process does not see the job's folder, although the job ran."""


@dataclass(frozen=True)
class Artifact:
    """A file that a job left; `path` is below the folder, with slashes."""

    path: str
    bytes: int
    modified_at: datetime
    etag: str  # strong: it changes with the file, its length and its time of change


@dataclass(frozen=True)
class OpenArtifact:
    """An artifact that is open for reading. It stays the same even if another file takes its name."""

    descriptor: int
    artifact: Artifact


def artifacts_dir(runs_dir: Path, job_id: str) -> Path:
    """The folder of a job's artifacts, on a host that ran the job."""
    return runs_dir / job_id / "artifacts"


def parts_of(path: str) -> list[str]:
    """The names along a path. Raises `ArtifactNotFound` for a path that no artifact can have.

    Files with hidden names are still being written, so they are no artifacts.
    """
    parts = path.split("/")
    if len(path) > _MAX_PATH or len(parts) > _MAX_DEPTH or not all(map(_is_plain, parts)):
        raise ArtifactNotFound(path)
    return parts


def _is_plain(name: str) -> bool:
    return bool(name) and not name.startswith(".") and not _CONTROL.search(name) and len(os.fsencode(name)) <= 255


def listed(runs_dir: Path, job_id: str) -> list[Artifact]:
    """All artifacts of a job, sorted by path. Raises `ArtifactsUnseen`."""
    with _opened_folder(runs_dir, job_id) as folder:
        return sorted(_below(folder, ""), key=lambda artifact: artifact.path)


def opened(runs_dir: Path, job_id: str, path: str) -> OpenArtifact:
    """Open an artifact; the caller closes it. Raises `ArtifactNotFound`, `ArtifactsUnseen`."""
    parts_of(path)
    with _opened_folder(runs_dir, job_id) as top:
        try:
            descriptor = open_below(top, path)
        except OSError:  # it does not exist, is a link, or is of another kind
            raise ArtifactNotFound(path) from None
    return OpenArtifact(descriptor, _artifact(path, os.fstat(descriptor)))


@contextmanager
def _opened_folder(runs_dir: Path, job_id: str) -> Iterator[int]:
    """The job's folder. `runs_dir` may be a link, if the operator made it one. Nothing below it may be a link."""
    descriptors: list[int] = []
    try:
        try:
            descriptors.append(os.open(runs_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
            for name in (job_id, "artifacts"):
                descriptors.append(os.open(name, FOLDER, dir_fd=descriptors[-1]))
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
        except ArtifactNotFound:  # a file that could not be downloaded is not listed
            continue
        with suppress(OSError):  # it was removed meanwhile
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISREG(status.st_mode):
                yield _artifact(path, status)
            elif stat.S_ISDIR(status.st_mode):
                yield from _inside(name, folder, f"{path}/")


def _inside(name: str, folder: int, prefix: str) -> Iterator[Artifact]:
    inner = os.open(name, FOLDER, dir_fd=folder)
    try:
        yield from _below(inner, prefix)
    finally:
        os.close(inner)


def _artifact(path: str, status: os.stat_result) -> Artifact:
    modified_at = datetime.fromtimestamp(status.st_mtime_ns // 1_000_000_000, UTC)
    return Artifact(path, status.st_size, modified_at, f'"{status.st_ino:x}-{status.st_size:x}-{status.st_mtime_ns:x}"')
