"""Parts of collections in which any sample can be read by its number: arrays, image files, synthetic images."""

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from trainer.data.interfaces import Batch, EvaluationBatch, Features, Indices, Labels, SampleSchedule
from trainer.data.shuffling import evaluated, rank_batches

_ROWS = 64  # of a batch of `rows`: enough to keep a reader's threads busy, few enough for large images


class Reader(Protocol):
    """Reads samples of a collection by their numbers."""

    def read(self, batches: Iterator[Indices]) -> Iterator[tuple[Indices, Features]]:
        """The samples of each batch, in order, beside their numbers; may work ahead. Raises `BadData`."""


@dataclass(frozen=True)
class ArrayReader:
    """Samples that are in memory, or in a file that is mapped into it."""

    features: Features

    def read(self, batches: Iterator[Indices]) -> Iterator[tuple[Indices, Features]]:
        """Indexed when asked for: a batch of 64 takes some 10 µs, less than handing it between threads."""
        return ((indices, self.features[indices]) for indices in batches)


@dataclass(frozen=True)
class IndexedPart:
    """The samples `indices` of a collection; `labels` are those of all its samples."""

    reader: Reader
    labels: Labels
    indices: Indices

    def __len__(self) -> int:
        return len(self.indices)

    @property
    def is_quick(self) -> bool:
        """See `Part.is_quick`."""
        return self.in_memory

    @property
    def in_memory(self) -> bool:
        """Whether a batch costs no more than copying it."""
        return isinstance(self.reader, ArrayReader) and not isinstance(self.reader.features, np.memmap)

    def damage(self) -> dict[str, str]:
        """See `Part.damage`; the survey has seen every sample."""
        return {}

    def train(self, schedule: SampleSchedule, *, epoch: int, first: int) -> Generator[Batch, None, None]:
        """See `Part.train`."""
        chosen = (self.indices[batch] for batch in rank_batches(schedule, epoch=epoch, first=first))
        for indices, features in self.reader.read(chosen):
            yield Batch(features, self.labels[indices])

    def rows(self, start: int, stop: int, *, of: int | None = None) -> Iterator[Batch]:
        """See `Part.rows`; the sequence is the same for every `of`."""
        chosen = (self.indices[first : min(first + _ROWS, stop)] for first in range(start, stop, _ROWS))
        for indices, features in self.reader.read(chosen):
            yield Batch(features, self.labels[indices])

    def evaluate(
        self, *, rank: int, ranks: int, per_rank: int, samples: int | None = None
    ) -> Generator[EvaluationBatch, None, None]:
        """See `Part.evaluate`; what fills the last batches is the last sample, with weight 0."""
        used = self.indices if samples in {None, len(self)} else evaluated(self.indices, samples)
        starts = range(rank * per_rank, len(used) + rank * per_rank, per_rank * ranks)
        positions = [np.arange(start, start + per_rank) for start in starts]
        chosen = (used[np.minimum(batch, len(used) - 1)] for batch in positions)
        for batch, (indices, features) in zip(positions, self.reader.read(chosen), strict=True):
            yield EvaluationBatch(features, self.labels[indices], (batch < len(used)).astype(np.float32))


def balanced(part: IndexedPart, *, name: str) -> IndexedPart:
    """Equally many samples of each class of the part: as many as the rarest has, the first ones of each.

    The classes take turns. So the first n samples are of all classes equally too, but for one sample of each.
    """
    labels = part.labels[part.indices]
    by_class = np.argsort(labels, kind="stable")
    times = np.bincount(labels)
    turns = np.arange(len(labels)) - np.repeat(np.cumsum(times) - times, times)  # of each in its class
    rarest = int(times[times > 0].min())
    kept = by_class[turns < rarest]
    print(f"{name}: {rarest} samples of each class are used, {len(kept)} of {len(labels)}", flush=True)
    return replace(part, indices=part.indices[kept[np.argsort(turns[turns < rarest], kind="stable")]])
