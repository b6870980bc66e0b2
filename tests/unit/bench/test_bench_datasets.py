"""The formats that are compared hold the same images."""

import io
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from bench.datasets import Samples, write_folder, write_parquet


@pytest.fixture
def samples() -> Samples:
    random = np.random.default_rng(1)
    return Samples(random.integers(0, 256, (30, 28, 28), np.uint8), random.integers(0, 3, 30))


def test_a_folder_holds_every_image_below_its_label(samples: Samples, tmp_path: Path) -> None:
    folder = write_folder({"train": samples}, tmp_path / "set")
    files = sorted(folder.rglob("*.png"), key=lambda path: int(path.stem))
    assert [int(path.parent.name) for path in files] == samples.labels.tolist()
    assert np.array_equal([np.asarray(Image.open(path)) for path in files], samples.images)


def test_parquet_holds_every_image_beside_its_label(samples: Samples, tmp_path: Path) -> None:
    folder = write_parquet({"test": samples.by_label()}, tmp_path / "set", rows_per_group=12)
    file = pq.ParquetFile(folder / "test.parquet")
    table = file.read()
    order = np.argsort(samples.labels, kind="stable")
    assert file.metadata.num_row_groups == 3
    assert table["label"].to_pylist() == sorted(samples.labels)
    pixels = [np.asarray(Image.open(io.BytesIO(content))) for content in table["image"].to_pylist()]
    assert np.array_equal(pixels, samples.images[order])


def test_samples_can_be_limited_to_some_classes_and_a_count(samples: Samples) -> None:
    some = samples.of_classes([0, 2])
    assert set(some.labels) == {0, 2}
    assert len(some.images) == np.isin(samples.labels, [0, 2]).sum()
    assert len(some.first(5).images) == 5
