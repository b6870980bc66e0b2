"""The names that a spec can use: the built-in datasets with their sizes, and the models.

Used by the api, which lists them and checks specs against them (`jobs.lifecycle.admission`). Pure.
"""

import re
from typing import Literal

from pydantic import BaseModel, ConfigDict

from jobs.model.plan import DatasetSizes, split_sizes
from jobs.model.spec import Spec


class Dataset(BaseModel):
    """A built-in dataset: `trainable` samples are split into train and validation, `test` is held out."""

    model_config = ConfigDict(frozen=True)

    name: str
    description: str
    trainable: int
    test: int
    classes: int
    shape: tuple[int, int, int]  # (height, width, channel)
    format: Literal["arrays", "synthetic"] = "arrays"


class Model(BaseModel):
    """A network of the zoo."""

    model_config = ConfigDict(frozen=True)

    name: str
    description: str
    imagenet: bool = False  # whether `weights: imagenet` is possible
    tables: bool = False  # whether it also takes samples that are rows of numbers
    least_size: int = 1  # the least length of an image's shorter side, in pixels


def _synthetic(
    *, samples: int = 10_000, classes: int = 10, height: int = 32, width: int = 32, channels: int = 3
) -> Dataset:
    return Dataset(
        name="synthetic",
        description="Made-up images that can be learned; others: synthetic:samples=5000,classes=4,shape=64x64x3",
        trainable=samples,
        test=samples // 10,
        classes=classes,
        shape=(height, width, channels),
        format="synthetic",
    )


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
        _synthetic(),
    )
}

MODELS = {
    model.name: model
    for model in (
        Model(name="lenet5", description="LeNet-5 (LeCun et al. 1998): two convolutions, three dense layers"),
        Model(name="mlp", description="A multi-layer perceptron with two hidden layers of 128", tables=True),
        Model(name="alexnet", description="AlexNet (Krizhevsky et al. 2012): much to send, little to compute"),
        Model(name="convnet7", description="Seven layers: five convolutions and two dense ones"),
        Model(name="chipnet", description="Small, for large images with few classes, such as chips of 500x500"),
        Model(name="resnet50", description="ResNet-50 (He et al. 2015)", imagenet=True, least_size=32),
        Model(name="xception", description="Xception (Chollet 2016)", imagenet=True, least_size=71),
        Model(name="mobilenet_v2", description="MobileNetV2 (Sandler et al. 2018)", imagenet=True, least_size=32),
    )
}


_OPTION = re.compile(
    "samples=(?P<samples>[0-9]{1,10})|classes=(?P<classes>[0-9]{1,10})"
    "|shape=(?P<height>[0-9]{1,4})x(?P<width>[0-9]{1,4})x(?P<channels>[0-9]{1,4})"
)
_LIMITS = {"samples": (20, 2**31), "classes": (2, 1000), "height": (8, 4096), "width": (8, 4096), "channels": (1, 4)}


def dataset_of(source: str) -> Dataset | None:
    """The built-in dataset that a source names, also as `synthetic:` with options. None for a path or a URL.

    Raises `ValueError` if the options are wrong. The trainer reads them too (`trainer.data.synthetic`).
    """
    name, colon, options = source.partition(":")
    if name != "synthetic" or not colon:
        return DATASETS.get(source)
    figures: dict[str, int] = {}
    for option in filter(None, options.split(",")):
        match = _OPTION.fullmatch(option)
        if match is None:
            raise ValueError(f"{option!r} is not understood: write samples=5000,classes=4,shape=32x32x3")
        figures |= {name: int(text) for name, text in match.groupdict().items() if text}
    for figure, value in figures.items():
        least, most = _LIMITS[figure]
        if not least <= value <= most:
            raise ValueError(f"synthetic data with {value} {figure}: {least} to {most} are possible")
    dataset = _synthetic(**figures)
    if dataset.trainable < dataset.classes:
        raise ValueError(f"synthetic data with {dataset.trainable} samples of {dataset.classes} classes")
    return dataset


def sizes_of(spec: Spec) -> DatasetSizes | None:
    """Sizes of the parts of the spec's dataset; None if they are unknown until it is opened."""
    dataset = dataset_of(spec.dataset.source)
    if dataset is None or isinstance(spec.dataset.validation, str):
        return None
    train, validation = split_sizes(dataset.trainable, spec.dataset.validation)
    return DatasetSizes(train=train, validation=validation, test=dataset.test)
