"""The optimizers learn, and one in every precision, as the training step uses them."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from jobs.model.recipe_fields import OPTIMIZERS
from tests.optimizers import PRECISIONS, model_and_optimizer, spec_with

HARDEST = "mixed_float16"  # it scales the loss


@pytest.mark.parametrize(
    ("name", "precision"),
    [*((name, HARDEST) for name in OPTIMIZERS), *(("adam", other) for other in PRECISIONS if other != HARDEST)],
)
def test_an_optimizer_learns(name: str, precision: str) -> None:
    model, optimizer = model_and_optimizer(
        spec_with(optimizer=name, precision=precision, weight_decay=1e-3, clip_norm=10)
    )
    count = len(optimizer.variables)
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    generator = np.random.default_rng(5)
    pixels, labels = generator.integers(0, 17, (32, 8, 8, 1), np.uint8), np.arange(32) % 10

    @tf.function(autograph=False)
    def step() -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = loss_of(labels, model(pixels, training=True))
            scaled_loss = optimizer.scale_loss(loss)
        optimizer.apply(tape.gradient(scaled_loss, model.trainable_variables), model.trainable_variables)
        return loss

    optimizer.learning_rate = 0.0
    before = [variable.numpy() for variable in model.trainable_variables]
    step()
    assert all(np.array_equal(a, b.numpy()) for a, b in zip(before, model.trainable_variables, strict=True))
    optimizer.learning_rate = 0.002  # as the warm-up sets it, after the step is traced
    losses = [float(step()) for _ in range(20)]
    assert losses[-1] < 0.8 * losses[0]
    assert len(optimizer.variables) == count  # none is made by the first step: all were restored and broadcast
    assert int(optimizer.iterations) == 21
