"""The optimizers, in every precision, as the training step uses them."""

from typing import get_args

import numpy as np
import pytest
import tensorflow as tf

from jobs.model.plan import SCALING_OF_OPTIMIZER, VALUES_OF_OPTIMIZER
from jobs.model.spec import Spec
from tests.optimizers import PRECISIONS, model_and_optimizer, spec_with

OPTIMIZERS = get_args(Spec.model_fields["optimizer"].annotation)


def test_the_plan_knows_every_optimizer() -> None:
    assert sorted(OPTIMIZERS) == sorted(SCALING_OF_OPTIMIZER) == sorted(VALUES_OF_OPTIMIZER)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizer_keeps_as_many_values_of_a_parameter_as_the_plan_says(name: str) -> None:
    model, optimizer = model_and_optimizer(spec_with(optimizer=name))
    values = sum(tf.size(variable).numpy() for variable in optimizer.variables)
    trainable = sum(tf.size(variable).numpy() for variable in model.trainable_variables)
    assert round(values / trainable, 2) == VALUES_OF_OPTIMIZER[name]


def test_an_overflow_in_half_precision_changes_no_weight() -> None:
    model, optimizer = model_and_optimizer(spec_with(precision="mixed_float16"))
    before = [variable.numpy() for variable in model.trainable_variables]
    scale = float(optimizer.scale_loss(1.0))
    assert scale > 1
    gradients = [tf.fill(variable.shape, np.float32(np.inf)) for variable in model.trainable_variables]
    optimizer.apply(gradients, model.trainable_variables)
    assert all(np.array_equal(a, b.numpy()) for a, b in zip(before, model.trainable_variables, strict=True))
    assert float(optimizer.scale_loss(1.0)) == scale / 2


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("warmup_epochs", [0, 2])
def test_optimizer_starts_at_the_planned_rate_or_at_the_warm_up_base_rate(precision: str, warmup_epochs: int) -> None:
    asked = spec_with(
        precision=precision, warmup_epochs=warmup_epochs, lr_scaling="linear", base_batch=16, learning_rate=0.01
    )
    _, optimizer = model_and_optimizer(asked)
    assert float(optimizer.learning_rate) == pytest.approx(0.01 if warmup_epochs else 0.02)
