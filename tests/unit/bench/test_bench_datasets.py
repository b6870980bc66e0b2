"""The formats that are compared hold the same images."""

import io
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from PIL import Image

from bench.datasets import Samples, write_folder, write_parquet


def test_a_folder_and_parquet_hold_every_image_with_its_label(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    samples = Samples(random.integers(0, 256, (30, 28, 28), np.uint8), random.integers(0, 3, 30))
    folder = write_folder({"train": samples}, tmp_path / "set")
    files = sorted(folder.rglob("*.png"), key=lambda path: int(path.stem))
    assert [int(path.parent.name) for path in files] == samples.labels.tolist()
    assert np.array_equal([np.asarray(Image.open(path)) for path in files], samples.images)
    file = pq.ParquetFile(
        write_parquet({"test": samples.by_label()}, tmp_path / "parquet", rows_per_group=12) / "test.parquet"
    )
    table = file.read()
    assert file.metadata.num_row_groups == 3
    assert table["label"].to_pylist() == sorted(samples.labels)
    pixels = [np.asarray(Image.open(io.BytesIO(content))) for content in table["image"].to_pylist()]
    assert np.array_equal(pixels, samples.images[np.argsort(samples.labels, kind="stable")])
    assert set(samples.of_classes([0, 2]).labels) == {0, 2}
