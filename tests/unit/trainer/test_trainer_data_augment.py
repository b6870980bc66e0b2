"""Changes of training samples: variants in turn, steps by chance, mixtures; and which lists fit which data."""

from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.datasets import one_of_each_format, open_dataset, plan_of, spec_of, train_batches
from tests.unit.trainer.augmenting import changed, items_of, photos, trained
from trainer.data.augment import augmented, check_augment
from trainer.data.interfaces import Batch, SampleSchedule
from trainer.data.mixing import cutmix
from trainer.errors import BadData

CORNER = np.array([[1, 2], [3, 4]])  # of a 2x2 image; each variant puts other values into its corners
TURNED = {
    "flip_horizontal": [[2, 1], [4, 3]],
    "flip_vertical": [[3, 4], [1, 2]],
    "rotate_90": [[2, 4], [1, 3]],
    "rotate_180": [[4, 3], [2, 1]],
    "rotate_270": [[3, 1], [4, 2]],
}
ALL = list(TURNED)


def images(samples: int) -> NDArray[np.int64]:
    """Images (sample, 2, 2, 1) whose values show both the sample and the variant."""
    return (10 * np.arange(samples)[:, None, None] + CORNER)[..., None]


def seen(names: list[str], **options: Any) -> list[tuple[int, tuple[int, ...]]]:
    """The label and the corners of each sample of the first steps, out of 64 samples."""
    batches = trained(names, images(64), **options)
    for batch in batches:  # an image keeps its label in every variant
        assert (batch.features[:, 0, 0, 0] // 10 == batch.labels).all()
    return [
        (int(label), tuple((image[..., 0] % 10).ravel()))
        for batch in batches
        for image, label in zip(*batch, strict=True)
    ]


def test_the_original_and_each_variant_come_equally_often() -> None:
    for name, turned in TURNED.items():
        for names in ([name], [name, name]):  # a name that is listed twice counts once
            corners = [corner for _, corner in seen(names, per_rank=60, steps=10)]
            assert set(corners) == {tuple(CORNER.ravel()), tuple(np.ravel(turned))}
            assert 240 < corners.count(tuple(CORNER.ravel())) < 360
    corners = [corner for _, corner in seen(ALL, per_rank=60, steps=100)]
    times = np.unique(np.array(corners), axis=0, return_counts=True)[1]
    assert len(times) == 6
    assert (np.abs(times - 1000) < 120).all()  # of 6,000: four standard deviations
    last, next_epoch = (sorted(seen(ALL, per_rank=64, steps=1, epoch=epoch)) for epoch in (1, 2))
    assert last != next_epoch


def enlarged(*, per_rank: int, epoch: int = 1, **options: Any) -> list[tuple[int, tuple[int, ...]]]:
    """What is seen in some steps of an epoch of 64 samples in 6 variants."""
    schedule = {"steps": 384 // (per_rank * options["schedule"].get("ranks", 1))} | options.pop("schedule")
    return seen(ALL, per_rank=per_rank, epoch=epoch, schedule=schedule, enlarge=True, **options)


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("sharding", ["shard", "steps"])
def test_an_epoch_of_enlarged_data_has_the_original_and_each_variant_once(ranks: int, sharding: str) -> None:
    expected = {(label, tuple(np.ravel(corner))) for label in range(64) for corner in (CORNER, *TURNED.values())}
    per_rank = 64 // ranks
    for epoch in (1, 2):
        in_epoch = []
        for rank in range(ranks):
            schedule = {"rank": rank, "ranks": ranks, "sharding": sharding}
            in_epoch += enlarged(per_rank=per_rank, steps=6, epoch=epoch, schedule=schedule)
        assert len(in_epoch) == 384
        assert set(in_epoch) == expected
    kinds = {corner for _, corner in enlarged(per_rank=24, steps=1, schedule={})}
    assert len(kinds) >= 4  # a batch is of all kinds


def test_enlarged_data_goes_on_after_a_restart_and_is_the_same_on_two_ranks() -> None:
    whole = enlarged(per_rank=24, steps=20, schedule={})
    assert enlarged(per_rank=24, steps=13, first=7, schedule={}) == whole[7 * 24 :]
    shares = [np.array(enlarged(per_rank=12, steps=20, schedule={"rank": rank, "ranks": 2}), object) for rank in (0, 1)]
    by_step = np.concatenate([share.reshape(20, 12, 2) for share in shares], axis=1).reshape(-1, 2)
    assert [tuple(each) for each in by_step] == whole


def test_streamed_data_is_enlarged_from_memory_only(tmp_path: Path) -> None:
    root = one_of_each_format(tmp_path)
    pixels = pyarrow.table({"image": [bytes(range(n, n + 16)) for n in range(40)], "label": [0, 1] * 20})
    pyarrow.parquet.write_table(pixels, root / "pixels.parquet")
    dataset = {"source": "pixels.parquet", "image_size": [4, 4], "augment": ["rotate_90"], "augment_mode": "enlarge"}
    with pytest.raises(BadData, match=r"dataset\.augment_mode: Parquet is streamed.*set dataset.cache to memory"):
        open_dataset(dataset, root)
    cached = dataset | {"cache": "memory"}
    opened, spec = open_dataset(cached, root), spec_of(cached)
    steps = plan_of(opened, spec).steps_per_epoch
    assert steps == 2 * 36 // 8
    pictures = [image.tobytes() for batch in islice(train_batches(opened, spec), steps) for image in batch.features]
    assert len(set(pictures)) == 72


def test_augmentation_does_not_write_into_the_arrays_of_the_reader() -> None:
    kept = photos(64)
    kept.flags.writeable = False  # as the pixels of decoded files are
    schedule = SampleSchedule(samples=64, rank=0, ranks=1, per_rank=64, steps=1, seed=7)
    items = items_of("rotate_180", {"name": "erase"})
    (batch,) = augmented(iter([Batch(kept, np.arange(64, dtype=np.int32))]), items, schedule, epoch=1, first=0)
    assert (batch.features != kept).any()


def test_only_the_training_part_is_changed_and_has_shares_of_classes_if_it_is_mixed(tmp_path: Path) -> None:
    dataset = {"source": "digits", "augment": ["flip_vertical", {"name": "mixup"}]}
    plain, changed, spec = open_dataset("digits", tmp_path), open_dataset(dataset, tmp_path), spec_of(dataset)
    before, after = next(train_batches(plain, spec_of("digits"))), next(train_batches(changed, spec))
    assert (before.features != after.features).any()
    assert (after.labels.shape, after.labels.dtype) == ((8, 10), np.float32)
    assert plan_of(changed, spec).train_samples == 1350
    for part, same in ((plain.validation, changed.validation), (plain.test, changed.test)):
        assert part is not None
        assert same is not None
        for one, two in zip(*(each.evaluate(rank=0, ranks=1, per_rank=64) for each in (part, same)), strict=True):
            assert (one.features == two.features).all()
            assert (two.labels.dtype, one.labels.tolist()) == (np.int32, two.labels.tolist())


@pytest.mark.parametrize(
    ("items", "shape", "sentence"),
    [
        (["flip_vertical"], (12,), "flip_vertical needs images, and the samples are rows of 12 columns"),
        ([{"name": "erase"}], (5,), "erase needs images, and the samples are rows of 5 columns"),
        ([{"name": "cutmix"}], (12,), "cutmix needs images"),
        (["flip_vertical", "rotate_90"], (4, 5, 3), "rotate_90 needs square images, and these are 4 high and 5 wide: "),
        (["rotate_270"], (6, 5, 3), "rotate_270 needs square images, and these are 6 high and 5 wide: set"),
        ([{"name": "rotate_90"}], (8, 16, 3), "rotate_90 needs square images"),
        ([{"name": "crop", "padding": 9}], (8, 16, 3), "crop has a padding of 9, more than the 8x16 pixels"),
        ([{"name": "color", "hue": 0.1}], (8, 8, 1), "color .* the images have 1 channel, not 3"),
    ],
)
def test_a_list_that_does_not_fit_the_shape_is_bad_data(
    items: list[Any], shape: tuple[int, ...], sentence: str
) -> None:
    with pytest.raises(BadData, match=rf"^dataset\.augment: {sentence}"):
        check_augment(items_of(*items), shape)


def test_what_fits_is_accepted_and_what_does_not_is_refused_at_opening(tmp_path: Path) -> None:
    for items, shape in ([], (5,)), (["rotate_180"], (4, 5, 1)), (items_of({"name": "mixup"}), (12,)):
        check_augment(items, shape)
    with pytest.raises(BadData, match=r"dataset\.augment: rotate_90"):
        open_dataset({"source": "synthetic:shape=8x16x1", "augment": ["rotate_90"]}, tmp_path)


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
