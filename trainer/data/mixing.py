"""Mixes each training sample with another one: mixup and cutmix. Used by `trainer.data.augment`; NumPy only.

The partner of a sample is the sample at the same place in the batch of the next step, after the last step of an epoch
in the first one of the next. Epochs are shuffled, so it is a random one. It lies on the same rank. So ranks need no
samples of each other, and the pairs are the same on 1 rank and on n, and in a run that continues from a checkpoint.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from jobs.model.augment_fields import Cutmix, Mixup
from trainer.data.groups import InGroups
from trainer.data.interfaces import Batch, Features, Indices, SampleSchedule, Shares
from trainer.data.shuffling import Stream, places

Kept = NDArray[np.float64]  # (sample,): the share that stays of a sample; the rest is its partner's


def mixed(
    batches: Iterator[Batch],
    steps: Sequence[Mixup | Cutmix],
    schedule: SampleSchedule,
    in_groups: InGroups,
    *,
    classes: int,
    epoch: int,
    first: int,
) -> Iterator[Batch]:
    """The batches from step `first` (from 0) of `epoch` on. Their labels are the shares of the classes.

    One of the steps is drawn for each sample, all with the same probability, and mixes it with its chance.
    """
    for place, (batch, partners) in zip(places(schedule, epoch, first), pairwise(batches), strict=False):
        generator = np.random.default_rng((schedule.seed, Stream.MIX, *place))
        yield _mixed(batch, partners, steps, generator, schedule, in_groups, classes)


def _mixed(
    batch: Batch,
    partners: Batch,
    steps: Sequence[Mixup | Cutmix],
    generator: np.random.Generator,
    schedule: SampleSchedule,
    in_groups: InGroups,
    classes: int,
) -> Batch:
    samples, own = schedule.global_batch, schedule.own_places
    choices = generator.integers(len(steps), size=samples)[own]
    chances, centres = generator.random(samples)[own], generator.random((samples, 2))[own]
    features, kept = batch.features.copy(), np.ones(len(batch.labels))
    for number, step in enumerate(steps):
        drawn = generator.beta(step.alpha, step.alpha, samples)[own]

        def mix(group: Indices, step: Mixup | Cutmix = step, drawn: Kept = drawn) -> None:
            pair = batch.features[group], partners.features[group]
            if isinstance(step, Mixup):
                features[group], kept[group] = mixup(*pair, drawn[group]), drawn[group]
            else:
                features[group], kept[group] = cutmix(*pair, drawn[group], centres[group])

        in_groups(mix, np.flatnonzero((choices == number) & (chances < step.chance)), features)
    return Batch(features, _shares(batch, classes, kept) + _shares(partners, classes, 1 - kept))


def mixup(samples: Features, partners: Features, kept: Kept) -> Features:
    """kept x sample + (1 - kept) x partner, of whole samples (Zhang et al. 2017, arXiv:1710.09412)."""
    weights = kept.astype(np.float32).reshape(-1, *[1] * (samples.ndim - 1))
    values = partners + weights * (samples.astype(np.float32) - partners)
    if np.issubdtype(samples.dtype, np.integer):
        np.rint(values, out=values)
    mixture: Features = values.astype(samples.dtype, copy=False)
    return mixture


def cutmix(samples: Features, partners: Features, kept: Kept, centres: NDArray[np.float64]) -> tuple[Features, Kept]:
    """Images with a rectangle out of their partners, and the share of the area that they keep.

    The rectangle has the shape of the image and 1 - `kept` of its area, but for what lies outside: its centre is
    anywhere in the image (Yun et al. 2019, arXiv:1905.04899).
    """
    mixture = samples.copy()
    bounds = []  # along the height and the width: the first pixel of each rectangle, and the one behind its last
    for pixels, centre in zip(samples.shape[1:3], centres.T, strict=True):
        half = pixels * np.sqrt(1 - kept) / 2
        ends = np.rint([pixels * centre - half, pixels * centre + half])
        bounds.append(np.clip(ends, 0, pixels).astype(np.int64))
    (top, bottom), (left, right) = bounds
    for image, partner, *sides in zip(
        mixture, partners, *(side.tolist() for side in (top, bottom, left, right)), strict=True
    ):
        rows, columns = slice(*sides[:2]), slice(*sides[2:])
        image[rows, columns] = partner[rows, columns]
    return mixture, 1 - (bottom - top) * (right - left) / (samples.shape[1] * samples.shape[2])


def _shares(batch: Batch, classes: int, weights: Kept) -> Shares:
    """The weight of each sample at its class, and 0 at the others (sample, class)."""
    if batch.labels.ndim == 2:  # of several classes at once
        return batch.labels * weights.astype(np.float32)[:, np.newaxis]
    shares = np.zeros((len(weights), classes), np.float32)
    shares[np.arange(len(weights)), batch.labels] = weights
    return shares
