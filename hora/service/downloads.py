"""Downloads of a job's files, which resume where they were interrupted. Used by `artifacts` and `checkpoints` here.

A file is written under a hidden name with its version, and renamed when it is complete. If the service says which
SHA-256 it has, it must have it. Names come from the service.
Each is checked, and each folder is opened from the one above it. So neither a name nor a link on this disk leads out of
the folder that was given.
"""

import hashlib
import os
import re
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import BinaryIO

import httpx2 as httpx

from hora.errors import HoraError, Json, ProblemError, ServiceUnavailable
from hora.service.transport import PAUSES_S, Transport, api_path
from jobs.data.artifact_files import ArtifactNotFound, parts_of

_CHUNK_BYTES = 256 * 1024
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_TAG = re.compile(r'"([0-9a-z-]{1,80})"')
_PARTIAL = re.compile(r"\.hora-[0-9a-f]{16}\.[0-9a-z-]{1,80}\.part")
_TAG_OF_CONTENT = re.compile(r'"sha256-([0-9a-f]{64})"')

OnBytes = Callable[[str, int, int], None]  # a file's path, its bytes so far, and its size


def fetch_file(wire: Transport, job_id: str, path: str, into: Path, on_bytes: Callable[[int], None]) -> Path:
    """Download one file to the file `into`. Raises `HoraError` if that cannot be written."""
    parts_of_safely(path)
    with _explained(into), _folder_below(into.absolute().parent, []) as folder:
        _Fetch(wire, _artifact(job_id, path), folder, into.name, on_bytes).run()
    return into


def fetch_all(wire: Transport, job_id: str, files: Sequence[Json], top: Path, on_bytes: OnBytes) -> list[Path]:
    """Download the artifacts that are not below `top` already. Raises `HoraError`."""
    # All names are checked before anything is written.
    targets = [
        _Target(parts_of_safely(str(file["path"])), _artifact(job_id, str(file["path"])), file) for file in files
    ]
    return [_fetch_below(wire, target, top, on_bytes) for target in targets]


def fetch_checkpoint(wire: Transport, job_id: str, checkpoint: Json, top: Path, on_bytes: OnBytes) -> list[Path]:
    """Download the files of a checkpoint that are not in the folder `top` already. Raises `HoraError`."""
    targets = [
        _Target(_parts_with_hidden(str(file["path"])), _file_of_checkpoint(job_id, checkpoint, file), file)
        for file in checkpoint["files"]
    ]
    _require_own_folder(top, targets)
    return [_fetch_below(wire, target, top, on_bytes) for target in targets]


@dataclass(frozen=True)
class _Source:
    """A file at the service."""

    url: str
    mark: str  # by which its parts are known on disk
    sha256: str | None = None


@dataclass(frozen=True)
class _Target:
    """The names along a path below a folder here, the file at the service, and what the service's list says of it."""

    parts: list[str]
    source: _Source
    listed: Json


def _artifact(job_id: str, path: str) -> _Source:
    return _Source(api_path("jobs", job_id, "artifacts", *path.split("/")), f"{job_id} {path}")


def _file_of_checkpoint(job_id: str, checkpoint: Json, file: Json) -> _Source:
    path, place = str(file["path"]), (str(checkpoint["attempt"]), str(checkpoint["step"]))
    url = api_path("jobs", job_id, "checkpoints", *place, *path.split("/"))
    return _Source(url, f"{job_id} {'/'.join(place)} {path}", str(file["sha256"]))


def _fetch_below(wire: Transport, target: _Target, top: Path, on_bytes: OnBytes) -> Path:
    *folders, name = target.parts
    path, size = str(target.listed["path"]), int(target.listed["bytes"])
    with _explained(top / path), _folder_below(top, folders) as folder:
        if not _is_there(folder, name, size, target):
            _Fetch(wire, target.source, folder, name, lambda so_far: on_bytes(path, so_far, size)).run()
    on_bytes(path, size, size)
    return top.joinpath(*target.parts)


def parts_of_safely(path: str) -> list[str]:
    """The names along a path from the service. Raises `HoraError` for a path that might lead elsewhere."""
    try:
        return parts_of(path)
    except ArtifactNotFound:
        raise HoraError(f"The job has no file {path!r}: this is not a path below a folder.") from None


def _parts_with_hidden(path: str) -> list[str]:
    """As `parts_of_safely`, where names may begin with a dot: PyTorch saves a `.metadata`."""
    parts = path.split("/")
    parts_of_safely("/".join(part.removeprefix(".") for part in parts))
    return parts


def _require_own_folder(top: Path, targets: Sequence[_Target]) -> None:
    """Put hidden files only where nothing else is: in a home, they could be settings. Raises `HoraError`."""
    hidden = next((target.listed["path"] for target in targets if any(part[0] == "." for part in target.parts)), None)
    if hidden is None or not top.is_dir():
        return
    own = {target.parts[0] for target in targets}
    if any(name not in own and not _PARTIAL.fullmatch(name) for name in os.listdir(top)):
        raise HoraError(f"The checkpoint has the hidden file {hidden!r}, and {top} has other files: name a new folder.")


