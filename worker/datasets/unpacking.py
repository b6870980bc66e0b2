"""Turns an uploaded archive into a folder of data. Run as a process of its own by `worker.contained`."""

import hashlib
import os
from pathlib import Path
from typing import Any

from jobs.data.archives import Limits, Refused, unpack


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Unpack `archive` into the folder `into`: `{"top"}`, the folder below `into` to keep and `"file"`, one in it."""
    archive, into = Path(request["archive"]), Path(request["into"])
    try:
        _check_bytes(archive, size_bytes=request["size_bytes"], sha256=request["sha256"])
        unpack(archive, request["filename"], into, Limits(**request["limits"]))
        os.sync()  # before the row says that the files exist
    except Refused as refusal:
        return {"refused": str(refusal)}
    top = top_of(into)
    return {"top": str(top.relative_to(into)), "file": _only_file(top)}


def _check_bytes(archive: Path, *, size_bytes: int, sha256: str | None) -> None:
    size = archive.stat().st_size
    if size != size_bytes:
        raise Refused(f"the upload has {size} bytes on this host instead of {size_bytes}: send it again")
    if sha256 is None:
        return
    with archive.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != sha256:
        raise Refused(f"the upload has another SHA-256 than its sender stated ({digest}): send it again")


def top_of(folder: Path) -> Path:
    """The folder in which the data begins: archives often contain one folder with everything in it.

    Hidden files do not count, as everywhere else (`trainer.data.listing`).
    """
    while True:
        inside = [path for path in folder.iterdir() if not path.name.startswith(".") and path.name != "__MACOSX"]
        if len(inside) != 1 or not inside[0].is_dir():
            return folder
        folder = inside[0]


def _only_file(folder: Path) -> str | None:
    """The name of the only file there, if the source has to name the file itself, as for arrays."""
    inside = [path for path in folder.iterdir() if not path.name.startswith(".")]
    return inside[0].name if len(inside) == 1 and inside[0].suffix.lower() == ".npz" else None
