"""Scales the images of a reader to another size. Used by collections whose samples are arrays."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from trainer.data.indexed import Reader
from trainer.data.interfaces import Features, Indices, Shape


@dataclass(frozen=True)
class ResizedReader:
    """Reads the samples of `reader`, scaled to `size` (height, width)."""

    reader: Reader
    size: tuple[int, int]

    def read(self, batches: Iterator[Indices]) -> Iterator[tuple[Indices, Features]]:
        """See `Reader.read`."""
        return ((indices, resized(features, self.size)) for indices, features in self.reader.read(batches))


def resized(images: Features, size: tuple[int, int]) -> Features:
    """Images (sample, height, width, channel) of another size: bilinear, without antialiasing, of the same dtype."""
    import tensorflow as tf

    with tf.device("CPU:0"):  # the GPU and its memory are for the model
        values = tf.image.resize(images, size, method="bilinear").numpy()
    if np.issubdtype(images.dtype, np.integer):
        values = np.rint(values)  # between two values of the dtype, so that none leaves its range
    changed: Features = values.astype(images.dtype, copy=False)
    return changed


def reader_of_shape(reader: Reader, shape: Shape, target: Shape) -> Reader:
    """A reader of samples of `shape`; it scales them if they have another one."""
    return reader if shape == target else ResizedReader(reader, (target[0], target[1]))
