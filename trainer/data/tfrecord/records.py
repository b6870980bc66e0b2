"""The records of a TFRecord file. For `trainer.data.tfrecord.source`; without TensorFlow.

A record is its length (uint64), a checksum of it, the content, and a checksum of that, all little-endian:
<https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details>. Nothing in a file is trusted before
its checksum was compared, and no length before it was compared with the size of the file.
"""

import struct
from collections.abc import Iterator
from typing import BinaryIO

import google_crc32c

from trainer.errors import BadData

HEADER_BYTES, TAIL_BYTES = 12, 4  # of a record, around its content
_MOST_BYTES = 2**30  # of a record
_GZIP = b"\x1f\x8b"


def contents_of(file: BinaryIO, size_bytes: int, *, name: str) -> Iterator[bytes]:
    """The content of each record of a file of this size. Raises `BadData`."""
    at = 0
    while at < size_bytes:
        header = file.read(HEADER_BYTES)
        if at == 0 and header[:2] == _GZIP:
            raise BadData(
                f"{name} is compressed: write it without compression, as JPEG and PNG are compressed themselves"
            )
        length = _length(header, at, name)
        if at + HEADER_BYTES + length + TAIL_BYTES > size_bytes:
            raise BadData(f"{name} ends inside the record that begins at byte {at}: is it cut off?")
        if length > _MOST_BYTES:
            raise BadData(f"{name} has a record of {length} bytes, more than {_MOST_BYTES}")
        yield checked(file.read(length + TAIL_BYTES), name=f"{name}: the record at byte {at}")
        at += HEADER_BYTES + length + TAIL_BYTES


def checked(read: bytes, *, name: str) -> bytes:
    """The content out of a record's content and checksum. Raises `BadData`, also if something else is there now."""
    content, tail = read[:-TAIL_BYTES], read[-TAIL_BYTES:]
    if struct.pack("<I", masked_crc(content)) != tail:
        raise BadData(f"{name} is damaged: its checksum is wrong")
    return content


def masked_crc(content: bytes) -> int:
    """The checksum of TFRecord: CRC-32C, rotated by 15 bits, plus a constant."""
    crc: int = google_crc32c.value(content)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def _length(header: bytes, at: int, name: str) -> int:
    if len(header) == HEADER_BYTES:
        length, crc = struct.unpack("<QI", header)
        if masked_crc(header[:8]) == crc:
            return int(length)
    if at == 0:
        raise BadData(f"{name} does not begin as a TFRecord file does")
    raise BadData(f"{name} is damaged at byte {at}: no record begins there")
