"""Flips and quarter rotations of training images. Used by `trainer.data.opening`; NumPy only.

Each use of a sample takes the sample itself or one of the listed variants, all with equal probability. The choices of a
step are drawn for the whole global batch from the seed, the epoch and the step, and each rank takes its share. So they
are the same on 1 rank and on n, and in a run that continues from a checkpoint.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from trainer.data.interfaces import Batch, Features, SampleSchedule, Shape
from trainer.data.shuffling import Stream
from trainer.errors import BadData

_VARIANTS: dict[str, Callable[[Features], Features]] = {  # of (sample, height, width, channel)
    "flip_horizontal": lambda images: images[:, :, ::-1],
    "flip_vertical": lambda images: images[:, ::-1],
    "rotate_90": lambda images: np.rot90(images, 1, axes=(1, 2)),  # counter-clockwise
    "rotate_180": lambda images: images[:, ::-1, ::-1],
    "rotate_270": lambda images: np.rot90(images, 3, axes=(1, 2)),
}


def check_augment(names: Sequence[str], shape: Shape) -> None:
    """Raise `BadData` if samples of this shape have no such variants."""
    if names and len(shape) != 3:
        raise BadData(f"dataset.augment: {names[0]} needs images, and the samples are rows of {shape[0]} columns")
    quarter = next((name for name in names if name in {"rotate_90", "rotate_270"}), None)
    if quarter and shape[0] != shape[1]:
        raise BadData(
            f"dataset.augment: {quarter} needs square images, and these are {shape[0]} high and {shape[1]} wide: "
            "set dataset.image_size to a square"
        )


def augmented(
    batches: Iterator[Batch], names: Sequence[str], schedule: SampleSchedule, *, epoch: int, first: int
) -> Iterator[Batch]:
    """The batches from step `first` (from 0) of `epoch` on, each sample replaced by one of its variants."""
    variants = [_VARIANTS[name] for name in dict.fromkeys(names)]
    own_samples = slice(schedule.rank * schedule.per_rank, (schedule.rank + 1) * schedule.per_rank)
    step = first
    for features, labels in batches:
        if step == schedule.steps:
            epoch, step = epoch + 1, 0
        generator = np.random.default_rng((schedule.seed, Stream.AUGMENT, epoch, step))
        choices = generator.integers(len(variants) + 1, size=schedule.global_batch)[own_samples]
        changed = features.copy()  # the reader may still use these arrays
        for number, variant in enumerate(variants, start=1):
            chosen = choices == number
            changed[chosen] = variant(features[chosen])
        yield Batch(changed, labels)
        step += 1
