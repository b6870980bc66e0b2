"""Steps that change training samples by chance, and those that mix them."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.trainer.augmenting import changed, items_of, photos, trained
from trainer.data.mixing import cutmix, mixup

CLASSES = 5
STEPS: list[dict[str, Any]] = [
    {"name": "crop", "padding": 3},
    {"name": "resized_crop"},
    {"name": "color", "brightness": 0.4, "contrast": 0.4, "saturation": 0.4, "hue": 0.1},
    {"name": "erase"},
    {"name": "rotate_180"},
]
MIXERS: list[dict[str, Any]] = [{"name": "mixup"}, {"name": "cutmix", "chance": 0.8}]


@given(ranks=st.integers(1, 4), per_rank=st.integers(1, 4), epoch=st.integers(1, 2), first=st.integers(0, 4))
@settings(max_examples=12)
def test_all_steps_are_the_same_on_n_ranks_and_after_a_restart(
    ranks: int, per_rank: int, epoch: int, first: int
) -> None:
    items, pixels = items_of("flip_horizontal", *STEPS, "rotate_180", *MIXERS), photos(32)
    gone = 4 * (epoch - 1) + first
    alone = trained(items, pixels, per_rank=per_rank * ranks, steps=gone + 2, classes=CLASSES)[gone:]
    together = [
        trained(
            items, pixels, per_rank=per_rank, steps=2, epoch=epoch, first=first, classes=CLASSES,
            schedule={"rank": rank, "ranks": ranks},
        )
        for rank in range(ranks)
    ]  # fmt: skip
    for whole, *shares in zip(alone, *together, strict=True):
        for name in ("features", "labels"):
            assert (getattr(whole, name) == np.concatenate([getattr(share, name) for share in shares])).all()


def test_plain_names_are_drawn_as_before_whatever_stands_beside_them() -> None:
    """A job that is restarted by a newer version goes on with the same samples."""
    pixels = photos(64)
    erase = {"name": "erase", "scale": [1.0, 1.0], "chance": 1e-9}
    before = changed(["flip_horizontal", "rotate_180"], pixels, per_rank=16)
    assert (before == changed(items_of(erase, "flip_horizontal", erase, "rotate_180"), pixels, per_rank=16)).all()


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("step", STEPS, ids=lambda step: step["name"])
def test_a_step_keeps_shape_dtype_and_range(step: dict[str, Any], dtype: str) -> None:
    pixels = photos(64, dtype)
    value_range = (0.0, 255.0) if dtype == "uint8" else (-1.0, 1.0)
    plain = changed([], pixels, per_rank=16)
    always = changed(items_of(step | {"chance": 1}), pixels, per_rank=16, value_range=value_range)
    assert (always.shape, always.dtype) == (plain.shape, plain.dtype)
    assert value_range[0] <= always.min() < always.max() <= value_range[1]
    differs = (always != plain).any(axis=(2, 3, 4))
    assert differs.mean() > 0.9  # a crop may take the middle
    rarely = changed(items_of(step | {"chance": 0.25}), pixels, per_rank=16, value_range=value_range)
    assert 0.05 < (rarely != plain).any(axis=(2, 3, 4)).mean() < 0.5


def test_crop_cuts_every_place_of_the_image_with_its_black_border() -> None:
    pixels = np.tile(np.arange(1, 5, dtype=np.float32).reshape(1, 2, 2, 1), (64, 1, 1, 1))
    crops = changed(items_of({"name": "crop", "padding": 1}), pixels, per_rank=64, steps=20, value_range=(-1.0, 4.0))
    bordered = np.pad(pixels[0, ..., 0], 1, constant_values=-1)  # black in the range of the values
    expected = {tuple(bordered[y : y + 2, x : x + 2].ravel()) for y in range(3) for x in range(3)}
    assert {tuple(window.ravel()) for window in crops.reshape(-1, 2, 2)} == expected


def test_a_crop_is_flipped_half_of_the_time_beside_one_plain_name() -> None:
    pixels = photos(64)
    crops = changed(items_of({"name": "crop"}), pixels, per_rank=64, steps=20)
    both = changed(items_of({"name": "crop"}, "flip_horizontal"), pixels, per_rank=64, steps=20)
    same = (both == crops).all(axis=(2, 3, 4))
    flipped = (both == crops[:, :, :, ::-1]).all(axis=(2, 3, 4))
    assert (same | flipped).all()
    assert 0.4 < flipped.mean() < 0.6


def test_a_resized_crop_is_the_image_or_a_part_of_it() -> None:
    pixels = photos(32)
    whole = items_of({"name": "resized_crop", "scale": [1, 1], "ratio": [10 / 12, 10 / 12]})
    assert (changed(whole, pixels, per_rank=16) == changed([], pixels, per_rank=16)).all()
    ramp = np.tile(np.arange(64, dtype=np.float32)[np.newaxis, :, np.newaxis, np.newaxis], (8, 1, 64, 1))
    for image in changed(items_of({"name": "resized_crop"}), ramp, per_rank=8, value_range=(0.0, 63.0))[0]:
        rows = np.diff(image[:, 0, 0])
        assert rows.min() >= 0
        assert np.allclose(rows, rows.mean(), atol=1e-3)
        assert (image == image[:, :1]).all()


def test_color_changes_brightness_by_one_factor_and_keeps_its_mean_otherwise() -> None:
    pixels = np.full((8, 4, 4, 3), 0.5, np.float32)
    bright = changed(items_of({"name": "color", "brightness": 0.5}), pixels, per_rank=8, value_range=(0.0, 1.0))
    assert (np.ptp(bright, axis=(2, 3, 4)) < 1e-6).all()
    assert 0.25 <= bright.min() < bright.max() <= 0.75
    pixels = (0.4 + 0.2 * np.random.default_rng(2).random((8, 6, 6, 3))).astype(np.float32)
    step = {"name": "color", "contrast": 0.3, "saturation": 0.3, "hue": 0.05}
    recoloured = changed(items_of(step), pixels, per_rank=8, steps=1, value_range=(0.0, 1.0))[0]
    plain = changed([], pixels, per_rank=8, steps=1)[0]
    grey = np.array([0.299, 0.587, 0.114])
    assert np.allclose((recoloured @ grey).mean(axis=(1, 2)), (plain @ grey).mean(axis=(1, 2)), atol=1e-3)
    assert (np.abs(recoloured - plain).max(axis=(1, 2, 3)) > 1e-3).all()


def test_erase_covers_one_rectangle_of_the_asked_area() -> None:
    pixels = np.zeros((64, 20, 20, 1), np.uint8)
    step = {"name": "erase", "chance": 1, "scale": [0.1, 0.3], "ratio": [0.5, 2]}
    for image in changed(items_of(step), pixels, per_rank=64, steps=1)[0, ..., 0]:
        rows, columns = (np.flatnonzero(image.any(axis=axis)) for axis in (1, 0))
        height, width = np.ptp(rows) + 1, np.ptp(columns) + 1
        assert np.count_nonzero(image == 127) == height * width
        assert 0.08 < height * width / 400 < 0.33
        assert 0.4 < width / height < 2.5


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("mixer", MIXERS, ids=lambda mixer: mixer["name"])
def test_labels_are_the_shares_of_the_classes(mixer: dict[str, Any], dtype: str) -> None:
    pixels = photos(64, dtype)
    plain = trained([], pixels, per_rank=16, steps=7, classes=CLASSES)
    mixed = trained(items_of(mixer | {"chance": 1}), pixels, per_rank=16, classes=CLASSES)
    for batch, (before, after) in zip(mixed, pairwise(plain), strict=True):
        assert (batch.features.dtype, batch.features.shape) == (pixels.dtype, before.features.shape)
        assert (batch.labels.dtype, batch.labels.shape) == (np.float32, (16, CLASSES))
        assert np.allclose(batch.labels.sum(axis=1), 1)
        for at, (own, partner) in enumerate(zip(before.labels, after.labels, strict=True)):
            shares = batch.labels[at]
            assert (np.delete(shares, [own, partner]) == 0).all()
            if own != partner and mixer["name"] == "mixup":
                blend = shares[own] * before.features[at] + shares[partner] * after.features[at]
                assert np.allclose(batch.features[at], blend, atol=0.51 if dtype == "uint8" else 1e-4)
                assert 0 <= shares[own] <= 1


def test_mixed_bytes_are_rounded() -> None:
    one, two = np.full((1, 2, 2, 1), 10, np.uint8), np.full((1, 2, 2, 1), 13, np.uint8)
    assert (mixup(one, two, np.array([0.5])) == 12).all()  # 11.5, to the even number
    assert (mixup(one, two, np.array([0.6])) == 11).all()


def test_cutmix_takes_each_pixel_from_one_of_two_images_by_the_share_of_the_labels() -> None:
    zeros, ones = np.zeros((500, 20, 10, 1), np.uint8), np.ones((500, 20, 10, 1), np.uint8)
    generator = np.random.default_rng(3)
    mixture, kept = cutmix(zeros, ones, generator.beta(1, 1, 500), generator.random((500, 2)))
    assert np.allclose(kept, 1 - mixture.mean(axis=(1, 2, 3)))
    for image in mixture[..., 0]:
        rows, columns = image.any(axis=1), image.any(axis=0)
        assert (image == np.outer(rows, columns)).all()  # one rectangle
    assert 0.6 < kept.mean() < 0.7  # a half, and what the edges cut off


def test_each_sample_is_mixed_in_one_of_two_ways() -> None:
    pixels = np.arange(64 * 48, dtype=np.float32).reshape(64, 6, 8, 1)
    options: dict[str, Any] = {"per_rank": 64, "steps": 20, "classes": CLASSES}
    plain = changed([], pixels, **options)
    features = changed(items_of({"name": "mixup", "alpha": 1}, {"name": "cutmix"}), pixels, **options)
    unchanged = (features == plain).mean(axis=(2, 3, 4))
    is_cut = (unchanged > 0) | (features == np.rint(features)).all(axis=(2, 3, 4))
    assert 0.4 < is_cut.mean() < 0.6
