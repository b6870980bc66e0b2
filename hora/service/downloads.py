"""Downloads of a job's files, which resume where they were interrupted. Used by `hora.service.artifacts`.

A file is written under a hidden name with its version, and renamed when it is complete. Names come from the service.
Each is checked, and each folder is opened from the one above it. So neither a name nor a link on this disk leads out of
the folder that was given.
"""

import hashlib
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
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
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_TAG = re.compile(r'"([0-9a-z-]{1,80})"')


def fetch_file(wire: Transport, job_id: str, path: str, into: Path, on_bytes: Callable[[int], None]) -> Path:
    """Download one file to the file `into`. Raises `HoraError` if that cannot be written."""
    parts_of_safely(path)
    with _explained(into), _folder_below(into.absolute().parent, []) as folder:
        _Fetch(wire, job_id, path, folder, into.name, on_bytes).run()
    return into


def fetch_all(
    wire: Transport, job_id: str, files: Sequence[Json], top: Path, on_bytes: Callable[[str, int, int], None]
) -> list[Path]:
    """Download the files that are not below `top` already. Raises `HoraError`."""
    files_and_parts = [(file, parts_of_safely(str(file["path"]))) for file in files]  # all, before anything is written
    for file, (*folders, name) in files_and_parts:
        path, size = str(file["path"]), int(file["bytes"])
        with _explained(top / path), _folder_below(top, folders) as folder:
            if not _is_there(folder, name, size, file["modified_at"]):

                def report(so_far: int, path: str = path, size: int = size) -> None:
                    on_bytes(path, so_far, size)

                _Fetch(wire, job_id, path, folder, name, report).run()
        on_bytes(path, size, size)
    return [top.joinpath(*parts) for _, parts in files_and_parts]


def parts_of_safely(path: str) -> list[str]:
    """The names along a path from the service. Raises `HoraError` for a path that might lead elsewhere."""
    try:
        return parts_of(path)
    except ArtifactNotFound:
        raise HoraError(f"The job has no file {path!r}: this is not a path below a folder.") from None


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


def _is_there(folder: int, name: str, size: int, modified_at: str) -> bool:
    try:
        on_disk = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return on_disk.st_size == size and int(on_disk.st_mtime) == int(datetime.fromisoformat(modified_at).timestamp())


class _Fetch:
    """The download of one file into a folder."""

    def __init__(
        self, wire: Transport, job_id: str, path: str, folder: int, name: str, on_bytes: Callable[[int], None]
    ) -> None:
        self._wire = wire
        self._url = api_path("jobs", job_id, "artifacts", *path.split("/"))
        self._folder = folder
        self._name = name
        self._on_bytes = on_bytes
        mark = hashlib.sha256(f"{job_id} {path}".encode()).hexdigest()[:16]
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
        with self._wire.download(self._url, headers) as answer:
            tag = _TAG.fullmatch(answer.headers.get("ETag", ""))
            partial = self._named.format("untagged" if tag is None else tag[1])
            resumes = answer.status_code == 206
            if before is not None and not resumes:  # another version, or it cannot be resumed
                os.unlink(self._named.format(before[0]), dir_fd=self._folder)
            descriptor = os.open(partial, _WRITE | (os.O_APPEND if resumes else os.O_TRUNC), 0o666, dir_fd=self._folder)
            with os.fdopen(descriptor, "wb") as file:
                self._write(answer, file, before[1] if before is not None and resumes else 0)
        os.replace(partial, self._name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        modified_at = answer.headers.get("Last-Modified")
        if modified_at is not None:
            at_s = parsedate_to_datetime(modified_at).timestamp()
            os.utime(self._name, (at_s, at_s), dir_fd=self._folder, follow_symlinks=False)

    def _write(self, answer: httpx.Response, file: BinaryIO, so_far: int) -> None:
        self._on_bytes(so_far)
        for chunk in answer.iter_bytes(_CHUNK_BYTES):
            file.write(chunk)
            so_far += len(chunk)
            self._on_bytes(so_far)
