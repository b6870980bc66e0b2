"""`cache: memory`: the samples of a part, read once and then mapped from a file. Used by `trainer.data.opening`.

The ranks of a host share one file below its scratch folder. The operating system's page cache holds it, so the samples
are in memory once, and not once for each rank. Each local rank reads and writes its share of the samples.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path

import numpy as np

from jobs.model.spec import DatasetSpec
from jobs.runtime.files import FULL
from trainer.data.indexed import ArrayReader, IndexedPart
from trainer.data.interfaces import Batch, EvaluationBatch, Features, Host, Labels, Part, SampleSchedule, Target
from trainer.errors import BadData, NoSpace

_GB = 1e9


@dataclass(frozen=True)
class DecodedPart:
    """The first `samples` samples of `part`, read from a file that `fill` has written."""

    part: Part
    samples: int
    target: Target
    dtype: np.dtype[np.generic]
    path: Path

    def __len__(self) -> int:
        return len(self.part)

    @property
    def size_bytes(self) -> int:
        """The size of the file: labels, then samples."""
        return self._offset(self.samples)

    @property
    def is_quick(self) -> bool:
        """See `Part.is_quick`: what the system has dropped from memory is read from disk again."""
        return False

    def fill(self, *, local_rank: int, local_ranks: int) -> None:
        """Write this rank's share of the file. Raises `BadData`."""
        start, stop = (self.samples * rank // local_ranks for rank in (local_rank, local_rank + 1))
        at = start
        with _shared(self.path, self.size_bytes) as write:
            for batch in self.part.rows(start, stop, of=self.samples):
                write(batch.labels.astype(self.target.label_dtype, copy=False), at * self._label_bytes)
                write(batch.features.astype(self.dtype, copy=False), self._offset(at))
                at += len(batch.labels)
        if at != stop:
            raise BadData(f"dataset.cache: {at - start} samples where {stop - start} were seen: did the data change?")

    def train(self, schedule: SampleSchedule, *, epoch: int, first: int) -> Generator[Batch, None, None]:
        """See `Part.train`."""
        return self._mapped.train(schedule, epoch=epoch, first=first)

    def evaluate(
        self, *, rank: int, ranks: int, per_rank: int, samples: int | None = None
    ) -> Generator[EvaluationBatch, None, None]:
        """See `Part.evaluate`."""
        return self._mapped.evaluate(rank=rank, ranks=ranks, per_rank=per_rank, samples=samples)

    def rows(self, start: int, stop: int, *, of: int | None = None) -> Iterator[Batch]:
        """See `Part.rows`."""
        return self._mapped.rows(start, stop, of=of)

    def damage(self) -> dict[str, str]:
        """See `Part.damage`."""
        return self.part.damage()

    @cached_property
    def _mapped(self) -> IndexedPart:
        """The file as a part; opened at the first use, when all ranks of the host have written their shares."""
        target = self.target
        values = np.fromfile(self.path, target.label_dtype, self.samples * prod(target.label_shape))
        labels: Labels = values.reshape(self.samples, *target.label_shape)
        features: Features = np.memmap(
            self.path, self.dtype, "r", offset=self._offset(0), shape=(self.samples, *target.shape)
        )
        return IndexedPart(ArrayReader(features), labels, np.arange(self.samples))

    def _offset(self, sample: int) -> int:
        return self.samples * self._label_bytes + sample * prod(self.target.shape) * self.dtype.itemsize

    @property
    def _label_bytes(self) -> int:
        return prod(self.target.label_shape) * self.target.label_dtype.itemsize


def decoded(
    parts: Mapping[str, Part], spec: DatasetSpec, host: Host, *, seed: int, target: Target, dtype: str
) -> dict[str, Part]:
    """The parts, those of training and validation to be cached where they are not in memory. Raises `BadData`."""
    changed = dict(parts)
    for name in ("train", "validation"):
        part = parts[name]
        if isinstance(part, IndexedPart) and part.in_memory:
            continue
        samples = min(spec.used_samples(len(part)), len(part)) if name == "train" else len(part)
        path = host.scratch_dir / f"decoded-{_digest(spec, seed)}-{name}"
        changed[name] = DecodedPart(part, samples, target, np.dtype(dtype), path)
    size_bytes = sum(part.size_bytes for part in changed.values() if isinstance(part, DecodedPart))
    _check_size(size_bytes, spec, host)
    return changed


def _check_size(size_bytes: int, spec: DatasetSpec, host: Host) -> None:
    if size_bytes > spec.cache_limit_gb * _GB:
        raise BadData(
            f"dataset.cache: the decoded samples take {size_bytes / _GB:.3g} GB, and the cache may take "
            f"{spec.cache_limit_gb:g} (dataset.cache_limit_gb, at most HORA_CACHE_LIMIT_GB of the host): raise it, or "
            "set dataset.cache to 'none'"
        )
    disk = shutil.disk_usage(host.scratch_dir)
    if disk.free < size_bytes <= disk.total:
        raise NoSpace(f"the decoded samples take {size_bytes / _GB:.3g} GB, and {disk.free / _GB:.3g} GB are free")
    if size_bytes > disk.total:
        raise BadData(
            f"dataset.cache: the decoded samples take {size_bytes / _GB:.3g} GB, and the disk of their host has "
            f"{disk.total / _GB:.3g} GB in all: set dataset.cache to 'none'"
        )


def _digest(spec: DatasetSpec, seed: int) -> str:
    """A name for a spec's samples, the same on every rank."""
    text = json.dumps([spec.model_dump(mode="json"), seed], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@contextmanager
def _shared(path: Path, size_bytes: int) -> Iterator[Callable[[Features, int], None]]:
    """A file that several processes fill: a function that writes values at an offset. Raises `BadData`.

    It is written and not mapped: on a full disk a write raises an error, but a mapping ends the process.
    """

    def write(values: Features, offset: int) -> None:
        content = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        while len(content):
            with _refusal():
                written = os.pwrite(file, content.data, offset)
            content, offset = content[written:], offset + written

    with _refusal():
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        with _refusal():
            os.ftruncate(file, size_bytes)  # each process does it, in any sequence
        yield write
    finally:
        os.close(file)


@contextmanager
def _refusal() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            raise NoSpace(f"the decoded samples cannot be written: {error.strerror}") from None
        raise BadData(f"dataset.cache: cannot write the decoded samples: {error.strerror}") from None
