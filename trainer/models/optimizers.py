"""The optimizers that a spec can name. Called by the session, in the same way on every rank.

Weight decay, with the rate r, the decay d, a weight w and its gradient g:

    coupled      sgd, adam, nadam: the rule of the optimizer gets g + d w, as in PyTorch
    decoupled    adamw: w becomes w - r d w before the rule (Loshchilov and Hutter 2017, arXiv:1711.05101)
    lamb         d w is a part of the step, before the trust ratio (You et al. 2019, arXiv:1904.00962)

Kernels and embeddings decay, biases and the scales and offsets of norms do not.
"""

from typing import Any

import keras
import tensorflow as tf

from jobs.model.plan import Plan
from jobs.model.spec import Spec

DEFAULT_DECAY = {"adamw": 0.01, "lamb": 0.01}  # of the others: none
_NEVER_DECAY = {"bias", "gamma", "beta"}  # Keras's names


def build_optimizer(spec: Spec, plan: Plan, model: keras.Model) -> keras.optimizers.Optimizer:
    """The optimizer the spec names, with all its variables made, so that they can be restored and broadcast.

    In mixed_float16 it scales the loss by a factor that adapts (Micikevicius et al. 2017, arXiv:1710.03740): the
    gradients go in scaled, and a step whose gradients overflow changes no weight. They are clipped unscaled.
    """
    optimizer = _named(spec, plan.base_learning_rate if plan.warmup_epochs else plan.learning_rate, model)
    optimizer.build(model.trainable_variables)
    if spec.precision == "mixed_float16":
        # Wrap it only now: if the wrapper builds Nadam, one of its variables is in no checkpoint and no broadcast.
        optimizer = keras.mixed_precision.LossScaleOptimizer(optimizer)
        optimizer.build(model.trainable_variables)
    return optimizer


def decays(variable: keras.Variable) -> bool:
    """Whether weight decay counts for a weight."""
    return len(variable.shape) > 1 and variable.name not in _NEVER_DECAY


def _named(spec: Spec, rate: float, model: keras.Model) -> keras.optimizers.Optimizer:
    name = spec.optimizer.name
    decay = DEFAULT_DECAY.get(name, 0.0) if spec.weight_decay is None else spec.weight_decay
    arguments = {field: getattr(spec.optimizer, field) for field in spec.optimizer.of_name[name]}
    arguments |= {"learning_rate": rate, "global_clipnorm": spec.clip_norm, "name": name}
    if name == "adamw":
        optimizer = keras.optimizers.AdamW(weight_decay=decay, **arguments)
        fixed = [variable for variable in model.trainable_variables if not decays(variable)]
        optimizer.exclude_from_weight_decay(var_list=fixed)
        return optimizer
    if not decay:
        return _PLAIN[name](**arguments)
    optimizer = _DECAYING[name](**arguments)
    optimizer.decay_by(decay, model)
    return optimizer


class _Decaying:
    """A Keras optimizer that calls `update_step` for each weight. Here it decays those that may."""

    _decay = 0.0
    _decayed: frozenset[int] = frozenset()

    def decay_by(self, decay: float, model: keras.Model) -> None:
        """Set the decay. The optimizer is built for the trainable weights of the model."""
        self._decay = decay
        weights = enumerate(model.trainable_variables)
        self._decayed = frozenset(position for position, weight in weights if decays(weight))

    def pull(self, variable: tf.Variable) -> tf.Tensor:
        """The decay times the weight; 0 for a weight that does not decay."""
        position = self._get_variable_index(variable)  # type: ignore[attr-defined]
        return self._decay * variable if position in self._decayed else tf.zeros_like(variable)


class _Coupled(_Decaying):
    def update_step(self, gradient: tf.Tensor, variable: tf.Variable, learning_rate: tf.Variable) -> None:
        """The rule of the optimizer, for the gradient plus the decay times the weight."""
        super().update_step(gradient + self.pull(variable), variable, learning_rate)  # type: ignore[misc]


class _Sgd(_Coupled, keras.optimizers.SGD):  # type: ignore[misc]
    pass


class _Adam(_Coupled, keras.optimizers.Adam):  # type: ignore[misc]
    pass


class _Nadam(_Coupled, keras.optimizers.Nadam):  # type: ignore[misc]
    pass


class _Lamb(_Decaying, keras.optimizers.Lamb):  # type: ignore[misc]
    """Keras's own decays beside the step, so that its trust ratio does not cover the decay."""

    def update_step(self, gradient: tf.Tensor, variable: tf.Variable, learning_rate: tf.Variable) -> None:
        """Algorithm 2 of You et al. 2019."""
        position, step = self._get_variable_index(variable), tf.cast(self.iterations + 1, tf.float32)
        mean, square = self._momentums[position], self._velocities[position]
        self.assign_add(mean, (gradient - mean) * (1 - self.beta_1))
        self.assign_add(square, (gradient * gradient - square) * (1 - self.beta_2))
        unbiased_mean, unbiased_square = mean / (1 - self.beta_1**step), square / (1 - self.beta_2**step)
        direction = unbiased_mean / (tf.sqrt(unbiased_square) + self.epsilon) + self.pull(variable)
        weight_norm, norm = tf.norm(variable), tf.norm(direction)
        has_ratio = tf.logical_and(weight_norm > 0, norm > 0)
        ratio = tf.where(has_ratio, tf.math.divide_no_nan(weight_norm, norm), 1.0)
        self.assign_sub(variable, ratio * learning_rate * direction)


_PLAIN: dict[str, Any] = {
    "sgd": keras.optimizers.SGD,
    "adam": keras.optimizers.Adam,
    "nadam": keras.optimizers.Nadam,
    "lamb": keras.optimizers.Lamb,
}
_DECAYING: dict[str, Any] = {"sgd": _Sgd, "adam": _Adam, "nadam": _Nadam, "lamb": _Lamb}
