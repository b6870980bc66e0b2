"""How many raw pixels an image of a size has, in messages. Pure; used by the readers of raw pixels and of tables."""

from collections.abc import Collection
from math import isqrt

CHANNELS = (1, 3)
_LONGEST_SIDE = 3  # times the other one


def if_pixels(image_size: tuple[int, int] | None) -> str:
    """What to do if bytes that are no encoded image are raw pixels."""
    verb = "set dataset.image_size to" if image_size is None else "correct dataset.image_size, which must be"
    return f"if it is raw pixels, {verb} their height and width"


def why_no_image(lengths: Collection[int], image_size: tuple[int, int] | None, *, unit: str) -> str:
    """Why samples with so many values are no images of the size, and which sizes would fit; the end of a sentence.

    `unit` are bytes, numbers or values.
    """
    if len(lengths) > 1:
        there = f"they have {min(lengths)} to {max(lengths)} {unit}, and raw pixels have as many in each sample"
        return there if image_size is None else f"{there}: {_expected(image_size, unit)}"
    (length,) = lengths
    fitting = [text for channel in CHANNELS if (text := _size_text(length, channel)) is not None]
    fits = f"{' or '.join(fitting)} would fit" if fitting else "no usual size fits"
    there = f"it has {length} {unit}"
    return f"{there}; {fits}" if image_size is None else f"{there}, and {_expected(image_size, unit)}; {fits}"


def _expected(image_size: tuple[int, int], unit: str) -> str:
    height, width = image_size
    return f"{height}x{width} is {height * width} {unit} with 1 channel, or {3 * height * width} with 3"


def _size_text(length: int, channel: int) -> str | None:
    """The size nearest to a square that has so many values; None if there is only a long strip."""
    pixels, rest = divmod(length, channel)
    if rest or not pixels:
        return None
    height = next(side for side in range(isqrt(pixels), 0, -1) if pixels % side == 0)
    width = pixels // height
    return (
        None if width > _LONGEST_SIDE * height else f"[{height}, {width}] with {channel} channel{'s' * (channel > 1)}"
    )
