"""No field of a spec is silently ignored: what this version cannot do is refused by name."""

from typing import Any

import pytest

from jobs.catalog import DATASETS, MODELS, sizes_of, unsupported
from jobs.plan import DatasetSizes
from jobs.spec import Spec, spec_from


def spec_of(dataset: dict[str, Any] | None = None, **fields: Any) -> Spec:
    return spec_from({"dataset": {"source": "digits"} | (dataset or {}), "gpus": 4} | fields)


@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize("model", MODELS)
def test_what_is_registered_is_supported(dataset: str, model: str) -> None:
    assert unsupported(spec_from({"dataset": dataset, "model": model})) == []


@pytest.mark.parametrize(
    ("field", "spec"),
    [
        ("dataset.source", spec_of({"source": "chips"})),
        ("model.name", spec_of(model="convnet7")),
        ("dataset.format", spec_of({"format": "parquet"})),
        ("dataset.image_size", spec_of({"image_size": [96, 96]})),
        ("dataset.sharding", spec_of({"sharding": "steps"})),
        ("dataset.cache", spec_of({"cache": "disk"})),
        ("dataset.augment", spec_of({"augment": ["rotate_90"]})),
        ("dataset.validation", spec_of({"validation": "held-out"})),
        ("model.weights", spec_of(model={"name": "mlp", "weights": "imagenet"})),
        ("placement", spec_of(placement="spread")),
        ("min_gpus", spec_of(min_gpus=2)),
    ],
)
def test_what_is_not_carried_out_is_refused_by_name(field: str, spec: Spec) -> None:
    (problem,) = unsupported(spec)
    assert problem.field == field
    assert problem.message
    assert problem.received


def test_everything_unsupported_is_named_at_once() -> None:
    spec = spec_of({"source": "chips", "format": "images"}, model="resnet50", placement="spread")
    assert [problem.field for problem in unsupported(spec)] == [
        "dataset.source", "model.name", "dataset.format", "placement",
    ]  # fmt: skip


@pytest.mark.parametrize("fields", [{"placement": "single_host"}, {"min_gpus": 4}, {"min_gpus": None}])
def test_what_comes_to_the_default_is_supported(fields: dict[str, Any]) -> None:
    assert unsupported(spec_of(**fields)) == []


def test_sizes_are_known_where_the_dataset_and_its_split_are() -> None:
    assert sizes_of(spec_of()) == DatasetSizes(train=1350, validation=150, test=297)
    assert sizes_of(spec_of({"source": "elsewhere"})) is None
    assert sizes_of(spec_of({"validation": "held-out"})) is None
