"""Finds the steps that optimizers of Keras 3 make: eagerly, in functions of TensorFlow, and in `fit`."""

from __future__ import annotations

import weakref
from typing import Any

from hora.hooks.weights import Steps, Sums, is_watching

_steps: weakref.WeakKeyDictionary[Any, Steps] = weakref.WeakKeyDictionary()  # by optimizer
_traced: list[Steps] = []  # of optimizers whose step is in the graph that is traced now
_of_functions: weakref.WeakKeyDictionary[Any, list[Steps]] = weakref.WeakKeyDictionary()


class CallableList(list):  # type: ignore[type-arg]
    """A list that returns itself: what was a method before Keras 3 is a property now, and scripts call it."""

    def __call__(self) -> CallableList:
        return self


def watch_optimizers(module: Any) -> None:
    """Note each step of every optimizer, and let `optimizer.variables()` work as it did."""
    optimizer = module.BaseOptimizer
    apply, variables = optimizer.apply, optimizer.variables.fget

    def noted_apply(self: Any, grads: Any, trainable_variables: Any = None) -> Any:
        result = apply(self, grads, trainable_variables)
        if is_watching():
            _note(self)
        return result

    optimizer.apply = noted_apply
    optimizer.variables = property(lambda self: CallableList(variables(self)))


def _note(optimizer: Any) -> None:
    steps = _steps.get(optimizer)
    if steps is None:
        steps = _steps[optimizer] = Steps(optimizer, optimizer._trainable_variables, _sums, _count)
    if _is_tracing():
        _traced.append(steps)
    else:
        steps.made_one()


def _is_tracing() -> bool:
    import keras

    if keras.backend.backend() != "tensorflow":
        return False
    import tensorflow as tf

    return bool(tf.inside_function())


def watch_functions(module: Any) -> None:
    """Note each call of a function of TensorFlow in whose graph an optimizer makes a step."""
    call = module.Function.__call__

    def noted_call(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = call(self, *args, **kwargs)
        if _traced and not _is_tracing():
            _of_functions[self] = list(dict.fromkeys(_traced))
            _traced.clear()
        if self in _of_functions and not _is_tracing():
            for steps in _of_functions[self]:
                steps.made_one()
        return result

    module.Function.__call__ = noted_call


def watch_fit(module: Any) -> None:
    """Tell the weights at the end of `fit`: the script may drop the model then."""
    trainer = module.TensorFlowTrainer
    fit = trainer.fit

    def noted_fit(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = fit(self, *args, **kwargs)
        optimizer = getattr(self.optimizer, "inner_optimizer", self.optimizer)
        if optimizer in _steps:
            _steps[optimizer].tell(least_growth=1.1)  # some scripts call it for each epoch
        return result

    trainer.fit = noted_fit


def _count(optimizer: Any) -> int:
    return int(optimizer.iterations.numpy())


def _sums(optimizer: Any) -> Sums:
    import numpy as np

    local = getattr(optimizer, "_local", ())
    for variable in optimizer._trainable_variables:
        raw = getattr(variable, "value", variable)
        if local and raw.ref() in local:
            continue
        values = np.asarray(variable.numpy(), np.float64)
        yield values.size, float(values.sum()), float(np.linalg.norm(values))
