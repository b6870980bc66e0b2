"""Which samples a rank sees, and when."""

import gzip
import struct
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import trainer.data
from jobs.catalog import DATASETS
from jobs.spec import DatasetSpec
from trainer.data import Part, evaluation_batches, global_batches, open_dataset, train_batches
from trainer.exits import BadData


def part_of(samples: int) -> Part:
    """A part whose labels are the sample numbers."""
    return Part(np.zeros((samples, 1, 1, 1), np.uint8), np.arange(samples, dtype=np.int32))


@given(
    samples=st.integers(16, 200),
    per_rank=st.integers(1, 4),
    ranks=st.integers(1, 4),
    epoch=st.integers(1, 5),
    steps=st.integers(1, 60),
)
@settings(max_examples=50, deadline=None)
def test_n_ranks_see_together_what_one_rank_sees(
    samples: int, per_rank: int, ranks: int, epoch: int, steps: int
) -> None:
    def labels(per_rank: int, rank: int, ranks: int) -> NDArray[np.int32]:
        batches = train_batches(
            part_of(samples), samples=samples, per_rank=per_rank, rank=rank, ranks=ranks, seed=7, epoch=epoch
        )
        return np.array([batch.labels for batch in islice(batches, steps)])

    alone = labels(per_rank * ranks, 0, 1)
    together = np.concatenate([labels(per_rank, rank, ranks) for rank in range(ranks)], axis=1)
    assert (alone == together).all()


@given(samples=st.integers(1, 100), global_batch=st.integers(1, 100), first=st.integers(0, 300))
@settings(max_examples=50, deadline=None)
def test_an_epoch_goes_on_where_it_was_left(samples: int, global_batch: int, first: int) -> None:
    whole = list(islice(global_batches(samples, global_batch=global_batch, seed=1, epoch=2), first + 3))
    rest = list(islice(global_batches(samples, global_batch=global_batch, seed=1, epoch=2, first=first), 3))
    assert [batch.tolist() for batch in whole[first:]] == [batch.tolist() for batch in rest]


def test_every_pass_sees_each_sample_once_in_an_order_of_its_own() -> None:
    seen = np.concatenate(list(islice(global_batches(10, global_batch=5, seed=1, epoch=1), 4)))
    assert sorted(seen[:10]) == sorted(seen[10:]) == list(range(10))
    assert seen[:10].tolist() != seen[10:].tolist()


def test_the_order_follows_seed_and_epoch() -> None:
    orders = {
        (seed, epoch): next(global_batches(100, global_batch=100, seed=seed, epoch=epoch)).tolist()
        for seed in (1, 2)
        for epoch in (1, 2)
    }
    assert len({tuple(order) for order in orders.values()}) == 4


@given(samples=st.integers(0, 50), per_rank=st.integers(1, 8), ranks=st.integers(1, 4))
@settings(max_examples=50, deadline=None)
def test_evaluation_counts_each_sample_once_in_equal_steps(samples: int, per_rank: int, ranks: int) -> None:
    counted: list[int] = []
    steps = set()
    for rank in range(ranks):
        batches = list(evaluation_batches(part_of(samples), per_rank=per_rank, rank=rank, ranks=ranks))
        steps.add(len(batches))
        for pixels, labels, weights in batches:
            assert len(pixels) == len(labels) == len(weights) == per_rank
            counted += labels[weights > 0].tolist()
    assert sorted(counted) == list(range(samples))
    assert len(steps) == 1


def digits(seed: int) -> trainer.data.Dataset:
    return open_dataset(DatasetSpec(source="digits"), seed=seed, data_roots=[])


def test_digits_are_as_the_catalog_says() -> None:
    dataset, listed = digits(seed=1), DATASETS["digits"]
    assert dataset.sizes.train + dataset.sizes.validation == listed.trainable
    assert dataset.sizes.validation == 150
    assert (dataset.sizes.test, dataset.classes, dataset.shape) == (listed.test, listed.classes, listed.shape)
    assert dataset.train.pixels.max() == dataset.max_pixel == 16


def test_the_test_part_is_held_out_whatever_the_seed() -> None:
    one, two = digits(seed=1), digits(seed=2)
    assert (one.test.pixels == two.test.pixels).all()
    assert (one.validation.pixels != two.validation.pixels).any()
    parts = [part.pixels for part in (one.train, one.validation, one.test)]
    assert len(np.unique(np.concatenate(parts).reshape(1797, 64), axis=0)) == 1797  # no digit is in two parts


def test_an_unknown_dataset_is_bad_data() -> None:
    with pytest.raises(BadData, match="no dataset 'chips'; there are: digits, fashion-mnist"):
        open_dataset(DatasetSpec(source="chips"), seed=1, data_roots=[])


def test_a_host_without_fashion_mnist_says_which_package_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainer.data, "_FASHION_MNIST", tmp_path / "nowhere")
    with pytest.raises(BadData, match="install the Debian package dataset-fashion-mnist"):
        open_dataset(DatasetSpec(source="fashion-mnist"), seed=1, data_roots=[str(tmp_path)])


def write_idx(path: Path, values: NDArray[np.uint8]) -> None:
    header = struct.pack(f">{1 + values.ndim}I", 0x0800 + values.ndim, *values.shape)
    path.write_bytes(gzip.compress(header + values.tobytes()))


@pytest.fixture
def fashion_root(tmp_path: Path) -> Path:
    """A data root with a Fashion-MNIST of 20 + 10 samples."""
    folder = tmp_path / "fashion-mnist"
    folder.mkdir()
    for name, samples in (("train", 20), ("t10k", 10)):
        write_idx(folder / f"{name}-images-idx3-ubyte.gz", np.full((samples, 28, 28), samples, np.uint8))
        write_idx(folder / f"{name}-labels-idx1-ubyte.gz", (np.arange(samples) % 10).astype(np.uint8))
    return tmp_path


def test_fashion_mnist_is_read_from_a_data_root(fashion_root: Path) -> None:
    dataset = open_dataset(DatasetSpec(source="fashion-mnist"), seed=1, data_roots=["/nowhere", str(fashion_root)])
    assert (dataset.sizes.train, dataset.sizes.validation, dataset.sizes.test) == (18, 2, 10)
    assert dataset.shape == (28, 28, 1)
    assert dataset.classes == 10


@pytest.mark.parametrize("content", [b"", b"not gzip", gzip.compress(b"\0\0\x08\x03"), gzip.compress(bytes(99))])
def test_a_damaged_file_is_bad_data(fashion_root: Path, content: bytes) -> None:
    (fashion_root / "fashion-mnist" / "train-images-idx3-ubyte.gz").write_bytes(content)
    with pytest.raises(BadData, match=r"train-images-idx3-ubyte.gz is damaged"):
        open_dataset(DatasetSpec(source="fashion-mnist"), seed=1, data_roots=[str(fashion_root)])
