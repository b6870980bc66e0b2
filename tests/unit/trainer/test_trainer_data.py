"""From a spec to a dataset: sources, splits, and the errors for data that cannot be trained on."""

import hashlib
import threading
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from jobs.model.catalog import DATASETS
from jobs.runtime import data_roots
from tests.datasets import one_of_each_format, open_dataset, plan_of, spec_of, train_batches
from trainer.data.interfaces import Part
from trainer.data.opening import Dataset, check_damage
from trainer.errors import BadData


def samples_of(part: Part | None) -> NDArray[np.uint8]:
    assert part is not None
    return np.concatenate([batch.features for batch in part.rows(0, len(part))])


def labels_of(part: Part) -> list[int]:
    return [label for batch in part.rows(0, len(part)) for label in batch.labels.tolist()]


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


def test_order_of_digits_does_not_change_between_versions(tmp_path: Path) -> None:
    spec = spec_of("digits", batch_size=32, gpus=2, steps_per_epoch=40)
    digest = hashlib.sha256()
    for batch in islice(train_batches(open_dataset("digits", tmp_path), spec, rank=1, epoch=3), 40):
        digest.update(batch.labels.tobytes())
        digest.update(batch.features.tobytes())
    assert digest.hexdigest()[:16] == "37c762b88edaac98"


def test_test_part_is_the_same_for_every_seed(tmp_path: Path) -> None:
    one, two = open_dataset("digits", tmp_path, seed=1), open_dataset("digits", tmp_path, seed=2)
    assert (samples_of(one.test) == samples_of(two.test)).all()
    assert (samples_of(one.validation) != samples_of(two.validation)).any()
    parts = np.concatenate([samples_of(part) for part in (one.train, one.validation, one.test)])
    assert len(np.unique(parts.reshape(1797, 64), axis=0)) == 1797  # no digit is in two parts


def test_a_host_without_fashion_mnist_says_which_package_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_roots, "FASHION_MNIST", tmp_path / "nowhere")
    with pytest.raises(BadData, match="install the Debian package dataset-fashion-mnist"):
        open_dataset("fashion-mnist", tmp_path, data_roots=[str(tmp_path)])


def test_a_share_is_held_out_for_validation_the_same_way_on_every_rank(root: Path) -> None:
    source = {"source": "numbers.npz", "validation": 0.2}
    alone = open_dataset(source, root, data_roots=[str(root)])
    shared = open_dataset(source, root, data_roots=[str(root)], ranks=3)
    assert (alone.facts.sizes.train, alone.facts.sizes.validation, alone.facts.sizes.test) == (80, 20, 0)
    assert alone.test is None
    assert (samples_of(alone.validation) == samples_of(shared.validation)).all()
    numbers = np.concatenate([samples_of(alone.train), samples_of(alone.validation)])[:, 0, 0, 0]
    assert sorted(numbers) == list(range(100))


def test_fraction_takes_rows_of_every_class(root: Path) -> None:
    save(root / "held-out.npz", 20, classes=4)
    for validation in (0.1, "held-out.npz"):
        dataset = {"source": "numbers.npz", "validation": validation, "fraction": 0.2}
        opened = open_dataset(dataset, root, data_roots=[str(root)])
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
    opened, on_two = (open_dataset(dataset, root, data_roots=[str(root)], ranks=ranks) for ranks in (1, 2))
    times = np.bincount(labels_of(opened.train))
    assert len(set(times)) == 1
    assert 5 <= times[0] <= 10
    assert (samples_of(opened.train) == samples_of(on_two.train)).all()
    whole = open_dataset({"source": "unequal.npz", "validation": 0.1}, root, data_roots=[str(root)])
    assert (samples_of(opened.validation) == samples_of(whole.validation)).all()
    assert (opened.facts.sizes.train, opened.facts.counts) == (3 * times[0], (times[0],) * 3)


def test_so_many_samples_of_balanced_data_are_balanced_too(root: Path) -> None:
    save_unequal(root / "unequal.npz")
    for used in ({"samples": 9}, {"fraction": 0.5}):
        dataset = {"source": "unequal.npz", "validation": 0.1, "balance": True} | used
        opened = open_dataset(dataset, root, data_roots=[str(root)])
        spec = spec_of(dataset, batch_size=3)
        plan = plan_of(opened, spec)
        seen = [label for batch in islice(train_batches(opened, spec), plan.steps_per_epoch) for label in batch.labels]
        assert np.ptp(np.bincount(seen)) <= 1


def test_balance_of_streamed_data_is_refused_with_what_to_do(tmp_path: Path) -> None:
    root = one_of_each_format(tmp_path)
    with pytest.raises(BadData, match=r"dataset\.balance: Parquet is streamed.*class_weights"):
        open_dataset({"source": "table.parquet", "balance": True}, root, data_roots=[str(root)])


