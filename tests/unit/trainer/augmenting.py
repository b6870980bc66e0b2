"""Batches of made-up samples that are augmented, for the tests of augmentation."""

from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.datasets import spec_of
from trainer.data.augment import augmented
from trainer.data.indexed import ArrayReader, IndexedPart
from trainer.data.interfaces import Batch, SampleSchedule


def items_of(*items: Any) -> list[Any]:
    """The items of a list as the spec reads them."""
    return spec_of({"source": "digits", "augment": list(items)}).own_dataset.augment


def photos(samples: int, dtype: str = "uint8") -> NDArray[Any]:
    """Images (sample, 12, 10, 3) of random pixels; floats are from -1 to 1."""
    pixels = np.random.default_rng(1).integers(0, 256, (samples, 12, 10, 3), dtype=np.uint8)
    return pixels if dtype == "uint8" else (pixels / 127.5 - 1).astype(np.float32)


def trained(
    items: list[Any],
    pixels: NDArray[Any],
    *,
    per_rank: int,
    steps: int = 6,
    epoch: int = 1,
    first: int = 0,
    classes: int = 0,
    schedule: dict[str, Any] | None = None,
    **options: Any,
) -> list[Batch]:
    """The first batches of a rank, in epochs of 4 steps. A label is the number of its sample, modulo the `classes`."""
    numbers = np.arange(len(pixels), dtype=np.int32)
    labels = numbers % classes if classes else numbers
    own = SampleSchedule(
        **{"samples": len(pixels), "rank": 0, "ranks": 1, "per_rank": per_rank, "steps": 4, "seed": 7}
        | (schedule or {})
    )
    read = IndexedPart(ArrayReader(pixels), labels, numbers).train(own, epoch=epoch, first=first)
    batches = augmented(read, items, own, epoch=epoch, first=first, classes=classes or 2, **options)
    return list(islice(batches, steps))


def changed(items: list[Any], pixels: NDArray[Any], **options: Any) -> NDArray[Any]:
    """The samples of the first batches of a rank (step, sample, ...)."""
    return np.array([batch.features for batch in trained(items, pixels, **options)])
