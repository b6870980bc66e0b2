"""Generated images: learnable, without storage, the same in every run. Used by `trainer.data.formats`.

A class is a smooth pattern; all patterns have the same mean brightness. A sample is the pattern of its class plus its
own noise. All of a sample follows from its number, so it is the same in every batch that has it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod

import numpy as np
from numpy.typing import NDArray

from jobs.model.spec import DatasetSpec, WrongSynthetic, synthetic_of
from jobs.model.tasks import CLASSIFICATION, Task
from trainer.data.indexed import IndexedPart
from trainer.data.interfaces import Collection, Features, Indices, Labels, Selection, Shape, Survey, Target
from trainer.data.moments import Moments
from trainer.data.shuffling import selected
from trainer.errors import BadData

_SEED = 20_190_701  # fixed for ever, and not the job's: the data must never change
_MEAN, _CONTRAST, _NOISE = (
    128,
    32,
    32,
)  # of a pixel: the middle, how far patterns go from it, the noise's deviation
_MOST_NOISE = 95  # mean + contrast + noise stay within a byte
_GRID = 5  # random values that make up a side of a pattern
_OFFSETS = 2**20  # of the noise: as many samples of a class have a noise of their own
_STRIDE = 0x9E3779B1  # odd, so that number x stride reaches every offset; far from any small fraction of them


@dataclass(frozen=True)
class Synthetic:
    """The samples numbered `first`, `first` + 1, ... of made-up data."""

    shape: tuple[int, int, int]  # (height, width, channel)
    classes: int
    samples: int
    first: int = 0
    name: str = "synthetic"
    targets: int = 0

    @property
    def task(self) -> Task:
        """Regression, if there are targets."""
        return "regression" if self.targets else CLASSIFICATION

    @property
    def labels(self) -> Labels:
        """Classes in turn (sample,), or the numbers that they stand for (sample, target)."""
        classes = ((self.first + np.arange(self.samples)) % self.classes).astype(np.int32)
        if not self.targets:
            return classes
        numbers = np.random.default_rng(_SEED).standard_normal((self.classes, self.targets), np.float32)
        return numbers[classes]

    def survey(self, *, rank: int, ranks: int) -> Survey:
        """There are no files to look at; only the first rank reports."""
        survey = Survey(label_kind="integer")
        if rank == 0:
            survey.samples = self.samples
            if self.targets:
                moments = Moments()
                moments.add(self.labels)
                survey.moments = {"0": moments.sums}
            else:
                times = np.bincount(self.labels, minlength=self.classes).tolist()
                survey.labels = {str(label): count for label, count in enumerate(times) if count}
            survey.shapes = [self.shape]
            survey.details = {"dtype": "uint8", "value_range": [0.0, 255.0]}
        return survey

    def shape_of(self, survey: Survey, image_size: tuple[int, int] | None) -> Shape:
        """The requested shape; the data has no other size."""
        return self.shape

    def part(self, survey: Survey, target: Target, selection: Selection) -> IndexedPart:
        """The selected samples."""
        reader = SyntheticReader(_patterns(self.shape, self.classes), _noise(self.shape), self.first)
        return IndexedPart(reader, self.labels, selected(self.samples, selection))


@dataclass(frozen=True)
class SyntheticReader:
    """Makes samples: the pattern of the class plus a stretch of the noise, which begins elsewhere for each sample."""

    patterns: Features  # (class, height, width, channel), lowered by the most that noise takes away
    noise: NDArray[np.uint8]  # (offset + pixel,), raised by the same
    first: int

    def read(self, batches: Iterator[Indices]) -> Iterator[tuple[Indices, Features]]:
        """See `trainer.data.indexed.Reader`."""
        shape = self.patterns.shape[1:]
        stretches = np.lib.stride_tricks.sliding_window_view(self.noise, prod(shape))
        for indices in batches:
            numbers = self.first + indices
            images = stretches[(numbers * _STRIDE) % _OFFSETS].reshape(-1, *shape)
            images += self.patterns[numbers % len(self.patterns)]
            yield indices, images


def collections(source: str, spec: DatasetSpec, *, field: str) -> dict[str, Collection]:
    """The training data that a source names, and a tenth of it more to test on. Raises `BadData`."""
    try:
        data = synthetic_of(source)
        if spec.image_size is not None:
            field = "dataset.image_size"
            data = data.resized(spec.image_size)
    except WrongSynthetic as error:
        raise BadData(f"{field}: {error}") from None
    train = Synthetic(data.shape, classes=data.classes, samples=data.samples, targets=data.targets)
    return {"train": train, "test": replace(train, samples=data.test_samples, first=data.samples)}


@lru_cache(maxsize=1)
def _patterns(shape: tuple[int, int, int], classes: int) -> Features:
    """The pattern of each class: a grid of random values, linearly interpolated, of mean 0 and extreme 1."""
    height, width, channels = shape
    generator = np.random.default_rng(_SEED)
    rows, columns = _interpolation(height), _interpolation(width)
    patterns = np.empty((classes, *shape), np.uint8)
    for pattern in patterns:
        grid = generator.standard_normal((_GRID, _GRID, channels), np.float32)
        smooth = np.einsum("hi,wj,ijc->hwc", rows, columns, grid, optimize=True)
        smooth -= smooth.mean()
        pattern[:] = np.rint(_MEAN - _MOST_NOISE + _CONTRAST * smooth / np.abs(smooth).max())
    return patterns


def _interpolation(pixels: int) -> NDArray[np.float64]:
    """The weights (pixel, grid) with which the values of a side's grid make up its pixels."""
    places = np.linspace(0, _GRID - 1, pixels)
    return np.maximum(0, 1 - np.abs(places[:, np.newaxis] - np.arange(_GRID)))


@lru_cache(maxsize=1)
def _noise(shape: Shape) -> NDArray[np.uint8]:
    values = np.random.default_rng(_SEED).standard_normal(_OFFSETS + prod(shape), np.float32)
    raised = (values * _NOISE).clip(-_MOST_NOISE, _MOST_NOISE) + _MOST_NOISE
    noise: NDArray[np.uint8] = np.rint(raised).astype(np.uint8)
    return noise
