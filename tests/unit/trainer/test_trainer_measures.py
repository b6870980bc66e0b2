"""The losses and metrics of each task, against scikit-learn; their sums add up over batches."""

import math
from typing import Any

import keras
import numpy as np
import pytest
import sklearn.metrics as sk
from numpy.typing import NDArray

from jobs.model.plan import DatasetSizes
from jobs.model.tasks import VALIDATED, Task
from trainer.data.interfaces import Facts, Normalization
from trainer.losses import smoothed_binary
from trainer.measures import Classification, Measures, Multilabel, Regression, auc_of, bins_for, measures_of

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
