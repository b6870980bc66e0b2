"""The optimizers that a spec can name. Called by the session, in the same way on every rank."""

import keras

from jobs.model.plan import Plan
from jobs.model.spec import Spec


def build_optimizer(spec: Spec, plan: Plan, model: keras.Model) -> keras.optimizers.Optimizer:
    """The optimizer the spec names, with all its variables made, so that they can be restored and broadcast.

    In mixed_float16 it scales the loss by a factor that adapts (Micikevicius et al. 2017, arXiv:1710.03740): the
    gradients go in scaled, and a step whose gradients overflow changes no weight.
    """
    optimizer = _OPTIMIZERS[spec.optimizer](plan.base_learning_rate if plan.warmup_epochs else plan.learning_rate)
    optimizer.build(model.trainable_variables)
    if spec.precision == "mixed_float16":
        # Wrap it only now: if the wrapper builds Nadam, one of its variables is in no checkpoint and no broadcast.
        optimizer = keras.mixed_precision.LossScaleOptimizer(optimizer)
        optimizer.build(model.trainable_variables)
    return optimizer


_OPTIMIZERS = {
    "adam": keras.optimizers.Adam,
    "nadam": keras.optimizers.Nadam,
    "sgd": lambda rate: keras.optimizers.SGD(rate, momentum=0.9),
}
