"""What this version can train: the registered datasets and models, and the spec fields it does not carry out yet.

The api refuses at submission what `unsupported` names, so that no field of a spec is silently ignored.
"""

from collections.abc import Iterator

from pydantic import BaseModel, ConfigDict

from jobs.plan import DatasetSizes, split_sizes
from jobs.spec import FieldProblem, Spec


class Dataset(BaseModel):
    """A registered dataset: `trainable` samples are split into train and validation, `test` is held out."""

    model_config = ConfigDict(frozen=True)

    name: str
    description: str
    trainable: int
    test: int
    classes: int
    shape: tuple[int, int, int]  # (height, width, channel)


class Model(BaseModel):
    """A network of the zoo."""

    model_config = ConfigDict(frozen=True)

    name: str
    description: str


DATASETS = {
    dataset.name: dataset
    for dataset in (
        Dataset(
            name="digits",
            description="UCI handwritten digits, as carried by scikit-learn",
            trainable=1500,
            test=297,
            classes=10,
            shape=(8, 8, 1),
        ),
        Dataset(
            name="fashion-mnist",
            description="Fashion-MNIST, as carried by the Debian package dataset-fashion-mnist",
            trainable=60_000,
            test=10_000,
            classes=10,
            shape=(28, 28, 1),
        ),
    )
}

MODELS = {
    model.name: model
    for model in (
        Model(name="lenet5", description="LeNet-5 (LeCun et al. 1998): two convolutions, three dense layers"),
        Model(name="mlp", description="A multi-layer perceptron with two hidden layers of 128"),
    )
}


def sizes_of(spec: Spec) -> DatasetSizes | None:
    """Sizes of the parts of the spec's dataset, where they are known without opening it."""
    dataset = DATASETS.get(spec.dataset.source)
    if dataset is None or isinstance(spec.dataset.validation, str):
        return None
    train, validation = split_sizes(dataset.trainable, spec.dataset.validation)
    return DatasetSizes(train=train, validation=validation, test=dataset.test)


def unsupported(spec: Spec) -> list[FieldProblem]:
    """Every field of the spec that asks for what this version cannot do, with what it can."""
    return list(_unsupported(spec))


def _unsupported(spec: Spec) -> Iterator[FieldProblem]:
    dataset, model = spec.dataset, spec.model
    if dataset.source not in DATASETS:
        yield FieldProblem("dataset.source", f"no such dataset; there are: {', '.join(DATASETS)}", dataset.source)
    if model.name not in MODELS:
        yield FieldProblem("model.name", f"no such model; there are: {', '.join(MODELS)}", model.name)
    only: dict[str, tuple[object, object]] = {
        "dataset.format": (dataset.format, "auto"),
        "dataset.image_size": (dataset.image_size, None),
        "dataset.sharding": (dataset.sharding, "shard"),
        "dataset.cache": (dataset.cache, "none"),
        "dataset.augment": (dataset.augment, []),
        "model.weights": (model.weights, "none"),
        "min_gpus": (spec.min_gpus or spec.gpus, spec.gpus),
        "placement": (spec.placement if spec.placement == "spread" else "pack", "pack"),
    }
    for field, (asked, supported) in only.items():
        if asked != supported:
            yield FieldProblem(field, f"not supported yet; leave it at {supported!r}", repr(asked))
    if isinstance(dataset.validation, str):
        yield FieldProblem(
            "dataset.validation", "a separate source is not supported yet; give a share", dataset.validation
        )