@contextmanager
def _explained(into: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise HoraError(f"{into} cannot be written: {error.strerror or error}.") from error


@contextmanager
def _folder_below(top: Path, names: Sequence[str]) -> Iterator[int]:
    """The folder along these names, which is made if it does not exist. A link in its place is an `OSError`."""
    top.mkdir(parents=True, exist_ok=True)
    folder = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in names:
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=folder)
            inner = os.open(name, _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = inner
        yield folder
    finally:
        os.close(folder)


def _is_there(folder: int, name: str, size: int, target: _Target) -> bool:
    try:
        on_disk = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    if on_disk.st_size != size or not stat.S_ISREG(on_disk.st_mode):
        return False
    if target.source.sha256 is not None:
        return _sha256(name, folder) == target.source.sha256
    return int(on_disk.st_mtime) == int(datetime.fromisoformat(target.listed["modified_at"]).timestamp())


def _sha256(name: str, folder: int) -> str:
    with os.fdopen(os.open(name, _READ, dir_fd=folder), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class _Fetch:
    """The download of one file into a folder."""

    def __init__(
        self, wire: Transport, source: _Source, folder: int, name: str, on_bytes: Callable[[int], None]
    ) -> None:
        self._wire = wire
        self._source = source
        self._folder = folder
        self._name = name
        self._on_bytes = on_bytes
        mark = hashlib.sha256(source.mark.encode()).hexdigest()[:16]
        self._partial = re.compile(rf"\.hora-{mark}\.([0-9a-z-]{{1,80}})\.part")
        self._named = f".hora-{mark}.{{}}.part"

    def run(self) -> None:
        """Download the file. Tries go on as long as each brings some bytes."""
        pauses = iter(PAUSES_S)
        while True:
            before = self._left_over()
            try:
                return self._try(before)
            except ServiceUnavailable:
                if self._left_over() != before:
                    pauses = iter(PAUSES_S)
                pause = next(pauses, None)
                if pause is None:
                    raise
                time.sleep(pause)
            except ProblemError as error:
                if error.status != 416 or before is None:
                    raise
                os.unlink(
                    self._named.format(before[0]), dir_fd=self._folder
                )  # it is complete, or of a file that became shorter

    def _left_over(self) -> tuple[str, int] | None:
        """The version and the length of the part that an earlier try left."""
        for name in sorted(os.listdir(self._folder)):
            match = self._partial.fullmatch(name)
            if match is not None:
                return match[1], os.stat(name, dir_fd=self._folder, follow_symlinks=False).st_size
        return None

    def _try(self, before: tuple[str, int] | None) -> None:
        headers = {}
        if before is not None and before[1] > 0:
            headers = {"Range": f"bytes={before[1]}-", "If-Range": f'"{before[0]}"'}
        with self._wire.download(self._source.url, headers) as answer:
            etag = answer.headers.get("ETag", "")
            tag = _TAG.fullmatch(etag)
            partial = self._named.format("untagged" if tag is None else tag[1])
            resumes = answer.status_code == 206
            if before is not None and not resumes:  # another version, or it cannot be resumed
                os.unlink(self._named.format(before[0]), dir_fd=self._folder)
            descriptor = os.open(partial, _WRITE | (os.O_APPEND if resumes else os.O_TRUNC), 0o666, dir_fd=self._folder)
            with os.fdopen(descriptor, "wb") as file:
                self._write(answer, file, before[1] if before is not None and resumes else 0)
        self._require_content(partial, etag)
        os.replace(partial, self._name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        modified_at = answer.headers.get("Last-Modified")
        if modified_at is not None:
            at_s = parsedate_to_datetime(modified_at).timestamp()
            os.utime(self._name, (at_s, at_s), dir_fd=self._folder, follow_symlinks=False)

    def _require_content(self, partial: str, etag: str) -> None:
        """Compare a file that has arrived with its digest, as far as one is known. Raises `HoraError`."""
        of_tag = _TAG_OF_CONTENT.fullmatch(etag)
        expected = self._source.sha256 or (of_tag[1] if of_tag is not None else None)
        if expected is not None and _sha256(partial, self._folder) != expected:
            os.unlink(partial, dir_fd=self._folder)
            raise HoraError(f"{self._name} is not what was stored: its SHA-256 is another one. It was not saved.")

    def _write(self, answer: httpx.Response, file: BinaryIO, so_far: int) -> None:
        self._on_bytes(so_far)
        for chunk in answer.iter_bytes(_CHUNK_BYTES):
            file.write(chunk)
            so_far += len(chunk)
            self._on_bytes(so_far)
