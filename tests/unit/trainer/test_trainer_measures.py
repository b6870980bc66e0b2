"""The losses and metrics of each task, against scikit-learn and their formulas; their sums add up over batches."""

import math
from typing import Any

import keras
import numpy as np
import pytest
import sklearn.metrics as sk
import tensorflow as tf
from numpy.typing import NDArray

from jobs.model.plan import DatasetSizes
from jobs.model.spec import spec_from
from jobs.model.tasks import VALIDATED, Task
from trainer.data.interfaces import Facts, Normalization
from trainer.errors import BadData
from trainer.losses import hits, smoothed_binary, training_loss, training_loss_of, weights_of_classes
from trainer.measures import Classification, Measures, Multilabel, Regression, auc_of, bins_for, measures_of
from trainer.steps import make_gradients

ROWS = 4000
RANDOM = np.random.default_rng(7)


def evaluated(measures: Measures, labels: Any, outputs: Any, *, batch: int = 256) -> dict[str, float]:
    """The metrics by batches, the last one of which is filled up with samples of weight 0."""
    total: Any = 0
    for at in range(0, len(labels), batch):
        rows = np.minimum(np.arange(at, at + batch), len(labels) - 1)
        weights = (np.arange(at, at + batch) < len(labels)).astype(np.float32)
        own_labels, own_outputs = labels[rows], outputs[rows].astype(np.float32)
        losses = measures.loss_of(*map(keras.ops.convert_to_tensor, (own_labels, own_outputs)))
        sums = measures.sums(*map(keras.ops.convert_to_tensor, (own_labels, own_outputs)), losses, weights)
        total = total + np.asarray(sums, np.float64)
    return measures.evaluated(total)


def resolution(labels: NDArray[Any], logits: NDArray[Any], bins: int) -> float:
    """By how much an area may be wrong: half the share of the pairs within a bin, and a little for float32."""
    places = ((np.arcsinh(logits) / math.asinh(64) + 1) * bins / 2).astype(int)
    times = [np.bincount(places[labels == value], minlength=bins) for value in (0, 1)]
    return float((times[0] * times[1]).sum() / 2 / times[0].sum() / times[1].sum() + 1e-4)


def test_several_labels() -> None:
    logits = RANDOM.normal(-2, 3, (ROWS, 5))
    labels = (RANDOM.random((ROWS, 5)) < 1 / (1 + np.exp(-logits))).astype(np.uint8)
    labels[:, 4] = 0  # a class that no sample has
    found = evaluated(Multilabel(5), labels, logits)
    chances = 1 / (1 + np.exp(-logits))
    assert found["loss"] == pytest.approx(
        np.mean([sk.log_loss(labels[:, c], chances[:, c], labels=[0, 1]) for c in range(5)])
    )
    assert found["f1"] == pytest.approx(sk.f1_score(labels, logits > 0, average="micro"))
    area = sk.roc_auc_score(labels[:, :4], logits[:, :4], average="macro")
    within = np.mean([resolution(labels[:, c], logits[:, c], bins_for(5)) for c in range(4)])
    assert found["auc"] == pytest.approx(area, abs=within)
    assert within < 0.001
    assert bins_for(10_000) == 64
    assert evaluated(Multilabel(2), np.zeros((3, 2)), np.zeros((3, 2)))["f1"] == 0
    assert math.isnan(auc_of(np.zeros(2 * 64), 64))
    smoothed = smoothed_binary(0.2)(np.array([[1, 0]], np.uint8), np.array([[2.0, 2.0]], np.float32))
    own = keras.losses.binary_crossentropy(np.array([[1.0, 0]]), np.array([[2.0, 2.0]]), True, label_smoothing=0.2)
    assert float(smoothed[0]) == pytest.approx(float(own[0]), rel=1e-5)


def test_one_class_of_several() -> None:
    logits = RANDOM.normal(0, 2, (ROWS, 8))
    labels = RANDOM.integers(0, 8, ROWS).astype(np.int32)
    found = evaluated(Classification(8), labels, logits)
    assert found.keys() == {"loss", "accuracy", "top5"}
    assert found["top5"] == pytest.approx(sk.top_k_accuracy_score(labels, logits, k=5))
    assert found["accuracy"] == pytest.approx(sk.accuracy_score(labels, logits.argmax(1)))
    found = evaluated(Classification(2), labels % 2, logits[:, :2])
    assert found.keys() == {"loss", "accuracy", "auc"}
    scores = logits[:, 1] - logits[:, 0]
    within = resolution(labels % 2, scores, bins_for(1))
    assert found["auc"] == pytest.approx(sk.roc_auc_score(labels % 2, scores), abs=within)
    assert evaluated(Classification(4), labels % 4, logits[:, :4]).keys() == {"loss", "accuracy"}


def test_numbers() -> None:
    targets = (RANDOM.normal(0, 1, (ROWS, 2)) * [1000, 0.01] + [5000, 1]).astype(np.float32)
    outputs = targets + RANDOM.normal(0, 1, (ROWS, 2)) * [300, 0.002]
    deviations = targets.std(0).tolist()
    measures = Regression(deviations)
    found = evaluated(measures, targets, outputs)
    assert found["mae"] == pytest.approx(sk.mean_absolute_error(targets, outputs), rel=1e-4)
    assert found["rmse"] == pytest.approx(sk.root_mean_squared_error(targets, outputs), rel=1e-4)
    guess = evaluated(measures, targets, np.broadcast_to(targets.mean(0), targets.shape))
    assert guess["loss"] == pytest.approx(1, rel=1e-4)
    (figure,) = np.asarray(measures.step_figures(targets, outputs.astype(np.float32))).tolist()
    assert measures.trained([0.1, figure])["mae"] == pytest.approx(found["mae"], rel=1e-4)
    huge = Regression([1e37])
    assert math.isfinite(evaluated(huge, np.full((ROWS, 1), 3e37, np.float32), np.full((ROWS, 1), -3e37))["rmse"])


@pytest.mark.parametrize(("task", "classes"), [("classification", 3), ("regression", 0), ("multilabel", 3)])
def test_a_part_without_samples_has_no_metrics_and_names_are_those_that_monitors_know(task: Task, classes: int) -> None:
    scale = Normalization((0.0,), (1.0,)) if task == "regression" else None
    names = tuple("abc"[:classes])
    facts = Facts(
        "arrays", (2,), "float32", None, None, names, DatasetSizes(train=1, validation=1), {}, task=task, targets=scale
    )
    outputs = np.zeros((1, facts.outputs), np.float32)
    labels = keras.ops.zeros(1, "int32") if task == "classification" else outputs
    measures = measures_of(facts)
    sums = np.asarray(measures.sums(labels, outputs, np.ones(1, np.float32), np.zeros(1, np.float32)), np.float64)
    found = measures.evaluated(sums)
    assert math.isnan(found["loss"])
    assert found.keys() == set(VALIDATED[task]) - {"top5"} - ({"auc"} if task == "classification" else set())
    assert len(np.asarray(measures.step_figures(labels, outputs))) == measures.figures - 1


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
