"""The data for measurements: Fashion-MNIST in several formats, and generated tables and photographs.

Used by `bench.input` and `bench.articles`. Everything follows from fixed seeds.
"""

import io
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from trainer.data.arrays import Arrays
from trainer.data.registered import fashion_mnist as registered
from trainer.errors import BadData

LABEL, COLUMNS, CLASSES = "label", 21, 4  # of a table
_SEED = 7


@dataclass(frozen=True)
class Samples:
    """Images (sample, 28, 28) of bytes, and their labels (sample,)."""

    images: NDArray[np.uint8]
    labels: NDArray[Any]

    def first(self, samples: int) -> "Samples":
        """The first samples."""
        return Samples(self.images[:samples], self.labels[:samples])

    def of_classes(self, classes: Sequence[int]) -> "Samples":
        """The samples with one of these labels."""
        chosen = np.isin(self.labels, classes)
        return Samples(self.images[chosen], self.labels[chosen])

    def by_label(self) -> "Samples":
        """The samples sorted by label."""
        order = np.argsort(self.labels, kind="stable")
        return Samples(self.images[order], self.labels[order])


def fashion_mnist() -> dict[str, Samples] | None:
    """The parts of Fashion-MNIST, 60,000 train and 10,000 test; None if the host does not have it."""
    try:
        parts = registered([])
    except BadData:
        return None
    samples = {}
    for part, arrays in parts.items():
        assert isinstance(arrays, Arrays)
        samples[part] = Samples(arrays.features[..., 0], arrays.labels)
    return samples


def write_folder(parts: Mapping[str, Samples], folder: Path) -> Path:
    """PART/LABEL/NUMBER.png for every sample; returns the folder."""
    for part, samples in parts.items():
        for label in np.unique(samples.labels):
            (folder / part / str(label)).mkdir(parents=True)
        for number, content in enumerate(_encoded(samples)):
            (folder / part / str(samples.labels[number]) / f"{number}.png").write_bytes(content)
    return folder


def write_parquet(parts: Mapping[str, Samples], folder: Path, *, rows_per_group: int = 2000) -> Path:
    """PART.parquet with the columns image (PNG) and label; returns the folder."""
    folder.mkdir(parents=True)
    for part, samples in parts.items():
        table = pa.table({"image": pa.array(_encoded(samples), pa.binary()), LABEL: samples.labels.astype(np.int64)})
        pq.write_table(table, folder / f"{part}.parquet", row_group_size=rows_per_group)
    return folder


def write_table(path: Path, rows: int, *, rows_per_group: int = 50_000) -> Path:
    """21 columns of float32: three depend on the class, the others are noise. Returns the path."""
    random = np.random.default_rng(_SEED)
    labels = random.integers(0, CLASSES, rows)
    columns = {f"x{number}": random.standard_normal(rows, np.float32) for number in range(COLUMNS)}
    for number in range(3):
        columns[f"x{number}"] += labels * np.float32(number - 1)
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({**columns, LABEL: labels}), path, row_group_size=rows_per_group)
    return path


def write_tfrecord(table: Path, folder: Path, *, rows: int, files: int = 4) -> Path:
    """The first rows of a table as tf.train.Example: `x`, all columns in one list, and `label`; returns the folder."""
    import tensorflow as tf

    folder.mkdir(parents=True)
    taken = pq.read_table(table).slice(0, rows)
    labels = taken.column(LABEL).to_pylist()
    values = np.stack([taken.column(f"x{number}").to_numpy() for number in range(COLUMNS)], axis=1)
    for number in range(files):
        with tf.io.TFRecordWriter(str(folder / f"{number}.tfrecord")) as writer:
            for row in range(number, rows, files):
                example = tf.train.Example()
                example.features.feature["x"].float_list.value.extend(values[row])
                example.features.feature[LABEL].int64_list.value.append(labels[row])
                writer.write(example.SerializeToString())
    return folder


def write_links_to(file: Path, folder: Path, *, links: int) -> Path:
    """A folder with many links to one file: a large set that takes the disk space of one file. Returns the folder."""
    folder.mkdir(parents=True)
    for number in range(links):
        os.link(file, folder / f"{number:04d}{file.suffix}")
    return folder


def write_photographs(folder: Path, photographs: int, *, size: tuple[int, int] = (375, 500)) -> Path:
    """JPEGs of (height, width) in sub-folders for two classes: shapes and grain on a gradient, about 75 kB each."""
    random = np.random.default_rng(_SEED)
    height, width = size
    grain = random.normal(0, 14, (2 * height, 2 * width, 3)).astype(np.float32)
    for number in range(photographs):
        kind = ("round", "square")[number % 2]
        image = Image.fromarray(_gradient(random, size))
        draw = ImageDraw.Draw(image)
        for _ in range(12):
            left, top, side = (int(random.integers(0, limit)) for limit in (width, height, 150))
            colour = tuple(int(value) for value in random.integers(0, 256, 3))
            (draw.ellipse if kind == "round" else draw.rectangle)((left, top, left + side, top + side), fill=colour)
        x, y = (int(random.integers(0, limit)) for limit in (width, height))
        pixels = np.asarray(image, np.float32) + grain[y : y + height, x : x + width]
        path = folder / kind / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(path, quality=85)
    return folder


def _gradient(random: np.random.Generator, size: tuple[int, int]) -> NDArray[np.uint8]:
    """A picture (height, width, 3) that goes from one colour to another, downwards."""
    height, width = size
    above, below = random.integers(0, 256, (2, 3))
    share = np.linspace(0, 1, height)[:, None]
    rows = above * (1 - share) + below * share
    return np.ascontiguousarray(np.broadcast_to(rows[:, None], (height, width, 3)).astype(np.uint8))


def _encoded(samples: Samples) -> Iterator[bytes]:
    for image in samples.images:
        content = io.BytesIO()
        Image.fromarray(image).save(content, "PNG", compress_level=1)
        yield content.getvalue()
