"""The built-in datasets that a spec can name, and what is known of their sizes before they are opened."""

from typing import Any

import pytest

from jobs.model.catalog import DATASETS, dataset_of, sizes_of
from jobs.model.plan import DatasetSizes
from jobs.model.spec import DatasetSpec, Spec, spec_from
from jobs.model.synthetic import WrongSynthetic
from trainer.data import synthetic
from trainer.errors import BadData


def spec_of(**dataset: Any) -> Spec:
    return spec_from({"dataset": {"source": "digits"} | dataset})


def test_only_built_in_datasets_are_in_the_catalog_and_options_change_the_synthetic_one() -> None:
    assert [dataset_of(source) for source in ("digits", "synthetic")] == [DATASETS["digits"], DATASETS["synthetic"]]
    for source in ("chips", "digits:samples=10", "s3://bucket/sets", "/data/synthetic"):
        assert dataset_of(source) is None
    assert sizes_of(spec_of()) == DatasetSizes(train=1350, validation=150, test=297)
    assert sizes_of(spec_of(source="synthetic:samples=1000")) == DatasetSizes(train=900, validation=100, test=100)
    assert sizes_of(spec_of(source="elsewhere")) is sizes_of(spec_of(validation="held-out")) is None
    found = dataset_of("synthetic:samples=5000,classes=4,shape=48x32x1")
    assert found is not None
    assert (found.trainable, found.test, found.classes, found.shape) == (5000, 500, 4, (48, 32, 1))


OPTIONS = [
    "samples=20", "samples=10000000", "classes=1000", "shape=8x4096x1", "classes=16,shape=4096x4096x4",
    "shape=8x8x1,samples=30,classes=3",
]  # fmt: skip
WRONG_OPTIONS = [
    "samples", "samples=19", "samples=1e4", "samples=10000001", f"samples={'9' * 900}", "samples=٣٠", "colour=red", "",
    "shape=32x32", "shape=7x8x1", "shape=99999x8x1", "shape=8x8x5", "classes=4;samples=5", " samples=50", "classes=1",
    "samples=20,classes=21", "classes=17,shape=4096x4096x4", "samples=5000,", "classes=3,classes=4", "samples=+50",
]  # fmt: skip


def the_trainer_reads(source: str) -> dict[str, Any]:
    found = synthetic.collections(source, DatasetSpec(source=source), field="dataset.source")
    train, test = found["train"].survey(rank=0, ranks=1), found["test"].survey(rank=0, ranks=1)
    return {
        "trainable": train.samples, "test": test.samples, "classes": len(train.labels), "shape": train.shapes[0],
    }  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS)
def test_the_trainer_makes_the_synthetic_data_that_the_catalog_promises(options: str) -> None:
    found = dataset_of(f"synthetic:{options}")
    assert found is not None
    assert found.model_dump(include={"trainable", "test", "classes", "shape"}) == the_trainer_reads(
        f"synthetic:{options}"
    )


@pytest.mark.parametrize("options", WRONG_OPTIONS)
def test_catalog_and_trainer_both_refuse_wrong_options(options: str) -> None:
    with pytest.raises(WrongSynthetic, match=r"write synthetic:samples=5000|synthetic data with") as refused:
        dataset_of(f"synthetic:{options}")
    assert len(str(refused.value)) < 250
    with pytest.raises(BadData) as refused_by_rank:
        the_trainer_reads(f"synthetic:{options}")
    assert str(refused_by_rank.value) == f"dataset.source: {refused.value}"
    assert sizes_of(spec_of(source=f"synthetic:{options}")) is None
