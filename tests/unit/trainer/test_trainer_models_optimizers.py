"""The optimizers, in every precision, as the training step uses them; and their rules, against their formulas."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from numpy.typing import NDArray

from jobs.model.plan import values_of_optimizer
from jobs.model.recipe_fields import OPTIMIZERS
from jobs.model.spec import Spec
from tests.networks import facts, spec
from trainer.models import build_model, build_optimizer
from trainer.plan import settle_plan

DIGITS = facts(8, 8, 1, value_range=(0.0, 16.0))
PRECISIONS = ["float32", "mixed_float16", "mixed_bfloat16"]
RATE, DECAY = 0.05, 0.1
Arrays = list[NDArray[np.float32]]


def model_and_optimizer(asked: Spec) -> tuple[keras.Model, keras.optimizers.Optimizer]:
    model = build_model(asked, DIGITS)
    return model, build_optimizer(asked, settle_plan(asked, DIGITS.sizes, gpus=1), model)


@pytest.mark.parametrize("name", [*OPTIMIZERS, {"name": "sgd", "momentum": 0}])
def test_optimizer_keeps_as_many_values_of_a_parameter_as_the_plan_says(name: Any) -> None:
    asked = spec("mlp", optimizer=name)
    model, optimizer = model_and_optimizer(asked)
    values = sum(tf.size(variable).numpy() for variable in optimizer.variables)
    trainable = sum(tf.size(variable).numpy() for variable in model.trainable_variables)
    assert round(values / trainable, 2) == values_of_optimizer(asked.optimizer)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_optimizer_starts_at_the_planned_rate_or_at_the_warm_up_base_rate(precision: str) -> None:
    for warmup_epochs, rate in ((0, 0.02), (2, 0.01)):
        fields = {"precision": precision, "lr_scaling": "linear", "base_batch": 16, "learning_rate": 0.01}
        _, optimizer = model_and_optimizer(spec("mlp", warmup_epochs=warmup_epochs, **fields))
        assert float(optimizer.learning_rate) == pytest.approx(rate)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_has_its_variables_from_the_start_and_follows_the_rate_after_it_is_traced(name: str) -> None:
    model, optimizer = model_and_optimizer(spec("mlp", optimizer=name, precision="mixed_float16", weight_decay=1e-3))
    count, weights = len(optimizer.variables), model.trainable_variables
    gradients = [tf.constant(optimizer.scale_loss(gradient)) for gradient in gradients_like(weights, steps=1)[0]]
    step = tf.function(lambda: optimizer.apply(gradients, weights), autograph=False)

    def moves() -> bool:
        before = [variable.numpy() for variable in weights]
        step()
        return not all(np.array_equal(one, variable.numpy()) for one, variable in zip(before, weights, strict=True))

    moved = []
    for rate in (0.0, 0.002):  # as the warm-up sets it
        optimizer.learning_rate = rate
        moved.append(moves())
    assert moved == [False, True]
    assert len(optimizer.variables) == count  # none is made by the first step: all were restored and broadcast


def gradients_like(weights: Arrays, steps: int = 5) -> list[Arrays]:
    generator = np.random.default_rng(3)
    return [[generator.standard_normal(weight.shape).astype(np.float32) for weight in weights] for _ in range(steps)]


def updated(precision: str = "float32", **fields: Any) -> tuple[list[bool], list[Arrays], Arrays, Arrays]:
    """Which weights decay, the gradients of some updates, and the weights before and after these."""
    model, optimizer = model_and_optimizer(spec("mlp", learning_rate=RATE, precision=precision, **fields))
    weights = model.trainable_variables
    for weight in weights:
        weight.assign(weight + 0.5)  # some begin at 0
    before = [weight.numpy() for weight in weights]
    steps = gradients_like(before)
    for gradients in steps:
        optimizer.apply([tf.constant(optimizer.scale_loss(gradient)) for gradient in gradients], weights)
    return [weight.name == "kernel" for weight in weights], steps, before, [weight.numpy() for weight in weights]


def assert_close(weights: Arrays, expected: Arrays) -> None:
    for weight, value in zip(weights, expected, strict=True):
        np.testing.assert_allclose(weight, value, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("nesterov", [False, True])
def test_sgd_decays_through_its_momentum_as_published_recipes_mean_it(precision: str, nesterov: bool) -> None:
    fields = {"optimizer": {"name": "sgd", "momentum": 0.8, "nesterov": nesterov}, "weight_decay": DECAY}
    decays, steps, weights, after = updated(precision, clip_norm=2.0, **fields)
    moved = [np.zeros_like(weight) for weight in weights]
    for gradients in steps:
        length = float(np.sqrt(sum(float(np.square(gradient).sum()) for gradient in gradients)))
        for at, (weight, gradient) in enumerate(zip(weights, gradients, strict=True)):
            pulled = gradient * min(1.0, 2.0 / length) + DECAY * decays[at] * weight
            moved[at] = 0.8 * moved[at] - RATE * pulled
            weights[at] = weight + (0.8 * moved[at] - RATE * pulled if nesterov else moved[at])
    assert_close(after, weights)
    assert sum(decays) == len(decays) / 2  # kernels, and no biases


@pytest.mark.parametrize("name", ["adam", "nadam"])
def test_coupled_decay_is_a_part_of_the_gradient(name: str) -> None:
    decays, steps, weights, after = updated(optimizer={"name": name, "beta_1": 0.8}, weight_decay=DECAY)
    plain = {"adam": keras.optimizers.Adam, "nadam": keras.optimizers.Nadam}[name](RATE, beta_1=0.8)
    variables = [keras.Variable(weight) for weight in weights]
    for gradients in steps:
        pulled = [
            gradient + DECAY * does * variable.numpy()
            for gradient, does, variable in zip(gradients, decays, variables, strict=True)
        ]
        plain.apply(pulled, variables)
    assert_close(after, [variable.numpy() for variable in variables])


@pytest.mark.parametrize("decay", [None, 0, DECAY])
@pytest.mark.parametrize("name", ["adamw", "lamb"])
def test_decoupled_decay_shrinks_the_weight_itself(name: str, decay: float | None) -> None:
    decays, steps, weights, after = updated(optimizer=name, **({} if decay is None else {"weight_decay": decay}))
    share = 0.01 if decay is None else decay
    means, squares = ([np.zeros_like(weight) for weight in weights] for _ in range(2))
    for number, gradients in enumerate(steps, start=1):
        for at, gradient in enumerate(gradients):
            means[at] = 0.9 * means[at] + 0.1 * gradient
            squares[at] = 0.999 * squares[at] + 0.001 * gradient**2
            unbiased = 1 - 0.999**number
            epsilon = 1e-7 / (1 if name == "lamb" else np.sqrt(unbiased))  # Keras's Adam adds it before the correction
            step = means[at] / (1 - 0.9**number) / (np.sqrt(squares[at] / unbiased) + epsilon)
            step = step + share * decays[at] * weights[at]
            ratio = np.linalg.norm(weights[at]) / np.linalg.norm(step) if name == "lamb" else 1.0
            weights[at] = weights[at] - RATE * ratio * step
    assert_close(after, weights)
