"""Valid archives, and damaged or hostile ones, for tests that unpack them."""

import gzip
import io
import struct
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.pictures import encoded, photo


def chips(of_each: int = 6, classes: Sequence[str] = ("cracked", "whole"), top: str = "") -> dict[str, bytes]:
    """Small PNG files by path: `of_each` for each class. Every path begins with `top`."""
    return {
        f"{top}{name}/{number}.png": encoded(photo(12, 12, seed=100 * place + number), "PNG")
        for place, name in enumerate(classes)
        for number in range(of_each)
    }


def write_files(folder: Path, files: Mapping[str, bytes]) -> Path:
    """Write files by path below a folder. Returns the folder."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def zip_of(files: Mapping[str, bytes]) -> bytes:
    """A .zip archive of these files."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in files.items():
            file.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return archive.getvalue()


def tar_of(files: Mapping[str, bytes], *members: tarfile.TarInfo) -> bytes:
    """A .tar archive of these files and of further members without content."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as file:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            file.addfile(member, io.BytesIO(content))
        for member in members:
            file.addfile(member)
    return archive.getvalue()


def member(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    """A member of a .tar archive that is not a regular file: a folder, a link or a device."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def gzipped(content: bytes) -> bytes:
    """The content as gzip. It has no time stamp, so the bytes are always the same."""
    return gzip.compress(content, mtime=0)


def zip_link(name: str, target: str) -> bytes:
    """A .zip archive with a symbolic link."""
    info = zipfile.ZipInfo(name)
    info.create_system, info.external_attr = 3, 0o120777 << 16
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr(info, target)
    return archive.getvalue()


def zip_with_false_size(content: bytes, *, stated_bytes: int) -> bytes:
    """A .zip archive with one file. Both headers of the file state a false size."""
    archive = bytearray(zip_of({"a.bin": content}))
    for signature, place in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        at = archive.index(signature) + place
        archive[at : at + 4] = struct.pack("<I", stated_bytes)
    return bytes(archive)


def zip_of_overlapping(content: bytes, times: int) -> bytes:
    """A .zip archive whose entries all point to the same bytes of the archive."""
    whole = zip_of({"00.bin": content})
    first, end = whole.index(b"PK\x01\x02"), whole.index(b"PK\x05\x06")
    entries = b"".join(whole[first:end].replace(b"00.bin", b"%02d.bin" % number) for number in range(times))
    tail = bytearray(whole[end:])
    tail[8:16] = struct.pack("<HHI", times, times, len(entries))
    return whole[:first] + entries + bytes(tail)


def zip_encrypted(files: Mapping[str, bytes]) -> bytes:
    """A .zip archive whose headers say that its files are encrypted."""
    archive = bytearray(zip_of(files))
    for signature, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = archive.find(signature)
        while at >= 0:
            archive[at + place] |= 1
            at = archive.find(signature, at + 4)
    return bytes(archive)
