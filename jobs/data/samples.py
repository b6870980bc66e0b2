"""A few images of a version of a dataset, as small PNG files. Stored by `worker.datasets.validator`, read by the api.

The pixels come from a process that opened data which people sent. So they are checked here, and the files are written
here: what a browser gets is a PNG, whatever that data was.
"""

import struct
import zlib
from base64 import b64decode
from collections.abc import Sequence
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from sqlalchemy import delete, exists, select
from sqlalchemy.orm import Session

from jobs.db.storable import storable
from jobs.db.tables import DatasetSample, DatasetVersion

MOST = 24
MOST_BYTES = 128 * 1024  # of the samples of a version
_Side = Annotated[int, Field(ge=1, le=64)]
_COLOUR_TYPES = {1: 0, 3: 2}  # of PNG, by the number of channels


class SampleNotFound(LookupError):
    """The version has no sample of this number."""


class Pixels(BaseModel):
    """One sample, as the process that read it says."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    label: Annotated[str, Field(max_length=1024)]
    height: _Side
    width: _Side
    channels: int
    pixels: Annotated[str, Field(max_length=32 * 1024)]  # base64: (height, width, channel) bytes

    def png(self) -> bytes:
        """The sample as PNG. Raises `ValueError` if its bytes do not fit its sides."""
        content = b64decode(self.pixels, validate=True)
        row = self.width * self.channels
        if self.channels not in _COLOUR_TYPES or len(content) != self.height * row:
            raise ValueError("the pixels do not fit the sides")
        lines = b"".join(b"\0" + content[start : start + row] for start in range(0, len(content), row))
        header = struct.pack(">IIBBBBB", self.width, self.height, 8, _COLOUR_TYPES[self.channels], 0, 0, 0)
        chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""))
        return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def store(session: Session, version_id: int, answer: object) -> int:
    """Store the samples of a version that is ready and has none; returns how many. What is no sample is left out."""
    is_ready = exists().where(
        DatasetVersion.id == version_id, DatasetVersion.status == "ready", DatasetVersion.deleted_at.is_(None)
    )
    has_some = exists().where(DatasetSample.version_id == version_id)
    if not session.scalar(select(is_ready & ~has_some)):
        return 0
    rows: list[DatasetSample] = []
    room = MOST_BYTES
    for label, png in _files(answer):
        room -= len(png)
        if room < 0 or len(rows) == MOST:
            break
        text = storable({"label": label})["label"]
        rows.append(DatasetSample(version_id=version_id, number=len(rows), label=text, png=png))
    session.add_all(rows)
    return len(rows)


def _files(answer: object) -> list[tuple[str, bytes]]:
    said = answer.get("samples") if isinstance(answer, dict) else None
    files = []
    for each in said if isinstance(said, list) else []:
        try:
            pixels = Pixels.model_validate(each)
            files.append((pixels.label, pixels.png()))
        except (ValidationError, ValueError):
            continue
    return files


def labels_of(session: Session, version_id: int) -> Sequence[tuple[int, str]]:
    """The number and the label of each sample of a version."""
    query = select(DatasetSample.number, DatasetSample.label).where(DatasetSample.version_id == version_id)
    return [(number, label) for number, label in session.execute(query.order_by(DatasetSample.number))]


def png_of(session: Session, version_id: int, number: int) -> bytes:
    """A sample as PNG. Raises `SampleNotFound`."""
    sample = session.get(DatasetSample, (version_id, number))
    if sample is None:
        raise SampleNotFound(number)
    return sample.png


def remove(session: Session, version_id: int) -> None:
    """Delete the samples of a version."""
    session.execute(delete(DatasetSample).where(DatasetSample.version_id == version_id))
