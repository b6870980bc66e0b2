"""The networks of this package by name.

Used by `building` and `weights`; `jobs.model.catalog` describes them to people.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jobs.model.spec import ModelSpec
from trainer.data.interfaces import Facts, Shape
from trainer.errors import BadData
from trainer.models import applications, small
from trainer.models.applications import WeightsFile
from trainer.models.residual import residual
from trainer.models.text import bag_of_words, text_transformer
from trainer.models.transformers import vit_tiny

HEAD = "logits"  # the name of the last layer, whose weights are for the classes at hand


@dataclass(frozen=True)
class Network:
    """How a network turns samples in -1..1 into the features for its head, and which samples it takes."""

    features: Callable[[Any, ModelSpec], Any]  # (batch, height, width, channel) -> (batch, feature)
    takes_tables: bool = False
    least_size: int = 1  # pixels of the shorter side
    channels: tuple[int, ...] | None = None  # None: any number
    imagenet: Callable[[tuple[int, int]], WeightsFile] | None = None  # by (height, width), where there are weights


def is_frozen(model: ModelSpec) -> bool:
    """Whether all layers below the head keep their loaded weights. Random weights are never frozen."""
    return model.freeze_base and model.weights != "none"


def features_of(x: Any, model: ModelSpec, facts: Facts) -> Any:
    """The features for the head, (batch, feature), by the network that the spec names.

    Raises `BadData` if there is no such network, or if it takes other samples.
    """
    name = model.name
    if name not in {*NETWORKS, *TEXT_NETWORKS}:
        raise BadData(f"model.name: there is no model {name!r}; there are: {', '.join([*NETWORKS, *TEXT_NETWORKS])}")
    if facts.are_texts:
        check_takes_texts(name)
        # What is frozen is not disturbed, as in a frozen base.
        rate = 0.0 if is_frozen(model) else model.dropout
        return _with_dropout(TEXT_NETWORKS[name](x, rate, len(facts.vocabulary)), model)
    if name in TEXT_NETWORKS:
        is_table = len(facts.shape) == 1
        fitting = [other for other, network in NETWORKS.items() if network.takes_tables or not is_table]
        here = "rows of numbers" if is_table else "images"
        raise BadData(f"model.name: {name} takes texts, and the samples here are {here}: use {', '.join(fitting)}")
    check_samples(name, NETWORKS[name], facts.shape)
    return NETWORKS[name].features(x, model)


def check_takes_texts(name: str) -> None:
    """Raise `BadData` if this is no network for texts."""
    if name not in TEXT_NETWORKS:
        raise BadData(
            f"model.name: {name} takes no texts, and the samples here are texts: use {' or '.join(TEXT_NETWORKS)}"
        )


def check_samples(name: str, network: Network, shape: Shape) -> None:
    """Make sure that a network can take samples of this shape. Raises `BadData`."""
    if len(shape) == 1:
        if not network.takes_tables:
            tables = ", ".join(other for other, network in NETWORKS.items() if network.takes_tables)
            raise BadData(f"model.name: {name} takes images, and a sample here is {shape[0]} numbers: use {tables}")
        return
    height, width, channels = shape
    if min(height, width) < network.least_size:
        least = network.least_size
        raise BadData(
            f"dataset.image_size: {name} takes images of {least}x{least} and larger, and those here are "
            f"{height}x{width}: set it to at least [{least}, {least}]"
        )
    if network.channels and channels not in network.channels:
        allowed = " or ".join(map(str, network.channels))
        raise BadData(f"model.name: {name} takes images of {allowed} channels, and those here have {channels}")


def _layered(make: Callable[[tuple[int, ...], float], small.Layers]) -> Callable[[Any, ModelSpec], Any]:
    def features(x: Any, model: ModelSpec) -> Any:
        for layer in make(tuple(x.shape[1:3]), model.dropout):
            x = layer(x)
        return x

    return features


def _residual(depth: int) -> Callable[[Any, ModelSpec], Any]:
    def features(x: Any, model: ModelSpec) -> Any:
        return _with_dropout(residual(x, depth), model)

    return features


def _vit_tiny(x: Any, model: ModelSpec) -> Any:
    # What is frozen is not disturbed, as in a frozen base.
    return _with_dropout(vit_tiny(x, 0.0 if is_frozen(model) else model.dropout), model)


def _on_base(base: Callable[..., Any]) -> Callable[[Any, ModelSpec], Any]:
    def features(x: Any, model: ModelSpec) -> Any:
        # A frozen base runs in inference mode: else BatchNormalization would use the statistics of the batch.
        return _with_dropout(base(x, training=False if is_frozen(model) else None), model)

    return features


def _with_dropout(x: Any, model: ModelSpec) -> Any:
    for layer in small.dropout(model.dropout):
        x = layer(x)
    return x


NETWORKS = {
    "lenet5": Network(_layered(small.lenet5)),
    "mlp": Network(_layered(small.mlp), takes_tables=True),
    "alexnet": Network(_layered(small.alexnet)),
    "convnet7": Network(_layered(small.convnet7)),
    "chipnet": Network(_layered(small.chipnet)),
    **{f"resnet{depth}": Network(_residual(depth)) for depth in (20, 32, 44, 56)},
    "vit_tiny": Network(_vit_tiny),
    "resnet50": Network(
        _on_base(applications.resnet50), least_size=32, channels=(1, 3), imagenet=applications.resnet50_weights
    ),
    "xception": Network(
        _on_base(applications.xception), least_size=71, channels=(1, 3), imagenet=applications.xception_weights
    ),
    "mobilenet_v2": Network(
        _on_base(applications.mobilenet_v2), least_size=32, channels=(1, 3), imagenet=applications.mobilenet_v2_weights
    ),
    "efficientnet_v2_b0": Network(
        _on_base(applications.efficientnet_v2_b0),
        least_size=32,
        channels=(1, 3),
        imagenet=applications.efficientnet_v2_b0_weights,
    ),
}

# (batch, word of a text), the rate of dropout and the size of the vocabulary -> (batch, feature)
TEXT_NETWORKS: dict[str, Callable[[Any, float, int], Any]] = {
    "bag_of_words": bag_of_words,
    "text_transformer": text_transformer,
}
