"""Which samples come when: splits and shuffles, from seeds alone. Pure; used by `trainer.data.indexed`.

The order of an epoch depends on the seed and the epoch alone, never on the number of ranks. So a global batch has the
same samples on 1 rank and on n, and a run that continues from a checkpoint sees the same samples as without a break.
"""

from collections.abc import Iterator
from enum import IntEnum
from itertools import count, islice

import numpy as np

from trainer.data.interfaces import Indices, SampleSchedule, Selection


class Stream(IntEnum):
    """The use of a random number. It is part of the generator's seed, so no two uses share their numbers."""

    SPLIT = 1
    ORDER = 2
    RANK_ORDER = 3
    AUGMENT = 4
    EVALUATION = 5
    MIX = 6
    ENLARGE = 7


def selected(samples: int, selection: Selection) -> Indices:
    """The samples of a collection that a selection takes, in the order in which `fraction` counts them."""
    if selection.side == "all":
        return np.arange(samples)
    shuffled = np.random.default_rng((selection.seed, Stream.SPLIT)).permutation(samples)
    train = Selection("train", selection.share).size_of(samples)
    return shuffled[:train] if selection.side == "train" else shuffled[train:]


def evaluated(indices: Indices, samples: int | None) -> Indices:
    """Some samples of a part, the same ones for every job. They are mixed, as the files may be sorted by class."""
    return np.random.default_rng((Stream.EVALUATION,)).permutation(indices)[:samples]


def places(schedule: SampleSchedule, epoch: int, first: int) -> Iterator[tuple[int, int]]:
    """(epoch, step from 0) of every step from step `first` of `epoch` on, without end."""
    for number in count(epoch):
        yield from ((number, step) for step in range(first, schedule.steps))
        first = 0


def rank_batches(schedule: SampleSchedule, *, epoch: int, first: int) -> Iterator[Indices]:
    """This rank's samples of every step from step `first` of `epoch` on, epoch after epoch, without end."""
    for number in count(epoch):
        yield from islice(_epoch_batches(schedule, epoch=number, first=first), schedule.steps - first)
        first = 0


def _epoch_batches(schedule: SampleSchedule, *, epoch: int, first: int) -> Iterator[Indices]:
    if schedule.sharding == "steps":
        # Each rank draws from all samples, in an order of its own.
        seed = (schedule.seed, Stream.RANK_ORDER, epoch, schedule.rank)
        yield from _batches(schedule.samples, size=schedule.per_rank, seed=seed, first=first)
        return
    for batch in global_batches(
        schedule.samples, global_batch=schedule.global_batch, seed=schedule.seed, epoch=epoch, first=first
    ):
        yield batch[schedule.own_places]


def drawn_variants(schedule: SampleSchedule, variants: int, *, epoch: int, first: int) -> Iterator[Indices]:
    """For this rank's samples of every step: 0, the original, or the number of a variant, with equal probability."""
    for place in places(schedule, epoch, first):
        generator = np.random.default_rng((schedule.seed, Stream.AUGMENT, *place))
        yield generator.integers(variants + 1, size=schedule.global_batch)[schedule.own_places]


def variants_in_turn(schedule: SampleSchedule, variants: int, *, epoch: int, first: int) -> Iterator[Indices]:
    """The same, but another one in each pass over the data: an epoch of 1 + `variants` passes has each of them once.

    A sample begins with a random one, so that every batch is of all kinds. Only for samples that `rank_batches` chose.
    With `sharding: steps` each rank makes a part of the passes, and so a part of the variants.
    """
    shared = schedule.sharding == "shard"
    size = schedule.global_batch if shared else schedule.per_rank
    start = schedule.own_places.start if shared else schedule.rank * schedule.per_rank * schedule.steps
    for number in count(epoch):
        generator = np.random.default_rng((schedule.seed, Stream.ENLARGE, number))
        offsets = generator.integers(variants + 1, size=schedule.samples)
        steps = range(first, schedule.steps)
        for step, samples in zip(steps, _epoch_batches(schedule, epoch=number, first=first), strict=False):
            passes = (start + step * size + np.arange(schedule.per_rank)) // schedule.samples
            yield (offsets[samples] + passes) % (variants + 1)
        first = 0


def global_batches(samples: int, *, global_batch: int, seed: int, epoch: int, first: int = 0) -> Iterator[Indices]:
    """The samples of each global batch of an epoch without end, from batch number `first` on.

    Passes over the data follow each other without a gap, each in its own order by (seed, epoch, pass); how many
    batches make an epoch is the plan's business.
    """
    return _batches(samples, size=global_batch, seed=(seed, Stream.ORDER, epoch), first=first)


def _batches(samples: int, *, size: int, seed: tuple[int, ...], first: int) -> Iterator[Indices]:
    if not samples:
        return
    passes = count((first * size) // samples)
    orders = (np.random.default_rng((*seed, number)).permutation(samples) for number in passes)
    ahead = next(orders)[(first * size) % samples :]
    while True:
        while len(ahead) < size:
            ahead = np.concatenate([ahead, next(orders)])
        yield ahead[:size]
        ahead = ahead[size:]
