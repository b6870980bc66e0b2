"""From a spec to a dataset: sources, splits, and the errors for data that cannot be trained on."""

import hashlib
import threading
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from jobs.model.catalog import DATASETS, sizes_of
from jobs.model.plan import resolve_plan
from jobs.runtime import data_roots
from tests.datasets import one_of_each_format, open_dataset, plan_of, spec_of, train_batches
from tests.unit.trainer.reading import read
from trainer.data.opening import Dataset, check_damage
from trainer.errors import BadData
from trainer.plan import settle_plan


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A data root with `numbers.npz`: 100 images, each of one brightness, sorted by their 4 labels."""
    save(tmp_path / "numbers.npz", 100, classes=4)
    return tmp_path


def save(path: Path, samples: int, *, classes: int) -> None:
    numbers = np.arange(samples, dtype=np.uint8)
    images = np.broadcast_to(numbers[:, None, None], (samples, 4, 4))
    np.savez(path, x=images, y=numbers.astype(int) * classes // samples)


def test_digits_have_the_sizes_and_shape_of_the_catalog(tmp_path: Path) -> None:
    facts, listed = open_dataset("digits", tmp_path).facts, DATASETS["digits"]
    assert facts.sizes.train + facts.sizes.validation == listed.trainable
    assert (facts.sizes.validation, facts.sizes.test) == (150, listed.test)
    assert facts.shape == listed.shape
    assert facts.classes == tuple(str(number) for number in range(listed.classes))
    assert (facts.format, facts.dtype, facts.value_range) == ("arrays", "uint8", (0, 16))
    spec = spec_of("digits", gpus=2, batch_size=64)
    assert settle_plan(spec, facts.sizes, gpus=2) == resolve_plan(spec, sizes_of(spec))  # as shown at submission


def test_order_of_digits_does_not_change_between_versions_nor_by_a_restart(tmp_path: Path) -> None:
    spec = spec_of("digits", batch_size=32, gpus=2, steps_per_epoch=40)
    digest, opened = hashlib.sha256(), open_dataset("digits", tmp_path)
    whole = list(islice(train_batches(opened, spec, rank=1, epoch=3), 40))
    for batch in whole:
        digest.update(batch.labels.tobytes())
        digest.update(batch.features.tobytes())
    assert digest.hexdigest()[:16] == "37c762b88edaac98"
    rest = islice(train_batches(opened, spec, rank=1, epoch=3, first=38), 2)
    assert [batch.labels.tolist() for batch in rest] == [batch.labels.tolist() for batch in whole[38:]]


def test_test_part_is_the_same_for_every_seed(tmp_path: Path) -> None:
    one, two = open_dataset("digits", tmp_path, seed=1), open_dataset("digits", tmp_path, seed=2)
    assert (read(one.test)[0] == read(two.test)[0]).all()
    assert (read(one.validation)[0] != read(two.validation)[0]).any()
    parts = read(one.train, one.validation, one.test)[0]
    assert len(np.unique(parts.reshape(1797, 64), axis=0)) == 1797  # no digit is in two parts


def test_a_host_without_fashion_mnist_says_which_package_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_roots, "FASHION_MNIST", tmp_path / "nowhere")
    with pytest.raises(BadData, match="install the Debian package dataset-fashion-mnist"):
        open_dataset("fashion-mnist", tmp_path)


def test_a_share_is_held_out_for_validation_the_same_way_on_every_rank(root: Path) -> None:
    source = {"source": "numbers.npz", "validation": 0.2}
    alone = open_dataset(source, root)
    shared = open_dataset(source, root, ranks=3)
    assert (alone.facts.sizes.train, alone.facts.sizes.validation, alone.facts.sizes.test) == (80, 20, 0)
    assert alone.test is None
    assert (read(alone.validation)[0] == read(shared.validation)[0]).all()
    numbers = read(alone.train, alone.validation)[0][:, 0, 0, 0]
    assert sorted(numbers) == list(range(100))


def test_fraction_takes_rows_of_every_class(root: Path) -> None:
    save(root / "held-out.npz", 20, classes=4)
    for validation in (0.1, "held-out.npz"):
        dataset = {"source": "numbers.npz", "validation": validation, "fraction": 0.2}
        opened = open_dataset(dataset, root)
        spec = spec_of(dataset)
        seen = {label for batch in islice(train_batches(opened, spec), 50) for label in batch.labels.tolist()}
        assert seen == {0, 1, 2, 3}


def save_unequal(path: Path) -> None:
    """Sixty samples of class 0, thirty of 1 and ten of 2, sorted."""
    labels = np.repeat([0, 1, 2], [60, 30, 10])
    np.savez(path, x=np.arange(100 * 16, dtype="u2").reshape(100, 4, 4), y=labels)


@pytest.mark.parametrize("cache", ["none", "memory"])
def test_balance_takes_as_many_samples_of_each_class_as_the_rarest_has(root: Path, cache: str) -> None:
    save_unequal(root / "unequal.npz")
    dataset = {"source": "unequal.npz", "validation": 0.1, "balance": True, "cache": cache}
    opened, on_two = (open_dataset(dataset, root, ranks=ranks) for ranks in (1, 2))
    times = np.bincount(read(opened.train)[1])
    assert len(set(times)) == 1
    assert 5 <= times[0] <= 10
    assert (read(opened.train)[0] == read(on_two.train)[0]).all()
    whole = open_dataset({"source": "unequal.npz", "validation": 0.1}, root)
    assert (read(opened.validation)[0] == read(whole.validation)[0]).all()
    assert (opened.facts.sizes.train, opened.facts.counts) == (3 * times[0], (times[0],) * 3)


def test_so_many_samples_of_balanced_data_are_balanced_too(root: Path) -> None:
    save_unequal(root / "unequal.npz")
    for used in ({"samples": 9}, {"fraction": 0.5}):
        dataset = {"source": "unequal.npz", "validation": 0.1, "balance": True} | used
        opened = open_dataset(dataset, root)
        spec = spec_of(dataset, batch_size=3)
        plan = plan_of(opened, spec)
        seen = [label for batch in islice(train_batches(opened, spec), plan.steps_per_epoch) for label in batch.labels]
        assert np.ptp(np.bincount(seen)) <= 1


def test_balance_of_streamed_data_is_refused_with_what_to_do(tmp_path: Path) -> None:
    root = one_of_each_format(tmp_path)
    with pytest.raises(BadData, match=r"dataset\.balance: Parquet is streamed.*class_weights"):
        open_dataset({"source": "table.parquet", "balance": True}, root)


@pytest.mark.parametrize("source", ["held-out.npz", "table.parquet"])
@pytest.mark.parametrize("cache", ["none", "memory"])
def test_so_many_samples_are_evaluated_of_all_classes_and_always_the_same(
    tmp_path: Path, source: str, cache: str
) -> None:
    root = one_of_each_format(tmp_path)
    np.savez(root / "held-out.npz", x=np.arange(40 * 4).reshape(40, 2, 2), y=np.repeat([0, 1], 20))
    training = "tables" if source == "table.parquet" else "held-out.npz"
    dataset = {"source": training, "validation": source, "cache": cache}
    opened = open_dataset(dataset, root)
    by_ranks = {}
    for ranks in (1, 2):
        batches = [
            batch
            for rank in range(ranks)
            for batch in opened.evaluation_batches(
                opened.validation, rank=rank, ranks=ranks, per_rank=8 // ranks, samples=20
            )
        ]
        assert len(batches) == ranks * 3
        weights = np.concatenate([batch.weights for batch in batches])
        features = np.concatenate([batch.features for batch in batches])[weights == 1]
        labels = np.concatenate([batch.labels for batch in batches])[weights == 1]
        assert (len(labels), set(labels)) == (20, {0, 1})
        by_ranks[ranks] = np.unique(features.reshape(20, -1), axis=0)
    assert len(by_ranks[1]) == 20
    assert (by_ranks[1] == by_ranks[2]).all()


def test_validation_data_may_come_from_another_source_of_another_format_and_size(root: Path) -> None:
    train, test = {"x_train": np.zeros((7, 4, 4), "u1"), "y_train": [3] * 7}, {"x_test": np.ones((2, 4, 4))}
    np.savez(root / "held-out.npz", **train, **test, y_test=[0, 1])

    def opened(source: str, validation: str, **fields: Any) -> Dataset:
        return open_dataset({"source": source, "validation": validation, **fields}, root)

    dataset = opened("numbers.npz", "held-out.npz")
    sizes = dataset.facts.sizes
    assert (sizes.train, sizes.validation, sizes.test) == (100, 7, 0)
    assert read(dataset.validation)[1].tolist() == [3] * 7
    dataset = opened("digits", "numbers.npz", image_size=[4, 4])
    assert dataset.facts.shape == (4, 4, 1)
    assert read(dataset.train)[0].shape == (1500, 4, 4, 1)
    assert (read(dataset.validation)[0][:, 0, 0, 0] == np.arange(100)).all()
    dataset = opened("synthetic:samples=50,classes=4,shape=8x8x1", "numbers.npz", image_size=[16, 16])
    assert dataset.facts.format == "synthetic"
    assert read(dataset.validation)[0].shape == (100, 16, 16, 1)


@pytest.mark.parametrize(
    ("archive", "sentence"),
    [
        ({"y": [0, 9], "x": np.zeros((2, 4, 4), "u1")}, r"apart.npz, x: the label '9' is not among the classes"),
        ({"y": [0, 1], "x": np.zeros((2, 5, 4), "u1")}, r"apart.npz, x: its samples have the shape \(5, 4, 1\)"),
        ({"y": [0, 1], "x": np.eye(4)[[0, 1], None]}, r"apart.npz, x: its samples have the shape \(1, 4, 1\)"),
        (
            {"y": [0, 1], "x": np.arange(32).reshape(2, 4, 4)},
            "its values are float32, those of the training data uint8",
        ),
    ],
)
def test_validation_data_that_does_not_fit_the_training_data_is_bad_data(
    root: Path, archive: dict[str, NDArray[np.generic]], sentence: str
) -> None:
    np.savez(root / "apart.npz", **archive)
    with pytest.raises(BadData, match=sentence):
        open_dataset({"source": "numbers.npz", "validation": "apart.npz"}, root)


def test_only_data_that_is_not_in_memory_is_prefetched_by_a_thread(root: Path) -> None:
    opened = open_dataset("digits", root)
    assert next(train_batches(opened, spec_of("digits"))).labels.shape == (8,)
    made_up = open_dataset("synthetic:samples=100", root)
    with_thread = made_up.evaluation_batches(made_up.validation, rank=0, ranks=1, per_rank=4)
    before = {thread.name for thread in threading.enumerate()}
    first = next(with_thread)
    during = {thread.name for thread in threading.enumerate()}
    rest = list(with_thread)
    assert "prefetch" not in before
    assert "prefetch" in during
    assert sum(batch.weights.sum() for batch in [first, *rest]) == 10


def test_damage_of_all_parts_is_gathered_and_more_than_one_per_cent_is_bad_data(tmp_path: Path) -> None:
    opened = open_dataset("digits", tmp_path)
    assert opened.damage() == {}
    parts = [SimpleNamespace(damage=lambda found=found: found) for found in ({"a": "cut"}, {}, {"b": "empty"})]
    assert Dataset(opened.facts, *parts).damage() == {"a": "cut", "b": "empty"}
    check_damage({"a.jpg": "empty"}, samples=100, name="chips")
    with pytest.raises(BadData, match=r"chips: 2 of 100 samples are damaged, more than 1 %: a.jpg: empty; b.jpg: cut"):
        check_damage({"a.jpg": "empty", "b.jpg": "cut"}, samples=100, name="chips")
