"""The names that a spec can use: the built-in datasets with their sizes, and the models.

Used by the api, which lists them and checks specs against them (`jobs.lifecycle.admission`). Pure.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict

from jobs.model.plan import DatasetSizes, split_sizes
from jobs.model.spec import Spec
from jobs.model.synthetic import EXAMPLE, SYNTHETIC, SyntheticData, WrongSynthetic, is_synthetic, synthetic_of
from jobs.model.tasks import CLASSIFICATION, Task


class Dataset(BaseModel):
    """A built-in dataset: `trainable` samples are split into train and validation, `test` is held out."""

    model_config = ConfigDict(frozen=True)

    name: str
    description: str
    trainable: int
    test: int
    classes: int
    targets: int = 0  # numbers that a sample has to learn, in a regression
    shape: tuple[int, ...]  # (height, width, channel), or (feature,)
    task: Task = CLASSIFICATION
    format: Literal["arrays", "synthetic"] = "arrays"


class Model(BaseModel):
    """A network of the zoo."""

    model_config = ConfigDict(frozen=True)

    name: str
    description: str
    imagenet: bool = False  # whether `weights: imagenet` is possible
    tables: bool = False  # whether it also takes samples that are rows of numbers
    texts: bool = False  # whether it takes texts, and nothing else
    least_size: int = 1  # the least length of an image's shorter side, in pixels


def _synthetic(data: SyntheticData) -> Dataset:
    return Dataset(
        name=SYNTHETIC,
        description=f"Made-up images that can be learned; others: {SYNTHETIC}:{EXAMPLE}",
        trainable=data.samples,
        test=data.test_samples,
        classes=0 if data.targets else data.classes,
        task="regression" if data.targets else CLASSIFICATION,
        shape=data.shape,
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
        Dataset(
            name="diabetes",
            description="Ten measurements of patients and how their diabetes went on, as carried by scikit-learn",
            trainable=350,
            test=92,
            classes=0,
            targets=1,
            shape=(10,),
            task="regression",
        ),
        _synthetic(SyntheticData()),
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
        Model(name="resnet20", description="20 layers for small images such as CIFAR's (He et al. 2015, section 4.2)"),
        Model(name="resnet32", description="As resnet20, with 32 layers"),
        Model(name="resnet44", description="As resnet20, with 44 layers"),
        Model(name="resnet56", description="As resnet20, with 56 layers"),
        Model(name="vit_tiny", description="A small vision transformer (Touvron et al. 2020)"),
        Model(name="resnet50", description="ResNet-50 (He et al. 2015)", imagenet=True, least_size=32),
        Model(name="xception", description="Xception (Chollet 2016)", imagenet=True, least_size=71),
        Model(name="mobilenet_v2", description="MobileNetV2 (Sandler et al. 2018)", imagenet=True, least_size=32),
        Model(
            name="efficientnet_v2_b0",
            description="EfficientNetV2-B0 (Tan and Le 2021)",
            imagenet=True,
            least_size=32,
        ),
        Model(name="bag_of_words", description="For texts: logistic regression on how often words occur", texts=True),
        Model(name="text_transformer", description="For texts: two blocks (Vaswani et al. 2017)", texts=True),
    )
}


def dataset_of(source: str) -> Dataset | None:
    """The built-in dataset that a source names, also as `synthetic:` with options. None for a path or a URL.

    Raises `jobs.model.synthetic.WrongSynthetic`.
    """
    return _synthetic(synthetic_of(source)) if is_synthetic(source) else DATASETS.get(source)


def sizes_of(spec: Spec) -> DatasetSizes | None:
    """Sizes of the parts of the spec's dataset. None if they are unknown until it is opened, or if it is misspelt."""
    if spec.dataset is not None and spec.dataset.balance:
        return None
    try:
        dataset = dataset_of(spec.dataset.source) if spec.dataset is not None else None
    except WrongSynthetic:  # `jobs.lifecycle.admission` says so; a stored spec may be of a version with other limits
        return None
    if dataset is None or spec.dataset is None or isinstance(spec.dataset.validation, str):
        return None
    train, validation = split_sizes(dataset.trainable, spec.dataset.validation)
    return DatasetSizes(train=train, validation=validation, test=dataset.test)
