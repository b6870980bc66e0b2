"""Builds the network for the facts of a dataset. Called by the session, in the same way on every rank.

Each network takes raw samples (batch, height, width, channel), (batch, feature) or (batch, word), and gives float32
(batch, output): logits, one for each class, or in a regression the numbers in their own units. The scaling is its first
layer, so that saved weights need no other preprocessing, and all layers are Keras's own, so that plain Keras loads what
was saved. The numbers of words are not scaled.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import keras
import numpy as np
from keras import layers

from jobs.model.spec import Spec
from trainer.data.interfaces import Facts
from trainer.errors import BadData
from trainer.models.external import external_network, outputs_of
from trainer.models.zoo import HEAD, check_takes_texts, features_of, is_frozen


def build_model(spec: Spec, facts: Facts, models: Sequence[str] = ()) -> keras.Model:
    """The network the spec names, for the data's shape and task, with weights drawn by the spec's seed.

    `models` are the functions `module:function` that may be called. A frozen base is frozen from the start, before
    its weights are loaded. Raises `BadData`.
    """
    keras.config.set_dtype_policy(spec.precision)
    keras.utils.set_random_seed(spec.seed)
    name, outputs = spec.own_model.name, facts.outputs
    samples = keras.Input(facts.shape, dtype=facts.dtype, name="samples")
    x = samples if facts.are_texts else _scaling(facts)(samples)
    if ":" in name:
        if facts.are_texts:  # it would not know how many words there are
            check_takes_texts(name)
        network = external_network(name, facts.shape, outputs, allowed=models)
        head, title = outputs_of(network, x, spec.own_model, outputs), name.rpartition(":")[2]
        model = keras.Model(samples, in_units(head, facts), name=title)
    else:
        features = features_of(x, spec.own_model, facts)
        # float32 whatever the precision: a softmax over half-precision logits loses small probabilities.
        head = layers.Dense(outputs, dtype="float32", name=HEAD)(features)
        model = network = keras.Model(samples, in_units(head, facts), name=name)
    if is_frozen(spec.own_model):
        _freeze_below_head(network, name)
    return model


def moving_statistics(model: keras.Model) -> list[keras.Variable]:
    """The means and variances that a training step changes without a gradient, on each rank by its own samples.

    They are to be averaged over the ranks. A frozen BatchNormalization changes none.
    """
    normalizations = [layer for layer in model._flatten_layers() if isinstance(layer, layers.BatchNormalization)]
    return list(chain.from_iterable((n.moving_mean, n.moving_variance) for n in normalizations if n.trainable))


def in_units(head: Any, facts: Facts) -> Any:
    """The outputs of the head; those of a regression times the deviation of each target, plus its mean.

    So the head learns numbers around 0, and the network gives them in their own units.
    """
    if facts.targets is None:
        return head
    scale, offset = (np.array(values, np.float32) for values in (facts.targets.deviation, facts.targets.mean))
    return layers.Rescaling(scale.tolist(), offset.tolist(), dtype="float32", name="units")(head)


def _scaling(facts: Facts) -> layers.Layer:
    """Pixels to -1..1, columns to a mean of 0 and a deviation of 1; in float32, as half precision ends at 65,504."""
    if facts.value_range is not None:
        low, high = facts.value_range
        span = (high - low) or 1.0
        return layers.Rescaling(2 / span, offset=-1 - 2 * low / span, dtype="float32")
    assert facts.normalization is not None
    variances = [deviation**2 or 1.0 for deviation in facts.normalization.deviation]
    return layers.Normalization(mean=facts.normalization.mean, variance=variances, dtype="float32")


def _freeze_below_head(network: keras.Model, name: str) -> None:
    if HEAD not in [layer.name for layer in network.layers]:
        raise BadData(
            f"model.freeze_base: {name} has no layer named {HEAD!r}, so it is not known what to train: "
            "name its last layer so, or set model.freeze_base to false"
        )
    for layer in network.layers:
        layer.trainable = layer.name == HEAD
