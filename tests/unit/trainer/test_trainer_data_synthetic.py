"""Synthetic images."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.datasets import open_dataset
from tests.unit.trainer.reading import read
from trainer.data.opening import Dataset
from trainer.errors import BadData


def opened(source: Any, scratch: Path, *, seed: int = 42) -> Dataset:
    return open_dataset(source, scratch, seed=seed)


def test_options_have_defaults_and_may_come_in_any_number_and_order(tmp_path: Path) -> None:
    facts = opened("synthetic", tmp_path).facts
    assert facts.sizes.model_dump() == {"train": 9000, "validation": 1000, "test": 1000}
    assert (facts.format, facts.shape, facts.dtype, facts.value_range) == ("synthetic", (32, 32, 3), "uint8", (0, 255))
    assert facts.classes == tuple("0123456789")
    facts = opened("synthetic:shape=8x16x1,samples=200", tmp_path).facts
    assert (facts.shape, facts.sizes.train, len(facts.classes)) == ((8, 16, 1), 180, 10)
    facts = opened("synthetic:samples=5000,classes=4,shape=32x32x3", tmp_path).facts
    assert (facts.shape, facts.sizes.train, len(facts.classes)) == ((32, 32, 3), 4500, 4)
    resized = open_dataset({"source": "synthetic:shape=8x8x1,samples=100", "image_size": [16, 24]}, tmp_path)
    assert resized.facts.shape == (16, 24, 1)
    assert read(resized.train)[0].shape == (90, 16, 24, 1)


def test_all_parts_are_different_samples_of_all_classes(tmp_path: Path) -> None:
    dataset = opened("synthetic:samples=1000,shape=8x8x1", tmp_path)
    parts = [read(part) for part in (dataset.train, dataset.validation, dataset.test)]
    images = np.concatenate([images for images, _ in parts])
    assert len(np.unique(images.reshape(len(images), -1), axis=0)) == 1100
    assert all(set(labels) == set(range(10)) for _, labels in parts)


def test_a_sample_is_the_same_in_every_batch_in_every_run_and_for_every_seed_of_a_job(tmp_path: Path) -> None:
    one, two = (opened("synthetic:samples=100,shape=8x8x1", tmp_path, seed=seed) for seed in (1, 2))
    (whole, _), (other, _) = read(one.test), read(two.test)
    assert (whole == other).all()
    assert one.test is not None
    for position in (0, 5, 9):
        (batch,) = one.test.rows(position, position + 1)
        assert (batch.features[0] == whole[position]).all()


def test_classes_differ_in_pattern_but_not_in_brightness(tmp_path: Path) -> None:
    dataset = opened("synthetic:samples=2000", tmp_path)
    images, labels = read(dataset.train)
    prototypes = np.stack([images[labels == label].mean(axis=0) for label in range(10)])
    assert np.ptp(prototypes.mean(axis=(1, 2, 3))) < 1  # of 255
    assert (prototypes.std(axis=(1, 2, 3)) > 5).all()
    held_out, expected = read(dataset.test)
    nearest = ((held_out[:, None] - prototypes) ** 2).sum(axis=(2, 3, 4)).argmin(axis=1)
    assert (nearest == expected).mean() > 0.95
    # A single pixel tells little: the noise is as strong as the pattern.
    assert images[labels == 0, 16, 16, 0].std() > 20


def test_pixel_values_do_not_wrap_around(tmp_path: Path) -> None:
    images, _ = read(opened("synthetic:samples=2000,shape=8x8x1", tmp_path).train)
    assert images.min() < 30
    assert images.max() > 220
    assert np.abs(np.diff(np.bincount(images.ravel(), minlength=256)[[0, 255]])) < 20  # nothing wrapped around


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("synthetic:sample=5", "dataset.source: 'sample=5' is not understood: write synthetic:samples=5000,cl"),
        ("synthetic:shape=4x32x3", "synthetic data with 4 height: 8 to 4096 are possible"),
        ("synthetic:samples=50,classes=60", "synthetic data with 50 samples of 60 classes"),
        (
            {"source": "synthetic", "image_size": [4, 32]},
            r"^dataset\.image_size: synthetic data with 4 height: 8 to 4096 are possible",
        ),
        (
            {"source": "synthetic:classes=100", "image_size": [4096, 4096]},
            r"^dataset\.image_size: synthetic data with 100 classes of 4096x4096x3 does not",
        ),
    ],
)
def test_invalid_options_are_bad_data(tmp_path: Path, source: Any, sentence: str) -> None:
    """All that the catalog refuses too: `tests/unit/jobs/model/test_catalog.py`."""
    with pytest.raises(BadData, match=sentence):
        opened(source, tmp_path)
