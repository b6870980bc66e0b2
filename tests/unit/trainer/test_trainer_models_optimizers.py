"""The optimizers, in every precision, as the training step uses them."""

import numpy as np
import pytest
import tensorflow as tf

from tests.optimizers import PRECISIONS, model_and_optimizer, spec_with


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
