"""The header of an encoded image: its kind and size, and whether the image looks whole. Pure, without TensorFlow.

Used by the surveys of `trainer.data`: some 10 µs an image, where decoding one takes milliseconds.

    Damaged     an image that certainly cannot be read
"""

import os
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Kind = Literal["jpeg", "png", "bmp", "gif"]
_Bytes = Callable[[int, int], bytes]  # (offset, count) -> those bytes, or fewer where the image ends

_HEAD_BYTES = 16_384  # of a file, read at once
_MOST_PIXELS = 2**29 // 3  # what TensorFlow decodes in three channels
_BMP_MASKS = struct.pack("<III", 0xFF0000, 0xFF00, 0xFF)  # red, green, blue: the order TensorFlow expects
_GREY_PALETTE = b"".join(bytes((level, level, level, 0)) for level in range(256))
_PNG_CHANNELS = {0: 1, 2: 3, 3: 3, 4: 1, 6: 3}  # by the colour type of its header


class Damaged(Exception):
    """An image that cannot be read; the text says why, to be put after the name of the file and a colon."""


@dataclass(frozen=True)
class Header:
    """The form of an image after decoding. If it is `suspect`, only decoding shows whether it can be decoded."""

    kind: Kind
    height: int
    width: int
    channel: Literal[1, 3]  # grey or colour; an alpha channel does not count
    suspect: bool = False


def check(content: bytes) -> Header:
    """Look at a whole image in memory. Raises `Damaged`."""
    return _check(lambda offset, count: content[offset : offset + count], len(content))


def check_file(descriptor: int) -> Header:
    """Look at an open file with few small reads; a PNG is read whole, for its checksums.

    Raises `Damaged`, `OSError`.
    """
    size = os.fstat(descriptor).st_size
    head = os.pread(descriptor, _HEAD_BYTES, 0)

    def read_at(offset: int, count: int) -> bytes:
        if offset + count <= len(head) or len(head) == size:
            return head[offset : offset + count]
        return os.pread(descriptor, count, offset)

    return _check(read_at, size)


def _check(read_at: _Bytes, size: int) -> Header:
    if size == 0:
        raise Damaged("is empty")
    start = read_at(0, 8)
    try:
        if start.startswith(b"\xff\xd8\xff"):
            header = _check_jpeg(read_at, size)
        elif start == b"\x89PNG\r\n\x1a\n":
            header = _check_png(read_at, size)
        elif start.startswith((b"GIF87a", b"GIF89a")):
            header = _check_gif(read_at, size)
        elif start.startswith(b"BM"):
            header = _check_bmp(read_at, size)
        else:
            raise Damaged("is not a JPEG, PNG, BMP or GIF image")
    except (struct.error, IndexError):
        raise Damaged("is cut off in its header") from None
    if not 0 < header.height * header.width <= _MOST_PIXELS:
        raise Damaged(f"has a header that tells of {header.height}x{header.width} pixels")
    return header


def _check_jpeg(read_at: _Bytes, size: int) -> Header:
    """Segments of a marker and a length, up to the frame header (ITU-T T.81, B.1 and B.2)."""
    offset = 2
    while True:
        marker, code, length = struct.unpack(">BBH", read_at(offset, 4))
        if marker == code == 0xFF:  # any number of fill bytes may come before a marker
            offset += 1
            continue
        if marker != 0xFF or code in (0xD9, 0xDA) or length < 2:  # its end, or its pixels, before its size
            raise Damaged("is a JPEG with a broken header")
        if 0xC0 <= code <= 0xCF and code not in (0xC4, 0xC8, 0xCC):
            break
        offset += 2 + length
    bits, height, width, components = struct.unpack(">BHHB", read_at(offset + 4, 6))
    usual = code <= 0xC2 and bits == 8  # others are lossless, arithmetically coded or of 12 bits
    ends = read_at(size - 2, 2) == b"\xff\xd9"  # cameras write more bytes after it; an incomplete copy lacks it
    return Header("jpeg", height, width, 1 if components == 1 else 3, suspect=not (usual and ends))


def _check_png(read_at: _Bytes, size: int) -> Header:
    """Chunks of length, type, data and checksum, up to the one that ends it (ISO/IEC 15948, 5.3)."""
    length, kind, width, height, _, colour = struct.unpack(">I4sIIBB", read_at(8, 18))
    if kind != b"IHDR" or length != 13 or colour not in _PNG_CHANNELS:
        raise Damaged("is a PNG with a broken header")
    offset, has_pixels = 8, False
    while kind != b"IEND":
        length, kind = struct.unpack(">I4s", read_at(offset, 8))
        has_pixels |= kind == b"IDAT"
        if offset + 12 + length > size:
            raise Damaged("is cut off")
        chunk = read_at(offset + 4, length + 8)
        if zlib.crc32(chunk[:-4]) != int.from_bytes(chunk[-4:]):
            raise Damaged("is a PNG with a wrong checksum")
        offset += 12 + length
        if kind != b"IEND" and offset == size:
            raise Damaged("is cut off")
    if not has_pixels:
        raise Damaged("is a PNG without pixels")
    return Header("png", height, width, 1 if _PNG_CHANNELS[colour] == 1 else 3)


def _check_gif(read_at: _Bytes, size: int) -> Header:
    """The size of the screen. The first picture can have another size: only decoding shows it."""
    width, height = struct.unpack("<HH", read_at(6, 4))
    return Header("gif", height, width, 3, suspect=True)


def _check_bmp(read_at: _Bytes, size: int) -> Header:
    """A file header, an information header of 40 bytes or more, a palette, and rows filled up to 4 bytes."""
    start, header_size, width, height, _, bits, compression = struct.unpack("<I I i i H H I", read_at(10, 24))
    if header_size < 40:
        raise Damaged("is a BMP with a broken header")
    palette = read_at(14 + header_size, start - 14 - header_size) if bits == 8 else b""
    plain = compression == 0 or (compression == 3 and read_at(54, 12) == _BMP_MASKS)
    if not plain or bits not in (8, 24, 32) or not _GREY_PALETTE.startswith(palette):
        raise Damaged("is a BMP that is compressed, has a palette or unusual colour masks, which cannot be read")
    if start + (bits * width + 31) // 32 * 4 * abs(height) != size:
        raise Damaged("has another size than its header tells")
    return Header("bmp", abs(height), width, 1 if bits == 8 else 3)
