"""Flips and rotations of training samples."""

from itertools import islice
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
from trainer.data.augment import augmented, check_augment
from trainer.data.indexed import ArrayReader, IndexedPart
from trainer.data.interfaces import Batch, SampleSchedule
from trainer.errors import BadData

ALL = ["flip_horizontal", "flip_vertical", "rotate_90", "rotate_180", "rotate_270"]
CORNER = np.array([[1, 2], [3, 4]])  # of a 2x2 image; each variant puts other values into its corners
TURNED = {
    "flip_horizontal": [[2, 1], [4, 3]],
    "flip_vertical": [[3, 4], [1, 2]],
    "rotate_90": [[2, 4], [1, 3]],
    "rotate_180": [[4, 3], [2, 1]],
    "rotate_270": [[3, 1], [4, 2]],
}


def images(samples: int) -> NDArray[np.int64]:
    """Images (sample, 2, 2, 1) whose values show both the sample and the variant."""
    return (10 * np.arange(samples)[:, None, None] + CORNER)[..., None]


def trained(
    names: list[str],
    *,
    per_rank: int = 8,
    rank: int = 0,
    ranks: int = 1,
    steps: int = 10,
    first: int = 0,
    epoch: int = 1,
) -> list[NDArray[Any]]:
    schedule = SampleSchedule(samples=64, rank=rank, ranks=ranks, per_rank=per_rank, steps=4, seed=7)
    part = IndexedPart(ArrayReader(images(64)), np.arange(64, dtype=np.int32), np.arange(64))
    batches = augmented(part.train(schedule, epoch=epoch, first=first), names, schedule, epoch=epoch, first=first)
    taken = list(islice(batches, steps))
    for batch in taken:  # an image keeps its label in every variant
        assert (batch.features[:, 0, 0, 0] // 10 == batch.labels).all()
    return [batch.features for batch in taken]


@pytest.mark.parametrize("name", ALL)
def test_each_variant_gives_the_flipped_or_rotated_image(name: str) -> None:
    corners = {tuple((image[..., 0] % 10).ravel()) for batch in trained([name]) for image in batch}
    assert corners == {tuple(CORNER.ravel()), tuple(np.ravel(TURNED[name]))}


def test_every_variant_and_the_original_come_equally_often() -> None:
    corners = [tuple((image[..., 0] % 10).ravel()) for batch in trained(ALL, per_rank=60, steps=100) for image in batch]
    times = np.unique(np.array(corners), axis=0, return_counts=True)[1]
    assert len(times) == 6
    assert (np.abs(times - 1000) < 120).all()  # of 6,000: four standard deviations


def enlarged(
    *, per_rank: int, rank: int = 0, ranks: int = 1, steps: int, epoch: int = 1, first: int = 0, sharding: Any = "shard"
) -> list[tuple[int, tuple[int, ...]]]:
    """The label and the corners of each sample of some steps, of an epoch of 64 samples in 6 variants."""
    schedule = SampleSchedule(
        samples=64, rank=rank, ranks=ranks, per_rank=per_rank, steps=384 // (per_rank * ranks), seed=7,
        sharding=sharding,
    )  # fmt: skip
    part = IndexedPart(ArrayReader(images(64)), np.arange(64, dtype=np.int32), np.arange(64))
    read = part.train(schedule, epoch=epoch, first=first)
    batches = augmented(read, ALL, schedule, epoch=epoch, first=first, enlarge=True)
    return [
        (int(label), tuple((image[..., 0] % 10).ravel()))
        for batch in islice(batches, steps)
        for image, label in zip(*batch, strict=True)
    ]


@pytest.mark.parametrize("ranks", [1, 2])
def test_an_epoch_of_enlarged_data_has_the_original_and_each_variant_once(ranks: int) -> None:
    expected = {(label, tuple(np.ravel(corner))) for label in range(64) for corner in (CORNER, *TURNED.values())}
    per_rank = 24 // ranks
    for epoch in (1, 2):
        seen = [
            each for rank in range(ranks) for each in enlarged(per_rank=per_rank, rank=rank, ranks=ranks, steps=16,
                                                               epoch=epoch)
        ]  # fmt: skip
        assert len(seen) == 384
        assert set(seen) == expected
    kinds = {corner for _, corner in enlarged(per_rank=24, steps=1)}
    assert len(kinds) >= 4  # a batch is of all kinds


def test_enlarged_data_goes_on_after_a_restart_and_is_the_same_on_two_ranks() -> None:
    whole = enlarged(per_rank=24, steps=20)
    assert enlarged(per_rank=24, steps=13, first=7) == whole[7 * 24 :]
    shares = [np.array(enlarged(per_rank=12, rank=rank, ranks=2, steps=20), object) for rank in (0, 1)]
    by_step = np.concatenate([share.reshape(20, 12, 2) for share in shares], axis=1).reshape(-1, 2)
    assert [tuple(each) for each in by_step] == whole


def test_ranks_that_draw_for_themselves_share_out_the_variants() -> None:
    seen = [each for rank in range(2) for each in enlarged(per_rank=32, rank=rank, ranks=2, steps=6, sharding="steps")]
    assert len(set(seen)) == len(seen) == 384


def test_streamed_data_is_enlarged_from_memory_only(tmp_path: Path) -> None:
    root = one_of_each_format(tmp_path)
    pixels = pyarrow.table({"image": [bytes(range(n, n + 16)) for n in range(40)], "label": [0, 1] * 20})
    pyarrow.parquet.write_table(pixels, root / "pixels.parquet")
    dataset = {"source": "pixels.parquet", "image_size": [4, 4], "augment": ["rotate_90"], "augment_mode": "enlarge"}
    with pytest.raises(BadData, match=r"dataset\.augment_mode: Parquet is streamed.*set dataset.cache to memory"):
        open_dataset(dataset, root, data_roots=[str(root)])
    cached = dataset | {"cache": "memory"}
    opened, spec = open_dataset(cached, root, data_roots=[str(root)]), spec_of(cached)
    steps = plan_of(opened, spec).steps_per_epoch
    assert steps == 2 * 36 // 8
    seen = [image.tobytes() for batch in islice(train_batches(opened, spec), steps) for image in batch.features]
    assert len(set(seen)) == 72


def test_a_variant_that_is_listed_twice_counts_once() -> None:
    assert all(
        (one == two).all() for one, two in zip(trained(["rotate_90"]), trained(["rotate_90", "rotate_90"]), strict=True)
    )


@given(ranks=st.integers(1, 4), per_rank=st.integers(1, 5))
@settings(max_examples=20)
def test_n_ranks_together_see_what_one_rank_sees(ranks: int, per_rank: int) -> None:
    alone = trained(ALL, per_rank=per_rank * ranks)
    together = [trained(ALL, per_rank=per_rank, rank=rank, ranks=ranks) for rank in range(ranks)]
    assert (np.array(alone) == np.concatenate(together, axis=1)).all()


@given(gone=st.integers(0, 9))
@settings(max_examples=10)
def test_a_run_continues_from_its_checkpoint(gone: int) -> None:
    epochs, first = divmod(gone, 4)
    assert (
        np.array(trained(ALL)[gone:]) == np.array(trained(ALL, epoch=1 + epochs, first=first, steps=10 - gone))
    ).all()


def test_run_that_stopped_at_the_end_of_an_epoch_continues_with_the_next() -> None:
    assert (np.array(trained(ALL, epoch=1, first=4)) == np.array(trained(ALL, epoch=2, first=0))).all()


def test_variants_of_an_image_change_with_the_epoch() -> None:
    schedule = SampleSchedule(samples=64, rank=0, ranks=1, per_rank=64, steps=1, seed=7)
    part = IndexedPart(ArrayReader(images(64)), np.arange(64, dtype=np.int32), np.arange(64))
    one, two = islice(augmented(part.train(schedule, epoch=1, first=0), ALL, schedule, epoch=1, first=0), 2)
    assert (one.features[np.argsort(one.labels)] != two.features[np.argsort(two.labels)]).any()


def test_augmentation_does_not_write_into_the_arrays_of_the_reader() -> None:
    kept = images(64)
    kept.flags.writeable = False  # as the pixels of decoded files are
    schedule = SampleSchedule(samples=64, rank=0, ranks=1, per_rank=64, steps=1, seed=7)
    (batch,) = augmented(iter([Batch(kept, np.arange(64, dtype=np.int32))]), ALL, schedule, epoch=1, first=0)
    assert (batch.features != kept).any()


def test_only_the_training_part_is_changed(tmp_path: Path) -> None:
    dataset = {"source": "digits", "augment": ["flip_vertical"]}
    plain, changed = open_dataset("digits", tmp_path), open_dataset(dataset, tmp_path)
    spec = spec_of(dataset)
    assert (next(train_batches(plain, spec_of("digits"))).features != next(train_batches(changed, spec)).features).any()
    for part, same in ((plain.validation, changed.validation), (plain.test, changed.test)):
        assert part is not None
        assert same is not None
        for one, two in zip(*(each.evaluate(rank=0, ranks=1, per_rank=64) for each in (part, same)), strict=True):
            assert (one.features == two.features).all()
    assert plan_of(changed, spec).train_samples == 1350


def test_check_accepts_no_augmentation_and_rotate_180_of_any_image() -> None:
    check_augment([], (5,))
    check_augment(["rotate_180"], (4, 5, 1))


@pytest.mark.parametrize(
    ("names", "shape", "sentence"),
    [
        (
            ["flip_vertical"],
            (12,),
            "dataset.augment: flip_vertical needs images, and the samples are rows of 12 columns",
        ),
        (
            ["flip_vertical", "rotate_90"],
            (4, 5, 3),
            "rotate_90 needs square images, and these are 4 high and 5 wide: set",
        ),
        (["rotate_270"], (6, 5, 3), "rotate_270 needs square images, and these are 6 high and 5 wide: set"),
    ],
)
def test_variant_that_does_not_fit_the_shape_is_bad_data(
    names: list[str], shape: tuple[int, ...], sentence: str
) -> None:
    with pytest.raises(BadData, match=sentence):
        check_augment(names, shape)


def test_variant_that_does_not_fit_the_shape_is_refused_at_opening(tmp_path: Path) -> None:
    with pytest.raises(BadData, match=r"dataset\.augment: rotate_90"):
        open_dataset({"source": "synthetic:shape=8x16x1", "augment": ["rotate_90"]}, tmp_path)


STEPS: list[dict[str, Any]] = [
    {"name": "crop", "padding": 3},
    {"name": "resized_crop"},
    {"name": "color", "brightness": 0.4, "contrast": 0.4, "saturation": 0.4, "hue": 0.1},
    {"name": "erase"},
    {"name": "rotate_180"},
]


def items_of(*items: Any) -> list[Any]:
    """The items of a list as the spec reads them."""
    return spec_of({"source": "digits", "augment": list(items)}).own_dataset.augment


def photos(samples: int, dtype: str = "uint8") -> NDArray[Any]:
    """Images (sample, 12, 10, 3) of random pixels."""
    pixels = np.random.default_rng(1).integers(0, 256, (samples, 12, 10, 3), dtype=np.uint8)
    return pixels if dtype == "uint8" else (pixels / 127.5 - 1).astype(np.float32)


def changed(
    items: list[Any], pixels: NDArray[Any], *, per_rank: int, rank: int = 0, ranks: int = 1, steps: int = 6,
    epoch: int = 1, first: int = 0, **options: Any,
) -> NDArray[Any]:  # fmt: skip
    """The first batches of a rank (step, sample, ...) with their samples changed."""
    schedule = SampleSchedule(samples=len(pixels), rank=rank, ranks=ranks, per_rank=per_rank, steps=4, seed=7)
    part = IndexedPart(ArrayReader(pixels), np.arange(len(pixels), dtype=np.int32), np.arange(len(pixels)))
    read = part.train(schedule, epoch=epoch, first=first)
    batches = augmented(read, items, schedule, epoch=epoch, first=first, **options)
    return np.array([batch.features for batch in islice(batches, steps)])


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


@given(ranks=st.integers(1, 4), per_rank=st.integers(1, 4), gone=st.integers(0, 5))
@settings(max_examples=10, deadline=None)
def test_all_steps_together_are_the_same_on_n_ranks_and_after_a_restart(ranks: int, per_rank: int, gone: int) -> None:
    items, pixels = items_of("flip_horizontal", *STEPS, "rotate_180"), photos(32)
    alone = changed(items, pixels, per_rank=per_rank * ranks)
    epochs, first = divmod(gone, 4)
    together = [
        changed(items, pixels, per_rank=per_rank, rank=rank, ranks=ranks, epoch=1 + epochs, first=first, steps=6 - gone)
        for rank in range(ranks)
    ]
    assert (alone[gone:] == np.concatenate(together, axis=1)).all()


def test_plain_names_are_drawn_as_before_whatever_stands_beside_them() -> None:
    """A job that is restarted by a newer version goes on with the same samples."""
    pixels = photos(64)
    erase = {"name": "erase", "scale": [1.0, 1.0], "chance": 1e-9}
    before = changed(["flip_horizontal", "rotate_180"], pixels, per_rank=16)
    assert (before == changed(items_of(erase, "flip_horizontal", erase, "rotate_180"), pixels, per_rank=16)).all()


def test_crop_cuts_every_place_of_the_image_with_its_border() -> None:
    pixels = np.tile(np.arange(1, 5, dtype=np.uint8).reshape(1, 2, 2, 1), (64, 1, 1, 1))
    windows = changed(items_of({"name": "crop", "padding": 1}), pixels, per_rank=64, steps=20).reshape(-1, 2, 2)
    bordered = np.pad(pixels[0, ..., 0], 1)
    expected = {tuple(bordered[y : y + 2, x : x + 2].ravel()) for y in range(3) for x in range(3)}
    assert {tuple(window.ravel()) for window in windows} == expected


def test_the_border_of_a_crop_is_black_in_the_range_of_the_values() -> None:
    pixels = np.ones((64, 4, 4, 1), np.float32)
    windows = changed(items_of({"name": "crop"}), pixels, per_rank=64, value_range=(-1.0, 1.0))
    assert set(np.unique(windows)) == {-1.0, 1.0}


def test_a_crop_is_flipped_half_of_the_time_beside_one_plain_name() -> None:
    pixels = photos(64)
    crops = changed(items_of({"name": "crop"}), pixels, per_rank=64, steps=20)
    both = changed(items_of({"name": "crop"}, "flip_horizontal"), pixels, per_rank=64, steps=20)
    same = (both == crops).all(axis=(2, 3, 4))
    flipped = (both == crops[:, :, :, ::-1]).all(axis=(2, 3, 4))
    assert (same | flipped).all()
    assert 0.4 < flipped.mean() < 0.6


def test_a_crop_of_the_whole_image_is_the_image() -> None:
    pixels = photos(32)
    whole = items_of({"name": "resized_crop", "scale": [1, 1], "ratio": [10 / 12, 10 / 12]})
    assert (changed(whole, pixels, per_rank=16) == changed([], pixels, per_rank=16)).all()


def test_a_resized_crop_of_a_ramp_is_a_part_of_the_ramp() -> None:
    ramp = np.tile(np.arange(64, dtype=np.float32)[np.newaxis, :, np.newaxis, np.newaxis], (8, 1, 64, 1))
    for image in changed(items_of({"name": "resized_crop"}), ramp, per_rank=8, value_range=(0.0, 63.0))[0]:
        rows = np.diff(image[:, 0, 0])
        assert rows.min() >= 0
        assert np.allclose(rows, rows.mean(), atol=1e-3)
        assert (image == image[:, :1]).all()


def test_color_changes_brightness_of_all_pixels_by_one_factor() -> None:
    pixels = np.full((8, 4, 4, 3), 0.5, np.float32)
    bright = changed(items_of({"name": "color", "brightness": 0.5}), pixels, per_rank=8, value_range=(0.0, 1.0))
    assert (np.ptp(bright, axis=(2, 3, 4)) < 1e-6).all()
    assert 0.25 <= bright.min() < bright.max() <= 0.75


def test_color_keeps_the_mean_brightness_where_it_changes_contrast_saturation_and_hue() -> None:
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


@pytest.mark.parametrize(
    ("step", "shape", "sentence"),
    [
        ({"name": "crop", "padding": 9}, (8, 16, 3), "padding of 9, more than the 8x16 pixels"),
        ({"name": "color", "hue": 0.1}, (8, 8, 1), "the images have 1 channel, not 3"),
        ({"name": "rotate_90"}, (8, 16, 3), "rotate_90 needs square images"),
        ({"name": "erase"}, (5,), "erase needs images, and the samples are rows of 5 columns"),
    ],
)
def test_step_that_does_not_fit_the_shape_is_bad_data(
    step: dict[str, Any], shape: tuple[int, ...], sentence: str
) -> None:
    with pytest.raises(BadData, match=sentence):
        check_augment(items_of(step), shape)
