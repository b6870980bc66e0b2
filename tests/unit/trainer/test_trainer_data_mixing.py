"""Mixup and cutmix of training samples."""

from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.datasets import open_dataset, spec_of, train_batches
from trainer.data.augment import augmented, check_augment
from trainer.data.indexed import ArrayReader, IndexedPart
from trainer.data.interfaces import Batch, SampleSchedule
from trainer.data.mixing import cutmix, mixup
from trainer.errors import BadData

CLASSES = 5
MIXERS: list[dict[str, Any]] = [{"name": "mixup"}, {"name": "cutmix", "chance": 0.8}]


def items_of(*items: Any) -> list[Any]:
    return spec_of({"source": "digits", "augment": list(items)}).own_dataset.augment


def trained(
    items: list[Any], pixels: NDArray[Any], *, per_rank: int, rank: int = 0, ranks: int = 1, steps: int = 6,
    epoch: int = 1, first: int = 0,
) -> list[Batch]:  # fmt: skip
    schedule = SampleSchedule(samples=len(pixels), rank=rank, ranks=ranks, per_rank=per_rank, steps=4, seed=7)
    labels = np.arange(len(pixels), dtype=np.int32) % CLASSES
    read = IndexedPart(ArrayReader(pixels), labels, np.arange(len(pixels))).train(schedule, epoch=epoch, first=first)
    return list(islice(augmented(read, items, schedule, epoch=epoch, first=first, classes=CLASSES), steps))


def photos(samples: int, dtype: str = "uint8") -> NDArray[Any]:
    return np.random.default_rng(1).integers(0, 256, (samples, 6, 8, 3)).astype(dtype)


@given(ranks=st.integers(1, 4), per_rank=st.integers(1, 4), gone=st.integers(0, 5))
@settings(max_examples=10, deadline=None)
def test_pairs_and_shares_are_the_same_on_n_ranks_and_after_a_restart(ranks: int, per_rank: int, gone: int) -> None:
    items, pixels = items_of({"name": "crop"}, "flip_horizontal", *MIXERS), photos(32)
    alone = trained(items, pixels, per_rank=per_rank * ranks)[gone:]
    epochs, first = divmod(gone, 4)
    together = [
        trained(items, pixels, per_rank=per_rank, rank=rank, ranks=ranks, epoch=1 + epochs, first=first, steps=6 - gone)
        for rank in range(ranks)
    ]
    for whole, *shares in zip(alone, *together, strict=True):
        for name in ("features", "labels"):
            assert (getattr(whole, name) == np.concatenate([getattr(share, name) for share in shares])).all()


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("mixer", MIXERS, ids=lambda mixer: mixer["name"])
def test_labels_are_the_shares_of_the_classes(mixer: dict[str, Any], dtype: str) -> None:
    pixels = photos(64, dtype)
    plain = trained([], pixels, per_rank=16, steps=7)
    for batch, before, after in zip(
        trained(items_of(mixer | {"chance": 1}), pixels, per_rank=16), plain, plain[1:], strict=False
    ):
        assert (batch.features.dtype, batch.features.shape) == (pixels.dtype, before.features.shape)
        assert (batch.labels.dtype, batch.labels.shape) == (np.float32, (16, CLASSES))
        assert np.allclose(batch.labels.sum(axis=1), 1)
        for shares, own, partner in zip(batch.labels, before.labels, after.labels, strict=True):
            assert (np.delete(shares, [own, partner]) == 0).all()


def test_mixup_blends_values_as_it_blends_labels() -> None:
    pixels = photos(64, "float32")
    plain = trained([], pixels, per_rank=16, steps=2)
    (batch,) = trained(items_of({"name": "mixup", "alpha": 1}), pixels, per_rank=16, steps=1)
    for mixture, shares, one, two, own, partner in zip(*batch, plain[0].features, plain[1].features, plain[0].labels,
                                                       plain[1].labels, strict=True):  # fmt: skip
        if own != partner:
            assert np.allclose(mixture, shares[own] * one + shares[partner] * two, atol=1e-3)
            assert 0 < shares[own] < 1


def test_cutmix_takes_each_pixel_from_one_of_two_images_by_the_share_of_the_labels() -> None:
    zeros, ones = np.zeros((500, 20, 10, 1), np.uint8), np.ones((500, 20, 10, 1), np.uint8)
    generator = np.random.default_rng(3)
    mixture, kept = cutmix(zeros, ones, generator.beta(1, 1, 500), generator.random((500, 2)))
    assert np.allclose(kept, 1 - mixture.mean(axis=(1, 2, 3)))
    for image in mixture[..., 0]:
        rows, columns = image.any(axis=1), image.any(axis=0)
        assert (image == np.outer(rows, columns)).all()  # one rectangle
    assert 0.6 < kept.mean() < 0.7  # a half, and what the edges cut off


def test_mixed_bytes_are_rounded() -> None:
    one, two = np.full((1, 2, 2, 1), 10, np.uint8), np.full((1, 2, 2, 1), 13, np.uint8)
    assert (mixup(one, two, np.array([0.5])) == 12).all()  # 11.5, to the even number
    assert (mixup(one, two, np.array([0.6])) == 11).all()


def test_each_sample_is_mixed_in_one_of_two_ways() -> None:
    pixels = np.arange(64 * 48, dtype=np.float32).reshape(64, 6, 8, 1)
    plain = np.concatenate([batch.features for batch in trained([], pixels, per_rank=64, steps=20)])
    batches = trained(items_of({"name": "mixup", "alpha": 1}, {"name": "cutmix"}), pixels, per_rank=64, steps=20)
    features, labels = (np.concatenate(values) for values in zip(*batches, strict=True))
    unchanged = (features == plain).mean(axis=(1, 2, 3))
    is_cut = (unchanged > 0) | (features == np.rint(features)).all(axis=(1, 2, 3))
    assert 0.4 < is_cut.mean() < 0.6
    assert labels.min() >= 0


def test_mixup_blends_rows_of_a_table_and_cutmix_does_not() -> None:
    check_augment(items_of({"name": "mixup"}), (12,))
    with pytest.raises(BadData, match="cutmix needs images"):
        check_augment(items_of({"name": "cutmix"}), (12,))


def test_a_dataset_gives_shares_to_train_on_and_numbers_to_validate_on(tmp_path: Any) -> None:
    dataset = {"source": "digits", "augment": ["flip_vertical", {"name": "mixup"}]}
    opened = open_dataset(dataset, tmp_path)
    batch = next(train_batches(opened, spec_of(dataset)))
    assert (batch.labels.shape, batch.labels.dtype) == ((8, 10), np.float32)
    evaluated = next(opened.evaluation_batches(opened.validation, rank=0, ranks=1, per_rank=8))
    assert (evaluated.labels.shape, evaluated.labels.dtype) == ((8,), np.int32)
