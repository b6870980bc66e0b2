"""The networks, losses and optimizers a spec can name. Used by the session, on every rank alike.

Each network takes raw pixels (batch, height, width, channel) as uint8 and gives logits (batch, classes) as
float32; the scaling to -1..1 is its first layer, so that saved weights need no other preprocessing.
"""

from collections.abc import Callable, Iterator

import keras
from keras import layers

from jobs.plan import Plan
from jobs.spec import Spec
from trainer.data.parts import Facts
from trainer.exits import BadData


def build_model(spec: Spec, facts: Facts) -> keras.Model:
    """The network the spec names, for the data's shape and classes, with seeded weights."""
    keras.config.set_dtype_policy(spec.precision)
    hidden = _HIDDEN.get(spec.model.name)
    if hidden is None:
        raise BadData(f"model.name: there is no model {spec.model.name!r}; there are: {', '.join(_HIDDEN)}")
    pixels = keras.Input(facts.shape, dtype=facts.dtype, name="pixels")
    assert facts.value_range is not None
    low, high = facts.value_range
    x = layers.Rescaling(2 / (high - low), offset=-1 - 2 * low / (high - low))(pixels)
    for layer in hidden(facts.shape[:2], spec.model.dropout):
        x = layer(x)
    # float32 whatever the precision: a softmax over half-precision logits loses small probabilities.
    logits = layers.Dense(len(facts.classes), dtype="float32", name="logits")(x)
    return keras.Model(pixels, logits, name=spec.model.name)


def build_optimizer(spec: Spec, plan: Plan, model: keras.Model) -> keras.optimizers.Optimizer:
    """The optimizer the spec names, with all its variables made, so that they can be restored and broadcast."""
    optimizer = _OPTIMIZERS[spec.optimizer](plan.base_learning_rate if plan.warmup_epochs else plan.learning_rate)
    if spec.precision == "mixed_float16":
        optimizer = keras.mixed_precision.LossScaleOptimizer(optimizer)
    optimizer.build(model.trainable_variables)
    return optimizer


def _lenet5(size: tuple[int, ...], dropout: float) -> Iterator[layers.Layer]:
    """LeNet-5 (LeCun et al. 1998) with ELU and max pooling: 61,706 weights on 28x28x1.

    ELU (Clevert et al. 2015, arXiv:1511.07289), because on few samples and steps it learns faster than tanh, and
    fewer runs stop early below their best than with ReLU. An image smaller than 20x20 keeps its size until after
    the second convolution, or little would be left of it.
    """
    small = min(size) < 20
    yield layers.Conv2D(6, 5, padding="same", **_ELU)
    if not small:
        yield layers.MaxPooling2D()
    yield layers.Conv2D(16, 5, padding="same" if small else "valid", **_ELU)
    yield layers.MaxPooling2D(padding="same")
    yield layers.Flatten()
    for units in (120, 84):
        yield layers.Dense(units, **_ELU)
        yield from _dropout(dropout)


def _mlp(size: tuple[int, ...], dropout: float) -> Iterator[layers.Layer]:
    """Two hidden layers of 128."""
    yield layers.Flatten()
    for _ in range(2):
        yield layers.Dense(128, **_ELU)
        yield from _dropout(dropout)


def _dropout(rate: float) -> Iterator[layers.Layer]:
    if rate:
        yield layers.Dropout(rate)


_ELU = {"activation": "elu", "kernel_initializer": "he_normal"}

_HIDDEN: dict[str, Callable[[tuple[int, ...], float], Iterator[layers.Layer]]] = {"lenet5": _lenet5, "mlp": _mlp}

_OPTIMIZERS: dict[str, Callable[[float], keras.optimizers.Optimizer]] = {
    "adam": keras.optimizers.Adam,
    "nadam": keras.optimizers.Nadam,
    "sgd": lambda rate: keras.optimizers.SGD(rate, momentum=0.9),
}
