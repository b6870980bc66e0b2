"""Archives of code: what is in them, and unpacking them. They come from strangers: `jobs.data.archives` has the guards.

Called by the process of the api that looks at archives (`api.processes.code_inspection`), by `jobs.data.code_texts`,
and by workers.

    BadArchive      the archive is refused; the text is for its sender
"""

import hashlib
import stat
from pathlib import Path
from typing import NamedTuple

from jobs.data.archives import Content, Counter, Limits, Refused, checked_entries, refusing_damage, unpack_tree
from jobs.model.printable import is_printable

MOST_UNPACKED_BYTES = 2 * 10**9
MOST_FILES = 10_000  # and folders
_MOST_NAMES_BYTES = 1024 * 1024  # of all paths together
_MOST_RATIO = 20.0  # unpacked bytes for each byte of the archive; the first 64 MB are always allowed
_CHUNK_BYTES = 1024 * 1024
_ZSTD = b"\x28\xb5\x2f\xfd"


class BadArchive(ValueError):
    """The archive is refused."""


class CodeFile(NamedTuple):
    """A file of an archive of code."""

    path: str  # with "/" between its parts
    size_bytes: int
    sha256: str  # of its content, in hex


def inspect(archive: Path, *, most_bytes: int = MOST_UNPACKED_BYTES) -> list[CodeFile]:
    """The files of an archive (.tar.gz, .tar or .zip), sorted by path. Raises `BadArchive`.

    `most_bytes` is how many bytes may come out of it. It writes nothing and reads every file.
    """
    limits = limits_of_code(most_bytes)
    try:
        _check_kind(archive)
        counter = Counter(limits, archive.stat().st_size)
        with refusing_damage():
            files = [
                _file_of("/".join(parts), entry.content)
                for parts, entry in checked_entries(archive, counter, limits)
                if _is_printable("/".join(parts)) and entry.content is not None
            ]
    except Refused as refusal:
        raise BadArchive(str(refusal)) from refusal
    if sum(len(file.path.encode()) for file in files) > _MOST_NAMES_BYTES:
        raise BadArchive("the archive will not be unpacked: its names take more than a megabyte")
    return sorted(files)


def unpack(archive: Path, folder: Path) -> None:
    """Unpack into `folder`, which must not exist. Only its owner may use what is in it.

    Executable files stay executable; links, devices and special modes never arise. Raises `BadArchive`, and `OSError`,
    for example if the disk is full or the folder exists.
    """
    try:
        _check_kind(archive)
        unpack_tree(archive, folder, limits_of_code(MOST_UNPACKED_BYTES), keep_executable=True)
    except Refused as refusal:
        raise BadArchive(str(refusal)) from refusal


def limits_of_code(most_bytes: int) -> Limits:
    """The limits on what comes out of an archive of code."""
    return Limits(max_bytes=most_bytes, max_entries=MOST_FILES, max_ratio=_MOST_RATIO)


def _check_kind(archive: Path) -> None:
    """Refuse what is no archive of code. Raises `BadArchive`."""
    if not stat.S_ISREG(archive.stat().st_mode):
        raise BadArchive("this is not a file")
    with archive.open("rb") as file:
        head = file.read(512)
    is_archive = head[:2] in (b"PK", b"\x1f\x8b") or head[257:262] == b"ustar" or not head.strip(b"\0")
    if not is_archive or head[:4] == _ZSTD:
        raise BadArchive("the file is not a known kind of archive: .tar.gz, .tar or .zip")


def _is_printable(path: str) -> bool:
    if not is_printable(path):
        raise BadArchive(f"the archive will not be unpacked: the name {ascii(path)[:100]} has unprintable characters")
    return True


def _file_of(path: str, content: Content) -> CodeFile:
    sha256, size_bytes = hashlib.sha256(), 0
    while chunk := content.read(_CHUNK_BYTES):
        sha256.update(chunk)
        size_bytes += len(chunk)
    return CodeFile(path, size_bytes, sha256.hexdigest())
