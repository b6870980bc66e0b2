"""The optimizers, in every precision, as the training step uses them."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from jobs.model.plan import DatasetSizes
from jobs.model.spec import Spec, spec_from
from trainer.data.interfaces import Facts
from trainer.models import build_model, build_optimizer
from trainer.plan import settle_plan

NAMES = tuple(map(str, range(10)))
DIGITS = Facts("arrays", (8, 8, 1), "uint8", (0.0, 16.0), None, NAMES, DatasetSizes(train=90, validation=10), {})
PRECISIONS = ["float32", "mixed_float16", "mixed_bfloat16"]


def spec(**fields: object) -> Spec:
    return spec_from({"dataset": "digits", "model": "mlp", **fields})


def made(asked: Spec) -> tuple[keras.Model, keras.optimizers.Optimizer]:
    model = build_model(asked, DIGITS)
    return model, build_optimizer(asked, settle_plan(asked, DIGITS.sizes, ranks=1), model)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", ["adam", "nadam", "sgd"])
def test_every_optimizer_learns_in_every_precision(name: str, precision: str) -> None:
    model, optimizer = made(spec(optimizer=name, precision=precision))
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


def test_an_overflow_in_half_precision_changes_no_weight() -> None:
    model, optimizer = made(spec(precision="mixed_float16"))
    before = [variable.numpy() for variable in model.trainable_variables]
    scale = float(optimizer.scale_loss(1.0))
    assert scale > 1
    gradients = [tf.fill(variable.shape, np.float32(np.inf)) for variable in model.trainable_variables]
    optimizer.apply(gradients, model.trainable_variables)
    assert all(np.array_equal(a, b.numpy()) for a, b in zip(before, model.trainable_variables, strict=True))
    assert float(optimizer.scale_loss(1.0)) == scale / 2


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("warmup_epochs", [0, 2])
def test_the_rate_is_the_resolved_one(precision: str, warmup_epochs: int) -> None:
    asked = spec(
        precision=precision, warmup_epochs=warmup_epochs, lr_scaling="linear", base_batch=16, learning_rate=0.01
    )
    _, optimizer = made(asked)
    assert float(optimizer.learning_rate) == pytest.approx(0.01 if warmup_epochs else 0.02)
