"""The losses, against their formulas in NumPy."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from numpy.typing import NDArray

from jobs.model.plan import DatasetSizes
from jobs.model.spec import spec_from
from trainer.data.interfaces import Facts
from trainer.errors import BadData
from trainer.losses import hits, training_loss, training_loss_of, weights_of_classes
from trainer.steps import make_gradients

GENERATOR = np.random.default_rng(7)
LOGITS = (3 * GENERATOR.standard_normal((6, 4))).astype(np.float32)
LABELS = np.array([0, 1, 2, 3, 3, 0], np.int32)
MIXED = GENERATOR.dirichlet(np.ones(4), 6).astype(np.float32)
WEIGHTS = (0.5, 1.0, 2.0, 8.0)


def of_numpy(shares: NDArray[Any]) -> NDArray[Any]:
    chances = np.exp(LOGITS) / np.exp(LOGITS).sum(axis=1, keepdims=True)
    losses: NDArray[Any] = -(shares * np.log(chances)).sum(axis=1)
    return losses


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.9])
@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_loss_of_training_is_that_of_smoothed_labels_times_the_weight_of_the_class(
    smoothing: float, weights: tuple[float, ...] | None
) -> None:
    loss = training_loss(label_smoothing=smoothing, class_weights=weights)
    scale = np.ones(4) if weights is None else np.array(weights)
    of_class = [scale[name] * of_numpy((1 - smoothing) * np.eye(4)[[name] * 6] + smoothing / 4) for name in range(4)]
    by_class = np.stack(of_class, axis=1)  # (sample, class): the loss if the sample were of the class
    np.testing.assert_allclose(loss(tf.constant(LABELS), tf.constant(LOGITS)), by_class[range(6), LABELS], rtol=1e-5)
    np.testing.assert_allclose(loss(tf.constant(MIXED), tf.constant(LOGITS)), (MIXED * by_class).sum(axis=1), rtol=1e-5)


def facts(*counts: int) -> Facts:
    classes = ("cat", "dog", "emu")
    return Facts("arrays", (2,), "float32", None, None, classes, DatasetSizes(train=1, validation=1), {}, counts)


def test_weights_are_balanced_or_by_the_names_of_classes() -> None:
    weights = weights_of_classes("balanced", facts(80, 15, 5))
    assert weights is not None  # their sums are equal, and the mean over the samples is 1
    assert [weight * count for weight, count in zip(weights, (80, 15, 5), strict=True)] == pytest.approx([100 / 3] * 3)
    assert weights_of_classes("balanced", facts(6, 0, 2)) == pytest.approx([8 / 12, 0, 8 / 4])  # one has no sample
    assert weights_of_classes(None, facts()) is None
    assert weights_of_classes({"dog": 2.5}, facts()) == [1.0, 2.5, 1.0]
    with pytest.raises(BadData, match=r"^class_weights.fox: there is no such class; the data has: cat, dog, emu$"):
        weights_of_classes({"dog": 1, "fox": 1}, facts())


def test_the_training_step_takes_the_loss_of_the_recipe() -> None:
    spec = spec_from({"dataset": "pets", "label_smoothing": 0.1, "class_weights": {"dog": 2.5}})
    inputs = keras.Input((4,))
    model = keras.Model(inputs, keras.layers.Dense(3)(inputs))
    labels = LABELS % 3
    loss_of = training_loss_of(spec, facts())
    _, figures = make_gradients(model, keras.optimizers.SGD(), loss_of=loss_of)(
        tf.constant(LOGITS), tf.constant(labels)
    )
    expected = training_loss(label_smoothing=0.1, class_weights=(1, 2.5, 1))(tf.constant(labels), model(LOGITS))
    assert figures[0].numpy() == pytest.approx(np.mean(expected), rel=1e-6)


def test_a_hit_is_the_class_with_the_largest_share() -> None:
    expected = LOGITS.argmax(axis=1)
    assert hits(tf.constant(LABELS), tf.constant(LOGITS)).numpy().tolist() == (expected == LABELS).tolist()
    assert hits(tf.constant(MIXED), LOGITS).numpy().tolist() == (expected == MIXED.argmax(axis=1)).tolist()
