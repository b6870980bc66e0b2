"""Variants of training samples: flips and rotations, drawn or in turn; and which lists fit which data."""

from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from numpy.typing import NDArray

from tests.datasets import one_of_each_format, open_dataset, plan_of, spec_of, train_batches
from tests.unit.trainer.augmenting import items_of, photos, trained
from trainer.data.augment import augmented, check_augment
from trainer.data.interfaces import Batch, SampleSchedule
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
        open_dataset(dataset, root, data_roots=[str(root)])
    cached = dataset | {"cache": "memory"}
    opened, spec = open_dataset(cached, root, data_roots=[str(root)]), spec_of(cached)
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


def test_lists_that_fit_any_image_or_any_table_are_accepted() -> None:
    check_augment([], (5,))
    check_augment(["rotate_180"], (4, 5, 1))
    check_augment(items_of({"name": "mixup"}), (12,))


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


def test_a_list_that_does_not_fit_the_shape_is_refused_at_opening(tmp_path: Path) -> None:
    with pytest.raises(BadData, match=r"dataset\.augment: rotate_90"):
        open_dataset({"source": "synthetic:shape=8x16x1", "augment": ["rotate_90"]}, tmp_path)
