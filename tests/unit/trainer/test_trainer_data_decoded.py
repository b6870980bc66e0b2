"""`cache: memory` and `image_size`: samples that are read once, and images of another size."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jobs.model.spec import DatasetSpec
from tests.datasets import open_dataset, spec_of, train_batches
from trainer.data.images.decoded import DecodedPart, decoded
from trainer.data.images.resize import resized
from trainer.data.indexed import ArrayReader, IndexedPart
from trainer.data.interfaces import Batch, Features, Host, Indices, Part, SampleSchedule, Target
from trainer.data.opening import Dataset
from trainer.errors import BadData

SYNTHETIC = {"source": "synthetic:samples=300,classes=3,shape=8x8x1"}


@dataclass(frozen=True)
class CountingReader:
    """A reader that counts how often each sample is read."""

    features: Features
    read_times: Indices

    def read(self, batches: Iterator[Indices]) -> Iterator[tuple[Indices, Features]]:
        for indices in batches:
            np.add.at(self.read_times, indices, 1)
            yield indices, self.features[indices]


def counting(samples: int, *, dtype: Any = np.float32) -> tuple[IndexedPart, Indices]:
    """A part in a shuffled order, and how often each of its samples was read."""
    times = np.zeros(samples, np.int64)
    features = np.arange(samples * 6).reshape(samples, 2, 3).astype(dtype)
    order = np.random.default_rng(1).permutation(samples)
    return IndexedPart(CountingReader(features, times), np.arange(samples, dtype=np.int32), order), times


def decoded_part(part: Part, path: Path, *, dtype: Any = np.float32, samples: int | None = None) -> DecodedPart:
    samples = len(part) if samples is None else samples
    return DecodedPart(part, samples, Target((2, 3), ("0", "1")), np.dtype(dtype), path / "decoded")


def epochs(dataset: Dataset, fields: Any, steps: int = 60) -> list[Batch]:
    return list(islice(train_batches(dataset, spec_of(fields)), steps))


def same(one: list[Any], two: list[Any]) -> bool:
    return all((a == b).all() for left, right in zip(one, two, strict=True) for a, b in zip(left, right, strict=True))


@pytest.mark.parametrize("ranks", [1, 2, 5])
@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
def test_every_sample_is_read_once_by_all_ranks_of_a_host(tmp_path: Path, ranks: int, dtype: Any) -> None:
    part, times = counting(103, dtype=dtype)
    schedule = SampleSchedule(samples=103, rank=0, ranks=1, per_rank=10, steps=11, seed=1)
    expected = (
        list(islice(part.train(schedule, epoch=1, first=0), 30)),
        list(part.evaluate(rank=0, ranks=1, per_rank=10)),
    )
    times[:] = 0
    shares = [decoded_part(part, tmp_path, dtype=dtype) for _ in range(ranks)]
    for rank, share in reversed(list(enumerate(shares))):
        share.fill(local_rank=rank, local_ranks=ranks)
    assert (times == 1).all()
    for share in shares:
        assert same(list(islice(share.train(schedule, epoch=1, first=0), 30)), expected[0])
        assert same(list(share.evaluate(rank=0, ranks=1, per_rank=10)), expected[1])
        assert len(next(share.rows(3, 10)).labels) == 7
    assert (times == 1).all()


def test_samples_outside_a_fraction_are_not_read(tmp_path: Path) -> None:
    part, times = counting(100)
    share = decoded_part(part, tmp_path, samples=25)
    share.fill(local_rank=0, local_ranks=1)
    assert times.sum() == 25
    assert len(share) == 100
    schedule = SampleSchedule(samples=25, rank=0, ranks=1, per_rank=5, steps=5, seed=1)
    assert same(
        list(islice(share.train(schedule, epoch=1, first=0), 5)),
        list(islice(part.train(schedule, epoch=1, first=0), 5)),
    )


@pytest.mark.parametrize("ranks", [1, 3])
@pytest.mark.parametrize(
    "more", [{"augment": ["rotate_90"]}, {"fraction": 0.5}, {"source": "digits", "image_size": [12, 12]}]
)
def test_cached_run_sees_the_same_batches_as_a_run_without_a_cache(
    tmp_path: Path, ranks: int, more: dict[str, Any]
) -> None:
    plain = open_dataset(SYNTHETIC | more, tmp_path)
    cached = open_dataset(SYNTHETIC | more | {"cache": "memory"}, tmp_path, ranks=ranks)
    assert isinstance(cached.train, DecodedPart)
    assert cached.facts == plain.facts
    assert same(epochs(plain, SYNTHETIC | more), epochs(cached, SYNTHETIC | more))
    both = [
        list(dataset.evaluation_batches(dataset.validation, rank=0, ranks=1, per_rank=7)) for dataset in (plain, cached)
    ]
    assert same(*both)


def test_only_training_and_validation_samples_are_cached(tmp_path: Path) -> None:
    cached = open_dataset(SYNTHETIC | {"cache": "memory", "fraction": 0.5}, tmp_path)
    sizes = sorted(path.stat().st_size for path in tmp_path.glob("decoded-*"))
    assert sizes == [30 * (64 + 4), 135 * (64 + 4)]
    assert isinstance(cached.test, IndexedPart)
    open_dataset(SYNTHETIC | {"cache": "memory", "fraction": 0.5}, tmp_path, seed=7)  # another job on the same host
    assert len(list(tmp_path.glob("decoded-*"))) == 4


@pytest.mark.parametrize("cache", ["memory", "disk"])
def test_arrays_in_memory_need_no_cache(tmp_path: Path, cache: str) -> None:
    dataset = open_dataset({"source": "digits", "cache": cache}, tmp_path)
    assert isinstance(dataset.train, IndexedPart)
    assert not list(tmp_path.iterdir())


def test_a_set_larger_than_the_limit_is_refused_before_it_is_read(tmp_path: Path) -> None:
    sentence = (
        r"dataset.cache: the decoded samples take 2.04e-05 GB, and the cache may take 2e-05 \(dataset.cache_limit_gb, "
        r"at most HORA_CACHE_LIMIT_GB of the host\): raise it, or set dataset.cache to 'none'"
    )
    with pytest.raises(BadData, match=sentence):
        open_dataset(SYNTHETIC | {"cache": "memory", "cache_limit_gb": 2e-5}, tmp_path)
    open_dataset(SYNTHETIC | {"cache": "memory", "cache_limit_gb": 2.1e-5}, tmp_path)


def test_a_set_larger_than_the_disk_is_refused_before_it_is_read(tmp_path: Path) -> None:
    spec = DatasetSpec(source="a", cache="memory", cache_limit_gb=100_000)
    part, _ = counting(10)
    host = Host(data_roots=[], cache_dir=tmp_path, scratch_dir=tmp_path, threads=1)
    target = Target((2**20, 2**20), ("0", "1"))  # 84 TB
    with pytest.raises(BadData, match=r"take \d\S* GB, and the disk of their host has \d\S* GB in all: set "):
        decoded({"train": part, "validation": part}, spec, host, seed=1, target=target, dtype="float32")


def test_a_file_that_cannot_be_written_is_bad_data_and_errors_of_the_reader_are_raised_unchanged(
    tmp_path: Path,
) -> None:
    part, _ = counting(10)
    nowhere = replace(decoded_part(part, tmp_path), path=tmp_path)
    with pytest.raises(BadData, match=r"dataset\.cache: cannot write the decoded samples: Is a directory"):
        nowhere.fill(local_rank=0, local_ranks=1)

    class Broken:
        def read(self, batches: Iterator[Indices]) -> Iterator[tuple[Indices, Features]]:
            raise OSError("the data is gone")

    broken = IndexedPart(Broken(), np.zeros(10, np.int32), np.arange(10))
    with pytest.raises(OSError, match="the data is gone"):
        decoded_part(broken, tmp_path).fill(local_rank=0, local_ranks=1)


def test_data_that_changes_while_it_is_read_is_bad_data(tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Shrinking(IndexedPart):
        def rows(self, start: int, stop: int, *, of: int | None = None) -> Iterator[Batch]:
            return super().rows(start, stop - 3, of=of)

    part = Shrinking(ArrayReader(np.zeros((10, 2, 3), np.float32)), np.zeros(10, np.int32), np.arange(10))
    with pytest.raises(BadData, match=r"dataset\.cache: 7 samples where 10 were seen: did the data change\?"):
        decoded_part(part, tmp_path).fill(local_rank=0, local_ranks=1)


def test_images_are_resized_to_larger_and_smaller_sizes_and_bytes_are_rounded() -> None:
    ramp = np.broadcast_to(np.arange(0, 160, 10, dtype=np.uint8)[None, :, None], (2, 16, 16, 3))
    smaller = resized(ramp, (8, 4))
    assert (smaller.shape, smaller.dtype) == ((2, 8, 4, 3), np.uint8)
    assert smaller[0, 0, :, 0].tolist() == [15, 55, 95, 135]
    pair = np.array([[[[0], [3]]]], np.uint8)
    assert resized(pair, (1, 4)).ravel().tolist() == [0, 1, 2, 3]  # 0, 0.75, 2.25, 3
    floats = resized(pair.astype(np.float32), (1, 4))
    assert floats.dtype == np.float32
    assert floats.ravel().tolist() == [0, 0.75, 2.25, 3]