@pytest.mark.parametrize("source", ["held-out.npz", "table.parquet"])
@pytest.mark.parametrize("cache", ["none", "memory"])
def test_so_many_samples_are_evaluated_of_all_classes_and_always_the_same(
    tmp_path: Path, source: str, cache: str
) -> None:
    root = one_of_each_format(tmp_path)
    np.savez(root / "held-out.npz", x=np.arange(40 * 4).reshape(40, 2, 2), y=np.repeat([0, 1], 20))
    training = "tables" if source == "table.parquet" else "held-out.npz"
    dataset = {"source": training, "validation": source, "cache": cache}
    opened = open_dataset(dataset, root, data_roots=[str(root)])
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


def test_validation_data_may_come_from_another_source(root: Path) -> None:
    np.savez(
        root / "held-out.npz",
        x_train=np.zeros((7, 4, 4), "u1"),
        y_train=[3] * 7,
        x_test=np.ones((2, 4, 4)),
        y_test=[0, 1],
    )
    opened = open_dataset({"source": "numbers.npz", "validation": "held-out.npz"}, root, data_roots=[str(root)])
    assert (opened.facts.sizes.train, opened.facts.sizes.validation, opened.facts.sizes.test) == (100, 7, 0)
    assert labels_of(opened.validation) == [3] * 7


def test_validation_source_may_have_another_format(root: Path) -> None:
    dataset = {
        "source": "synthetic:samples=50,classes=4,shape=8x8x1",
        "format": "synthetic",
        "validation": "numbers.npz",
    }
    opened = open_dataset(dataset | {"image_size": [16, 16]}, root, data_roots=[str(root)])
    assert opened.facts.format == "synthetic"
    assert samples_of(opened.validation).shape == (100, 16, 16, 1)


@pytest.mark.parametrize(
    ("archive", "sentence"),
    [
        ({"y": [0, 9], "x": np.zeros((2, 4, 4), "u1")}, r"apart.npz, x: the label '9' is not among the classes"),
        ({"y": [0, 1], "x": np.zeros((2, 5, 4), "u1")}, r"apart.npz, x: its samples have the shape \(5, 4, 1\)"),
        ({"y": [0, 1], "x": np.eye(4)[[0, 1], None]}, r"apart.npz, x: its samples have the shape \(1, 4, 1\)"),
        (
            {"y": [0, 1], "x": np.arange(32).reshape(2, 4, 4)},
            "apart.npz, x: its values are float32, those of the training data uint8",
        ),
    ],
)
def test_validation_data_that_does_not_fit_the_training_data_is_bad_data(
    root: Path, archive: dict[str, NDArray[np.generic]], sentence: str
) -> None:
    np.savez(root / "apart.npz", **archive)
    with pytest.raises(BadData, match=sentence):
        open_dataset({"source": "numbers.npz", "validation": "apart.npz"}, root, data_roots=[str(root)])


@pytest.mark.parametrize("validation", ["nowhere", "numbers.npz/.."])
def test_validation_data_that_cannot_be_opened_names_its_field(root: Path, validation: str) -> None:
    with pytest.raises(BadData, match=r"dataset\.validation: "):
        open_dataset({"source": "digits", "validation": validation}, root, data_roots=[str(root)])


def test_training_and_validation_images_are_resized_to_image_size(root: Path) -> None:
    opened = open_dataset(
        {"source": "digits", "image_size": [4, 4], "validation": "numbers.npz"}, root, data_roots=[str(root)]
    )
    assert opened.facts.shape == (4, 4, 1)
    assert samples_of(opened.train).shape == (1500, 4, 4, 1)
    assert (samples_of(opened.validation)[:, 0, 0, 0] == np.arange(100)).all()


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


def test_more_than_one_per_cent_of_damaged_samples_is_bad_data() -> None:
    check_damage({"a.jpg": "empty"}, samples=100, name="chips")
    with pytest.raises(BadData, match=r"chips: 2 of 100 samples are damaged, more than 1 %: a.jpg: empty; b.jpg: cut"):
        check_damage({"a.jpg": "empty", "b.jpg": "cut"}, samples=100, name="chips")


def test_a_dataset_gathers_the_damage_of_its_parts(tmp_path: Path) -> None:
    class Damaged:
        def __init__(self, damaged: dict[str, str]) -> None:
            self.damage = lambda: damaged

    opened = open_dataset("digits", tmp_path)
    assert opened.damage() == {}
    parts = [Damaged({"a": "cut"}), Damaged({}), Damaged({"b": "empty"})]
    assert Dataset(opened.facts, *parts).damage() == {"a": "cut", "b": "empty"}  # type: ignore[arg-type]
