"""Reads a few images of a dataset, small, for people who look at it. Called by `trainer.inspection` at its end.

It returns pixels, not files of images: the worker makes those, so that nothing which this process opened reaches a
browser as it was.
"""

from base64 import b64encode
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainer.data.interfaces import Batch, Facts
from trainer.data.opening import Dataset

MOST, MOST_OF_CLASS = 24, 3
LARGEST_PX = 64
_MOST_SAMPLED = 100_000  # samples of a dataset: those of a larger one lie far apart, and reading some takes long
_LOOKED_AT = 512  # samples from all over the training data
_CHANNELS = (1, 3)


def samples_of(dataset: Dataset) -> list[dict[str, Any]]:
    """`{"label", "height", "width", "channels", "pixels"}` of some samples; empty if they are no images."""
    if not are_images(dataset.facts) or len(dataset.train) > _MOST_SAMPLED:
        return []
    return list(chosen(dataset.train.rows(0, min(_LOOKED_AT, len(dataset.train))), dataset.facts))


def are_images(facts: Facts) -> bool:
    """Whether samples can be shown: pixels of one channel or three, in a known range."""
    return len(facts.shape) == 3 and facts.shape[2] in _CHANNELS and facts.value_range is not None


def chosen(batches: Iterator[Batch], facts: Facts) -> Iterator[dict[str, Any]]:
    """The first few samples of each class, until there are enough."""
    assert facts.value_range is not None
    of_class: Counter[str] = Counter()
    count = 0
    for batch in batches:
        for image, label in zip(batch.features, batch.labels, strict=True):
            name = _name(label, facts)
            if of_class[name] >= MOST_OF_CLASS:
                continue
            of_class[name] += 1
            count += 1
            pixels = small(image, facts.value_range)
            height, width, channels = pixels.shape
            yield {
                "label": name, "height": height, "width": width, "channels": channels,
                "pixels": b64encode(pixels.tobytes()).decode(),
            }  # fmt: skip
            if count == MOST:
                return


def _name(label: Any, facts: Facts) -> str:
    if facts.task == "classification":
        return facts.classes[int(label)]
    if facts.task == "multilabel":
        return ", ".join(name for name, applies in zip(facts.classes, label, strict=True) if applies)
    return ", ".join(f"{number:.4g}" for number in np.ravel(label))


def small(image: NDArray[Any], value_range: tuple[float, float]) -> NDArray[np.uint8]:
    """The image (height, width, channel) as bytes, with at most `LARGEST_PX` on each side: means of equal blocks."""
    low, high = value_range
    block = -(-max(image.shape[:2]) // LARGEST_PX)
    height, width = (max(side // block, 1) for side in image.shape[:2])
    cut = image[: height * block, : width * block].astype(np.float32)
    parts = cut.reshape(height, cut.shape[0] // height, width, cut.shape[1] // width, image.shape[2])
    scaled = (parts.mean(axis=(1, 3)) - low) / max(high - low, 1e-9) * 255
    pixels: NDArray[np.uint8] = np.nan_to_num(scaled, posinf=255, neginf=0).clip(0, 255).round().astype(np.uint8)
    return pixels
