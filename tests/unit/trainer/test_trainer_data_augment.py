"""Flips and rotations of training samples."""

from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.datasets import open_dataset, plan_of, spec_of, train_batches
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
