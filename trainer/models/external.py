"""Networks of other packages, `module:function`, which the operator allows by name. Called by `building`.

The function gets the shape of a sample, as the network will see it, and the number of classes or targets, and returns a
network from samples to as many numbers. See docs/models.md.
"""

import importlib
import sys
from collections.abc import Sequence
from typing import Any

import keras

from jobs.model.os_errors import in_words
from jobs.model.spec import ModelSpec
from trainer.data.interfaces import Shape
from trainer.errors import BadData


def external_network(name: str, shape: Shape, outputs: int, *, allowed: Sequence[str]) -> keras.Model:
    """The network that the function `name` builds. Raises `BadData` if it may not be called, or if it fails."""
    if name not in allowed:
        listed = ", ".join(allowed) or "none"
        raise BadData(
            f"model.name: {name!r} is not among the models that this installation allows (HORA_MODELS): {listed}"
        )
    # The operator's own text, never the job's, decides what is imported.
    module, _, function = allowed[allowed.index(name)].partition(":")
    try:
        network = getattr(importlib.import_module(module), function)(tuple(shape), outputs)
        if isinstance(network, keras.Model):
            keras.saving.serialize_keras_object(network)  # what cannot be saved should fail now, not after training
    except Exception as error:
        sys.excepthook(type(error), error, error.__traceback__)  # the job's log shows the place
        raise BadData(f"model.name: {name} failed: {in_words(error)}") from None
    if not isinstance(network, keras.Model):
        raise BadData(f"model.name: {name} returned no keras.Model but {type(network).__name__}")
    return network


def outputs_of(network: keras.Model, x: Any, model: ModelSpec, outputs: int) -> Any:
    """The float32 outputs (batch, output) of a network on `x`. Raises `BadData` if it gives something else."""
    if model.dropout:
        raise BadData(f"model.dropout: {model.name} places its own dropout; leave it at 0")
    try:
        given = network(x)
    except Exception as error:
        sys.excepthook(type(error), error, error.__traceback__)
        raise BadData(f"model.name: {model.name} cannot be called: {in_words(error)}") from None
    shape = getattr(given, "shape", None)
    if shape != (None, outputs):
        raise BadData(f"model.name: {model.name} gives an output of shape {shape} for {outputs} classes or targets")
    return keras.layers.Activation("linear", dtype="float32")(given)
