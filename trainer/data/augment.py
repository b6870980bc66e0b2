"""What becomes of training samples before a step: `dataset.augment`. Used by `trainer.data.opening`.

The plain names of the list are variants. Each use of a sample takes the sample itself or one of them, all with equal
probability; where the data is enlarged, they take turns. The objects are steps, each with a chance of its own. All are
applied in the order of the list, and the variants where the first of them stands. The steps that mix samples come last.

The choices of a step of the training are drawn for the whole global batch from the seed, the epoch and the step, and
each rank takes its share. So they are the same on 1 rank and on n, and in a run that continues from a checkpoint.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np

from jobs.model.augment_fields import (
    QUARTER_TURNS,
    AugmentItem,
    AugmentStep,
    Color,
    Crop,
    Cutmix,
    Mixup,
    name_of,
    variants_in,
)
from trainer.data.groups import InGroups
from trainer.data.interfaces import Batch, Features, Indices, SampleSchedule, Shape
from trainer.data.mixing import mixed
from trainer.data.shuffling import Stream, drawn_variants, places, variants_in_turn
from trainer.data.transforms import DRAWS, Range, transformed, variant
from trainer.errors import BadData

Place = tuple[int, int]  # an epoch, and a step of it from 0
_Change = partial[None]  # of (images, place, in groups)


def check_augment(items: Sequence[AugmentItem], shape: Shape, *, are_texts: bool = False) -> None:
    """Raise `BadData` if samples of this shape cannot be changed so."""
    for item in items:
        name = name_of(item)
        if are_texts:
            raise BadData(f"dataset.augment: {name} changes images or numbers, and the samples are texts: leave it out")
        if isinstance(item, Mixup):
            continue
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
    classes: int = 2,
    enlarge: bool = False,
    threads: int = 1,
) -> Iterator[Batch]:
    """The batches from step `first` (from 0) of `epoch` on, their samples changed by some threads.

    With `enlarge` the variants of a sample take turns, pass after pass; else one is drawn. `value_range` is that of
    pixels. If samples are mixed, the labels are the shares of the `classes`.
    """
    mixers = [item for item in items if isinstance(item, Mixup | Cutmix)]
    variants = variants_in_turn if enlarge else drawn_variants
    choices = variants(schedule, len(variants_in(items)), epoch=epoch, first=first)
    changes = _changes(items, choices, schedule, value_range)
    with ThreadPoolExecutor(threads, thread_name_prefix="augment") as pool:
        in_groups = InGroups(pool, threads)
        if changes:
            batches = _changed(batches, changes, in_groups, places(schedule, epoch, first))
        if mixers:
            batches = mixed(batches, mixers, schedule, in_groups, classes=classes, epoch=epoch, first=first)
        yield from batches


def _changed(
    batches: Iterator[Batch], changes: Sequence[_Change], in_groups: InGroups, steps: Iterator[Place]
) -> Iterator[Batch]:
    for place, (features, labels) in zip(steps, batches, strict=False):
        images = features.copy()  # the reader may still use these arrays
        for change in changes:
            change(images, place, in_groups)
        yield Batch(images, labels)


def _changes(
    items: Sequence[AugmentItem], choices: Iterator[Indices], schedule: SampleSchedule, value_range: Range
) -> list[_Change]:
    """What is done to the images of a batch, one after the other."""
    changes: list[_Change] = []
    names = variants_in(items)
    for position, item in enumerate(items, start=1):
        if isinstance(item, str):
            if item == names[0] and _in_variants not in {change.func for change in changes}:
                changes.append(partial(_in_variants, names, choices))
        elif not isinstance(item, Mixup | Cutmix):
            changes.append(partial(_by_chance, item, position, schedule, value_range))
    return changes


def _in_variants(
    names: Sequence[str], choices: Iterator[Indices], images: Features, place: Place, in_groups: InGroups
) -> None:
    """Leave each image as it is, or put one of the variants in its place, as the next choices say."""
    chosen = next(choices)
    for number, name in enumerate(names, start=1):

        def change(group: Indices, name: str = name) -> None:
            images[group] = variant(name, images[group])

        in_groups(change, np.flatnonzero(chosen == number), images)


def _by_chance(
    step: AugmentStep,
    position: int,
    schedule: SampleSchedule,
    value_range: Range,
    images: Features,
    place: Place,
    in_groups: InGroups,
) -> None:
    """Change those images that the chance of a step meets. Its position in the list is part of the seed."""
    generator = np.random.default_rng((schedule.seed, Stream.AUGMENT, *place, position))
    draws = generator.random((schedule.global_batch, 1 + DRAWS))[schedule.own_places]

    def change(group: Indices) -> None:
        images[group] = transformed(step, images[group], draws[group, 1:], value_range)

    in_groups(change, np.flatnonzero(draws[:, 0] < step.chance), images)
