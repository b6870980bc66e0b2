"""Encoded images: what their headers tell, and their pixels."""

import io
import os
import re
import struct
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

from tests.pictures import HEIGHT, READABLE, UNREADABLE, WIDTH, encoded, numbered, photo
from tests.waiting import until
from trainer.data.images.decode import Sources, decoded, shape_of
from trainer.data.images.headers import Damaged, Header, check, check_file
from trainer.errors import BadData


def pixels_of(contents: list[bytes], shape: tuple[int, int, int], **options: Any) -> NDArray[np.uint8]:
    """The pixels of all contents, decoded in one batch."""
    options = {"kind": "contents", "resize": False, "threads": 2} | options
    ((_, pixels),) = decoded(iter([(np.arange(len(contents)), contents)]), shape=shape, **options)
    return pixels


def as_pillow_has_it(content: bytes, channel: int) -> NDArray[np.int64]:
    image = Image.open(io.BytesIO(content))
    if image.mode == "I;16":
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if "A" in image.mode:  # dropped, and not painted on black
        image = image.convert("RGBA" if channel == 3 else "LA").split()[0] if channel == 1 else image
    return np.asarray(image.convert("L" if channel == 1 else "RGB"), np.int64).reshape(HEIGHT, WIDTH, channel)


@pytest.mark.parametrize("name", READABLE)
def test_every_kind_of_image_is_decoded_as_pillow_decodes_it(name: str) -> None:
    content, channel = READABLE[name]
    expected = as_pillow_has_it(content, channel)
    pixels = pixels_of([content], (HEIGHT, WIDTH, channel))[0].astype(np.int64)
    assert np.abs(pixels - expected).max() <= (8 if name.startswith("jpeg") else 0)
    assert shape_of(content) == (HEIGHT, WIDTH, channel)


def test_grey_and_colour_images_come_out_in_colour() -> None:
    grey, colour = (READABLE[name][0] for name in ("png, grey", "png"))
    greys = [READABLE[name][0] for name in ("jpeg, grey", "png, grey and alpha", "bmp, grey")]
    for pixels in pixels_of([grey, *greys], (HEIGHT, WIDTH, 3)):
        assert (pixels[..., 0] == pixels[..., 1]).all()
    assert np.ptp(pixels_of([colour], (HEIGHT, WIDTH, 3)), axis=-1).max() > 50


@pytest.mark.parametrize("name", UNREADABLE)
def test_damaged_image_is_found_by_its_header_or_by_decoding_it(name: str) -> None:
    content = UNREADABLE[name]
    try:
        assert check(content).suspect
    except Damaged:
        return
    with pytest.raises(Damaged, match="cannot be decoded"):
        shape_of(content)


@pytest.mark.parametrize("size", [4, 200], ids=["small", "large"])
@pytest.mark.parametrize("kind", ["paths", "contents"])
def test_batches_keep_their_order_their_size_and_their_tags(kind: str, size: int, tmp_path: Path) -> None:
    contents = numbered(100, size)
    sources: list[str] | list[bytes] = contents
    if kind == "paths":
        sources = [str(tmp_path / f"{number}") for number in range(100)]
        for path, content in zip(sources, contents, strict=True):
            Path(path).write_bytes(content)
    tags = np.random.default_rng(0).permutation(100)
    batches = [tags[first : first + 24] for first in range(0, 100, 24)]
    asked: Iterator[Sources] = ((batch, [sources[tag] for tag in batch]) for batch in batches)
    out = list(decoded(asked, kind=kind, shape=(size, size, 1), resize=False, threads=3))  # type: ignore[arg-type]
    assert [tags.tolist() for tags, _ in out] == [batch.tolist() for batch in batches]
    for tags, pixels in out:
        assert (pixels.shape, pixels.dtype) == ((len(tags), size, size, 1), np.uint8)
        assert (pixels == tags.reshape(-1, 1, 1, 1)).all()


def test_images_are_resized_bilinearly_unless_they_have_the_size() -> None:
    image = photo(33, 47)
    expected = np.rint(tf.image.resize(np.asarray(image), (40, 30)).numpy())
    content = encoded(image, "PNG")
    assert (pixels_of([content], (40, 30, 3), resize=True)[0] == expected).all()
    assert (pixels_of([content], (33, 47, 3), resize=True)[0] == np.asarray(image)).all()


@pytest.mark.parametrize(("times", "is_averaged"), [(1, False), (2, True), (4, True), (9, True)])
def test_jpeg_of_at_least_twice_the_size_is_averaged_and_not_sampled(times: int, is_averaged: bool) -> None:
    """Stripes of one pixel: sampling finds light ones and dark ones, averaging finds grey."""
    stripes = np.zeros((16 * times, 16 * times), np.uint8)
    stripes[:, ::2] = 255
    image = encoded(Image.fromarray(stripes), "JPEG", quality=100)
    spread = np.ptp(pixels_of([image], (16, 16, 1), resize=True).astype(int))
    assert (spread < 10) == is_averaged


