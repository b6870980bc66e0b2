"""Encoded images of every kind, valid and damaged, written with Pillow."""

import io
import zipfile
from functools import cache
from typing import Any

import numpy as np
from PIL import Image

HEIGHT, WIDTH = 30, 40


def photo(height: int = HEIGHT, width: int = WIDTH, seed: int = 0) -> Image.Image:
    """A colour image that is smooth, as photographs are."""
    coarse = np.random.default_rng(seed).integers(0, 256, (5, 6, 3), np.uint8)
    return Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)


def encoded(image: Image.Image, kind: str, **options: Any) -> bytes:
    """The bytes of an image file of this kind."""
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def numbered(count: int, size: int) -> list[bytes]:
    """PNG images. The grey value of an image is its number."""
    return [plain(number, (size, size)) for number in range(count)]


@cache
def plain(colour: tuple[int, int, int] | int, size: tuple[int, int] = (6, 6)) -> bytes:
    """A PNG image of one colour, or of one grey. Its size is (width, height)."""
    return encoded(Image.new("L" if isinstance(colour, int) else "RGB", size, colour), "PNG")


def _readable() -> dict[str, tuple[bytes, int]]:
    colour, grey = photo(), photo().convert("L")
    animated = encoded(colour, "GIF", save_all=True, append_images=[photo(seed=1), photo(seed=2)])
    jpeg = encoded(colour, "JPEG")
    return {
        "jpeg": (jpeg, 3),
        "jpeg, grey": (encoded(grey, "JPEG"), 1),
        "jpeg, progressive": (encoded(colour, "JPEG", progressive=True), 3),
        "jpeg, cmyk": (encoded(colour.convert("CMYK"), "JPEG"), 3),
        "jpeg with bytes after its end": (jpeg + b"\0\0a film of the moment before", 3),
        "png": (encoded(colour, "PNG"), 3),
        "png, grey": (encoded(grey, "PNG"), 1),
        "png, black and white": (encoded(grey.convert("1"), "PNG"), 1),
        "png, 16 bits": (encoded(Image.fromarray(np.asarray(grey).astype(np.uint16) * 257), "PNG"), 1),
        "png, palette": (encoded(colour.convert("P"), "PNG"), 3),
        "png, alpha": (encoded(colour.convert("RGBA"), "PNG"), 3),
        "png, grey and alpha": (encoded(grey.convert("LA"), "PNG"), 1),
        "bmp": (encoded(colour, "BMP"), 3),
        "bmp, grey": (encoded(grey, "BMP"), 1),
        "bmp, alpha": (encoded(colour.convert("RGBA"), "BMP"), 3),
        "gif": (encoded(colour, "GIF"), 3),
        "gif, animated": (animated, 3),
    }


def _unreadable() -> dict[str, bytes]:
    colour = photo()
    whole = {kind: encoded(colour, kind) for kind in ("JPEG", "PNG", "BMP", "GIF")}
    flipped = bytearray(whole["PNG"])
    flipped[len(flipped) // 2] ^= 1
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("a", "b")
    return {
        "nothing": b"",
        "text": b"not an image at all",
        "zip": archive.getvalue(),
        "zeros": bytes(5000),
        "png, flipped bit": bytes(flipped),
        "bmp, palette": encoded(colour.convert("P"), "BMP"),
        "bmp, black and white": encoded(colour.convert("1"), "BMP"),
        "jpeg, zeros after its header": whole["JPEG"][:600] + bytes(len(whole["JPEG"]) - 600),
        **{f"{kind.lower()}, cut after {share} %": whole[kind][: len(whole[kind]) * share // 100]
           for kind in whole for share in (1, 20, 60, 99) if (kind, share) != ("GIF", 99)},
    }  # fmt: skip


READABLE = _readable()  # content; and channels: 1 is grey, 3 is colour
UNREADABLE = _unreadable()
