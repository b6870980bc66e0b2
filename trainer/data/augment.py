"""What becomes of training samples before a step: `dataset.augment`. Used by `trainer.data.opening`.

The plain names of the list are variants. Each use of a sample takes the sample itself or one of them, all with equal
probability. The objects are steps, each with a chance of its own. All are applied in the order of the list, and the
variants where the first of them stands.

The choices of a step of the training are drawn for the whole global batch from the seed, the epoch and the step, and
each rank takes its share. So they are the same on 1 rank and on n, and in a run that continues from a checkpoint.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count

import numpy as np

from jobs.model.augment_fields import QUARTER_TURNS, AugmentItem, AugmentStep, Color, Crop, name_of, variants_in
from trainer.data.interfaces import Batch, Features, SampleSchedule, Shape
from trainer.data.shuffling import Stream
from trainer.data.transforms import DRAWS, VARIANTS, Range, transformed
from trainer.errors import BadData

Place = tuple[int, int]  # an epoch, and a step of it from 0
_Change = Callable[[Features, Place], Features]


def check_augment(items: Sequence[AugmentItem], shape: Shape) -> None:
    """Raise `BadData` if samples of this shape cannot be changed so."""
    for item in items:
        name = name_of(item)
        if len(shape) != 3:
            raise BadData(f"dataset.augment: {name} needs images, and the samples are rows of {shape[0]} columns")
        height, width, channels = shape
        if name in QUARTER_TURNS and height != width:
            raise BadData(
                f"dataset.augment: {name} needs square images, and these are {height} high and {width} wide: "
                "set dataset.image_size to a square"
            )
        if isinstance(item, Crop) and item.padding > min(height, width):
            raise BadData(
                f"dataset.augment: crop has a padding of {item.padding}, more than the {height}x{width} pixels of the "
                "images"
            )
        if isinstance(item, Color) and (item.saturation or item.hue) and channels != 3:
            raise BadData(
                f"dataset.augment: color changes saturation or hue, and the images have {channels} "
                f"channel{'s' * (channels > 1)}, not 3: set only brightness and contrast"
            )


def augmented(
    batches: Iterator[Batch],
    items: Sequence[AugmentItem],
    schedule: SampleSchedule,
    *,
    epoch: int,
    first: int,
    value_range: Range = (0.0, 255.0),
) -> Iterator[Batch]:
    """The batches from step `first` (from 0) of `epoch` on, their samples changed."""
    changes = _changes(items, schedule, value_range)
    for place, (features, labels) in zip(_places(schedule, epoch, first), batches, strict=False):
        changed = features.copy()  # the reader may still use these arrays
        for change in changes:
            changed = change(changed, place)
        yield Batch(changed, labels)


def _places(schedule: SampleSchedule, epoch: int, first: int) -> Iterator[Place]:
    for number in count(epoch):
        yield from ((number, step) for step in range(first, schedule.steps))
        first = 0


def _changes(items: Sequence[AugmentItem], schedule: SampleSchedule, value_range: Range) -> list[_Change]:
    changes: list[_Change] = []
    names = variants_in(items)
    for position, item in enumerate(items, start=1):
        if isinstance(item, AugmentStep):
            changes.append(partial(_by_chance, item, position, schedule, value_range))
        elif names and item == names[0]:
            changes.append(partial(_in_variants, names, schedule))
            names = []
    return changes


def _in_variants(names: Sequence[str], schedule: SampleSchedule, images: Features, place: Place) -> Features:
    """Each image itself or one of the variants."""
    generator = np.random.default_rng((schedule.seed, Stream.AUGMENT, *place))
    choices = generator.integers(len(names) + 1, size=schedule.global_batch)[_own(schedule)]
    for number, name in enumerate(names, start=1):
        chosen = choices == number
        images[chosen] = VARIANTS[name](images[chosen])
    return images


def _by_chance(
    step: AugmentStep, position: int, schedule: SampleSchedule, value_range: Range, images: Features, place: Place
) -> Features:
    """Those images that the chance of a step meets are changed by it. The position in the list is part of the seed."""
    generator = np.random.default_rng((schedule.seed, Stream.AUGMENT, *place, position))
    draws = generator.random((schedule.global_batch, 1 + DRAWS))[_own(schedule)]
    chosen = draws[:, 0] < step.chance
    if chosen.all():
        return transformed(step, images, draws[:, 1:], value_range)
    images[chosen] = transformed(step, images[chosen], draws[chosen, 1:], value_range)
    return images


def _own(schedule: SampleSchedule) -> slice:
    return slice(schedule.rank * schedule.per_rank, (schedule.rank + 1) * schedule.per_rank)