def test_undecodable_image_raises_an_error_after_the_earlier_batches() -> None:
    contents = numbered(40, 4)
    contents[29] = contents[29][:60]
    batches = ((np.arange(first, first + 8), contents[first : first + 8]) for first in range(0, 40, 8))
    reading = decoded(
        batches, kind="contents", shape=(4, 4, 1), resize=False, threads=2, name_of=lambda tag: f"row {tag}"
    )
    seen = []
    with pytest.raises(BadData, match=r"^row 29 cannot be decoded: Invalid PNG data, size 60$"):
        seen.extend(tags.tolist() for tags, _ in reading)
    assert seen == [list(range(first, first + 8)) for first in (0, 8, 16)]


def test_a_file_that_is_gone_and_an_image_of_another_size_are_named(tmp_path: Path) -> None:
    options: dict[str, Any] = {"shape": (4, 4, 1), "resize": False, "threads": 1}
    with pytest.raises(BadData, match=r"^7 cannot be decoded: .*gone\.png; No such file or directory$"):
        list(decoded(iter([(np.array([7]), [str(tmp_path / "gone.png")])]), kind="paths", **options))
    with pytest.raises(BadData, match=r"^1 cannot be decoded: .*\[5,5,1\].*\[4,4,1\]"):
        pixels_of([*numbered(1, 4), *numbered(1, 5)], (4, 4, 1))


def test_error_of_the_source_comes_after_the_batches_before_it_and_an_empty_one_gives_none() -> None:
    def source() -> Iterator[Sources]:
        yield np.arange(2), numbered(2, 4)
        raise BadData("the disk is on fire")

    reading = decoded(source(), kind="contents", shape=(4, 4, 1), resize=False, threads=1)
    assert next(reading)[0].tolist() == [0, 1]
    with pytest.raises(BadData, match="on fire"):
        next(reading)
    assert list(decoded(iter(()), kind="contents", shape=(4, 4, 1), resize=False, threads=1)) == []


def test_closing_ends_the_threads_and_the_source() -> None:
    closed, contents = [], numbered(16, 4)

    def source() -> Iterator[Sources]:
        try:
            while True:
                yield np.arange(16), contents
        finally:
            closed.append(True)

    def threads() -> int:
        return len(os.listdir("/proc/self/task"))

    def read() -> None:
        reading = decoded(source(), kind="contents", shape=(4, 4, 1), resize=False, threads=4)
        next(reading)
        reading.close()

    read()  # TensorFlow's own threads come with the first use
    before = threads()
    for _ in range(5):
        read()
    assert len(closed) == 6
    until(lambda: threads() <= before)


WHOLE = {kind: READABLE[kind][0] for kind in ("jpeg", "png", "bmp", "gif")}


def check_at(path: Path) -> Header:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return check_file(descriptor)
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("name", READABLE)
def test_a_header_tells_kind_size_and_channels(name: str, tmp_path: Path) -> None:
    content, channel = READABLE[name]
    header = check(content)
    assert (header.kind, header.height, header.width, header.channel) == (
        re.split(r"\W", name, maxsplit=1)[0],
        HEIGHT,
        WIDTH,
        channel,
    )
    assert header.suspect == (name.startswith("gif") or "after its end" in name)
    (tmp_path / "image").write_bytes(content)
    assert check_at(tmp_path / "image") == header


@pytest.mark.parametrize("kind", WHOLE)
def test_truncated_image_is_damaged_or_suspect(kind: str) -> None:
    sure = []
    for size in range(len(WHOLE[kind])):
        with suppress(Damaged):
            sure += [] if check(WHOLE[kind][:size]).suspect else [size]
    assert sure == []


@given(
    kind=st.sampled_from(sorted(WHOLE)),
    at=st.integers(0, 700),
    put=st.binary(min_size=1, max_size=8),
    size=st.integers(0, 4000),
)
@settings(max_examples=150)
def test_any_bytes_give_a_header_or_are_damaged(kind: str, at: int, put: bytes, size: int) -> None:
    content = (WHOLE[kind][:at] + put + WHOLE[kind][at + len(put) :])[:size]
    with suppress(Damaged):
        header = check(content)
        assert header.height * header.width > 0


def test_a_header_of_absurd_size_or_with_a_flipped_bit_is_damaged() -> None:
    with pytest.raises(Damaged, match="wrong checksum"):
        check(UNREADABLE["png, flipped bit"])

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 100_000, 100_000, 8, 2, 0, 0, 0)
    bomb = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")
    with pytest.raises(Damaged, match="100000x100000 pixels"):
        check(bomb)


def test_a_frame_header_far_into_a_file_is_found(tmp_path: Path) -> None:
    """The header lies behind a colour profile and a comment that are larger than one read."""
    content = encoded(photo(), "JPEG", icc_profile=bytes(200_000), comment=b"c" * 60_000)
    (tmp_path / "image").write_bytes(content)
    assert check_at(tmp_path / "image") == check(content) == Header("jpeg", HEIGHT, WIDTH, 3)
