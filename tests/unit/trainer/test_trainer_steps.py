"""The training and the evaluation step on one rank; what ranks do together is tested under horovodrun."""

from collections.abc import Callable

import keras
import numpy as np
import pytest
import tensorflow as tf
from numpy.typing import NDArray

from trainer.averaging import Averaging
from trainer.data.interfaces import Batch
from trainer.errors import BadData
from trainer.models import moving_statistics
from trainer.steps import Tally, accumulated, check_compiles, make_evaluation_step, make_gradients, make_train_step

FEATURES = np.linspace(-1, 1, 32, dtype=np.float32).reshape(8, 4)
LABELS = np.arange(8, dtype=np.int32) % 3
NO_WISH = np.zeros((), np.float32)


pytestmark = pytest.mark.usefixtures("connected")


def network(*, penalty: float = 0.0) -> keras.Model:
    keras.utils.set_random_seed(1)
    inputs = keras.Input((4,))
    hidden = keras.layers.BatchNormalization()(keras.layers.Dense(5)(inputs))
    regularizer = keras.regularizers.L2(penalty) if penalty else None
    return keras.Model(inputs, keras.layers.Dense(3, kernel_regularizer=regularizer)(hidden))


def cross_entropy(logits: NDArray[np.float32]) -> float:
    shifted = logits - logits.max(axis=1, keepdims=True)
    chances = np.exp(shifted) / np.exp(shifted).sum(axis=1, keepdims=True)
    return float(-np.log(chances[np.arange(len(LABELS)), LABELS]).mean())


def train_step_of(
    model: keras.Model, optimizer: keras.optimizers.Optimizer, *, jit: bool = False
) -> Callable[..., Tally]:
    optimizer.build(model.trainable_variables)
    gradients_of = make_gradients(model, optimizer, jit=jit)
    made = make_train_step(gradients_of, model, optimizer, moving_statistics(model), average=Averaging())
    return lambda wish=NO_WISH, labels=LABELS: Tally.of(made(FEATURES, labels, wish).numpy().tolist())


def test_train_step_returns_loss_and_accuracy_before_it_changes_the_weights() -> None:
    model, before = network(), network()
    unused = model.add_weight(shape=(2,), initializer="ones", name="unused")
    logits = np.array(before(FEATURES, training=True))
    tally = train_step_of(model, keras.optimizers.SGD(0.1))(np.ones((), np.float32))
    assert tally.own_figures[0] == tally.figures[0] == pytest.approx(cross_entropy(logits), rel=1e-5)
    assert tally.own_figures[1] == tally.figures[1] == np.mean(logits.argmax(axis=1) == LABELS)
    assert (tally.wishes, tally.allreduce_s) == (1.0, 0.0)
    assert not np.array_equal(model.weights[0].numpy(), before.weights[0].numpy())
    assert any(variable is unused for variable in model.trainable_variables)
    assert unused.numpy().tolist() == [1.0, 1.0]  # it has no gradient


@pytest.mark.parametrize("jit", [False, True])
def test_an_update_of_several_batches_averages_their_gradients_and_runs_them_one_after_the_other(jit: bool) -> None:
    model, by_hand = network(), network()
    optimizer = keras.optimizers.SGD(1.0)
    optimizer.build(model.trainable_variables)
    gradients_of = accumulated(make_gradients(model, optimizer, jit=jit), model, batches=4)
    train_step = make_train_step(gradients_of, model, optimizer, moving_statistics(model), average=Averaging())
    tally = Tally.of(train_step(FEATURES, LABELS, NO_WISH).numpy().tolist())

    of_one = make_gradients(by_hand, optimizer)
    batches = [of_one(FEATURES[at : at + 2], tf.constant(LABELS[at : at + 2])) for at in range(0, 8, 2)]
    assert tally.figures == pytest.approx(np.mean([figures for _, figures in batches], axis=0), rel=1e-5)
    for weight, old, *gradients in zip(
        model.trainable_variables, by_hand.trainable_variables, *(gradients for gradients, _ in batches), strict=True
    ):
        np.testing.assert_allclose(weight.numpy(), old.numpy() - np.mean(gradients, axis=0), atol=1e-5)
    for statistic, expected in zip(moving_statistics(model), moving_statistics(by_hand), strict=True):
        np.testing.assert_allclose(statistic.numpy(), expected.numpy(), atol=1e-6)  # four times moved


def test_penalty_of_a_regularizer_is_part_of_the_loss() -> None:
    plain, regularized = network(), network(penalty=0.5)
    added = 0.5 * float(np.square(regularized.layers[-1].kernel.numpy()).sum())
    ones = np.ones(8, np.float32)
    sums = [make_evaluation_step(model)(FEATURES, LABELS, ones).numpy()[0] for model in (plain, regularized)]
    assert (sums[1] - sums[0]) / 8 == pytest.approx(added, rel=1e-4)
    losses = [train_step_of(model, keras.optimizers.SGD(0.1))().figures[0] for model in (plain, regularized)]
    assert losses[1] - losses[0] == pytest.approx(added, rel=1e-4)


@pytest.mark.parametrize("jit", [False, True])
def test_overflow_of_scaled_gradients_skips_the_update_without_an_error(jit: bool) -> None:
    model = network()
    weights = [variable.numpy().tolist() for variable in model.trainable_variables]
    optimizer = keras.mixed_precision.LossScaleOptimizer(keras.optimizers.Adam(0.1), initial_scale=3e38)
    assert np.isfinite(train_step_of(model, optimizer, jit=jit)().figures[0])
    assert [variable.numpy().tolist() for variable in model.trainable_variables] == weights
    assert float(optimizer.dynamic_scale.numpy()) == pytest.approx(1.5e38)


def test_evaluation_counts_samples_by_weight() -> None:
    model = network()
    logits = np.array(model(FEATURES, training=False))
    weights = np.array([1, 1, 1, 0, 0, 0, 0, 0], np.float32)
    _, samples, hits = make_evaluation_step(model)(FEATURES, LABELS, weights).numpy().tolist()
    assert (hits, samples) == (np.sum(logits.argmax(axis=1)[:3] == LABELS[:3]), 3)


def test_a_compiled_step_trains_as_one_that_is_not_compiled() -> None:
    losses = {}
    for jit in (False, True):
        step = train_step_of(network(penalty=0.01), keras.optimizers.Adam(0.05), jit=jit)
        losses[jit] = [step().figures[0] for _ in range(5)]
        assert losses[jit][-1] < losses[jit][0]
    assert losses[True] == pytest.approx(losses[False], rel=1e-5)


class Spelled(keras.layers.Layer):  # type: ignore[misc]
    """XLA has no texts."""

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return x + 0 * tf.cast(tf.strings.length(tf.strings.as_string(x)), x.dtype)


def test_checking_a_compilation_changes_nothing_and_names_the_field_if_xla_cannot() -> None:
    batch, model = Batch(FEATURES, LABELS), network()
    before = [variable.numpy().tolist() for variable in model.variables]
    check_compiles(make_gradients(model, keras.optimizers.SGD(), jit=True), batch)
    assert [variable.numpy().tolist() for variable in model.variables] == before
    inputs = keras.Input((4,))
    spelled = keras.Model(inputs, keras.layers.Dense(3)(Spelled()(inputs)))
    with pytest.raises(BadData, match=r"^jit: XLA cannot compile this network: it has no AsString; set jit to false$"):
        check_compiles(make_gradients(spelled, keras.optimizers.SGD(), jit=True), batch)
