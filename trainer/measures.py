"""The figures by which a task is measured: those of a step, and the sums of an evaluation. Used by steps and loop.

Classification   accuracy; top5 with more than 5 classes; auc with 2
Regression       mae and rmse, in the units of the targets
Multilabel       f1 over all labels, auc

All figures are means or sums over samples. So they add up over batches and ranks, and a metric is made of the sum.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from jobs.model.tasks import has_metric
from trainer.data.interfaces import Facts
from trainer.losses import Loss, binary_cross_entropy, cross_entropy, hits, squared_error

Sums = NDArray[np.float64]

_TOP = 5
_MOST_BINS, _MOST_VALUES, _LEAST_BINS = 1024, 2**17, 64
_LARGEST_LOGIT = 64.0  # larger ones count as that


class Measures(ABC):
    """How a task is measured. The loss comes first in everything."""

    figures = 2  # of a step, with the loss

    def __init__(self, loss_of: Loss) -> None:
        self.loss_of = loss_of  # of an evaluation

    @abstractmethod
    def step_figures(self, labels: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """The figures of a batch beside the loss (figure,): means over its samples."""

    @abstractmethod
    def trained(self, means: Sequence[float]) -> dict[str, float]:
        """The metrics of steps, by the mean of the loss and of each figure."""

    def sums(self, labels: tf.Tensor, outputs: tf.Tensor, losses: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """The sums over the samples of a batch, each by its weight; `weights` (sample,) are 0 or 1."""
        first = tf.stack([tf.reduce_sum(losses * weights), tf.reduce_sum(weights)])
        return tf.concat([first, self._further_sums(labels, outputs, weights)], 0)

    def evaluated(self, sums: Sums) -> dict[str, float]:
        """The metrics of a part, by the sums over all its batches on all ranks. Without samples they are NaN."""
        loss, samples = sums[:2].tolist()
        metrics = {"loss": loss / samples if samples else math.nan}
        return metrics | (self._further_metrics(sums[2:], samples or math.nan))

    @abstractmethod
    def _further_sums(self, labels: tf.Tensor, outputs: tf.Tensor, weights: tf.Tensor) -> tf.Tensor: ...

    @abstractmethod
    def _further_metrics(self, sums: Sums, samples: float) -> dict[str, float]: ...


class Classification(Measures):
    """Labels are numbers of classes (sample,), in training also shares (sample, class)."""

    def __init__(self, classes: int) -> None:
        super().__init__(cross_entropy)
        self._has_top5, self._has_auc = has_metric("top5", classes), has_metric("auc", classes)
        self._bins = bins_for(1)

    def step_figures(self, labels: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """The share of hits."""
        return tf.reduce_mean(hits(labels, outputs))[tf.newaxis]

    def trained(self, means: Sequence[float]) -> dict[str, float]:
        """The loss and the accuracy."""
        loss, accuracy = means
        return {"loss": loss, "accuracy": accuracy}

    def _further_sums(self, labels: tf.Tensor, outputs: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        sums = [tf.reduce_sum(hits(labels, outputs) * weights)[tf.newaxis]]
        if self._has_top5:
            sums.append(tf.reduce_sum(_within_top(labels, outputs) * weights)[tf.newaxis])
        if self._has_auc:
            scores = (outputs[:, 1] - outputs[:, 0])[:, tf.newaxis]
            sums.append(histograms(tf.cast(labels, tf.float32)[:, tf.newaxis], scores, weights, self._bins))
        return tf.concat(sums, 0)

    def _further_metrics(self, sums: Sums, samples: float) -> dict[str, float]:
        metrics = {"accuracy": float(sums[0]) / samples}
        if self._has_top5:
            metrics["top5"] = float(sums[1]) / samples
        if self._has_auc:
            metrics["auc"] = auc_of(sums[-2 * self._bins :], self._bins)
        return metrics


class Regression(Measures):
    """Labels and outputs are numbers in their own units (sample, target); the loss is that of standardised ones."""

    def __init__(self, deviations: Sequence[float]) -> None:
        super().__init__(squared_error(deviations))
        self._deviations = np.array(deviations)

    def step_figures(self, labels: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """The mean absolute error, by the mean deviation of the targets: in their units a sum may exceed float32."""
        shares = tf.constant(self._deviations / self._deviations.mean(), tf.float32)
        return tf.reduce_mean(tf.abs(self._errors(labels, outputs)) * shares)[tf.newaxis]

    def trained(self, means: Sequence[float]) -> dict[str, float]:
        """The loss and the mean absolute error."""
        loss, error = means
        return {"loss": loss, "mae": error * float(self._deviations.mean())}

    def _further_sums(self, labels: tf.Tensor, outputs: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        errors = self._errors(labels, outputs) * weights[:, tf.newaxis]
        return tf.concat([tf.reduce_sum(tf.abs(errors), 0), tf.reduce_sum(tf.square(errors), 0)], 0)

    def _further_metrics(self, sums: Sums, samples: float) -> dict[str, float]:
        errors, squares = np.split(sums / samples, 2)
        return {
            "mae": float((errors * self._deviations).mean()),
            "rmse": float((np.sqrt(squares) * self._deviations).mean()),
        }

    def _errors(self, labels: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        return (outputs - labels) / tf.constant(self._deviations, tf.float32)


class Multilabel(Measures):
    """Labels are 1 for each class that applies, else 0 (sample, class); outputs are logits, above 0 for yes."""

    figures = 3

    def __init__(self, classes: int) -> None:
        super().__init__(binary_cross_entropy)
        self._classes, self._bins = classes, bins_for(classes)

    def step_figures(self, labels: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """The right ones of a sample's predicted labels, and how many are predicted and are there together."""
        return tf.reduce_mean(_label_counts(labels, outputs), 0)

    def trained(self, means: Sequence[float]) -> dict[str, float]:
        """The loss and the F1."""
        loss, right, counted = means
        return {"loss": loss, "f1": _f1(right, counted)}

    def _further_sums(self, labels: tf.Tensor, outputs: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        counts = tf.reduce_sum(_label_counts(labels, outputs) * weights[:, tf.newaxis], 0)
        return tf.concat([counts, histograms(tf.cast(labels, tf.float32), outputs, weights, self._bins)], 0)

    def _further_metrics(self, sums: Sums, samples: float) -> dict[str, float]:
        return {"auc": auc_of(sums[2:], self._bins), "f1": _f1(*sums[:2].tolist())}


def measures_of(facts: Facts) -> Measures:
    """The measures of a dataset's task."""
    if facts.targets is not None:
        return Regression(facts.targets.deviation)
    return {"classification": Classification, "multilabel": Multilabel}[facts.task](len(facts.classes))


def _within_top(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """1.0 where at most 4 logits are larger than that of the label. XLA cannot compile TensorFlow's own operation."""
    own = tf.gather(logits, labels, batch_dims=1)[:, tf.newaxis]
    larger = tf.reduce_sum(tf.cast(logits > own, tf.int32), 1)
    return tf.cast((larger < _TOP) & tf.reduce_all(tf.math.is_finite(own), 1), tf.float32)


def _label_counts(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """For each sample (sample, 2): its labels that are predicted, and its labels plus what is predicted.

    In training labels may be shares; one half or more counts as there.
    """
    there, predicted = tf.cast(tf.cast(labels, tf.float32) >= 0.5, tf.float32), tf.cast(logits > 0, tf.float32)
    return tf.stack([tf.reduce_sum(there * predicted, 1), tf.reduce_sum(there + predicted, 1)], 1)


def _f1(right: float, counted: float) -> float:
    """The F1 over all labels: 2 x right / (there + predicted). 0 if none is there or predicted."""
    return 2 * right / counted if counted else 0.0


def bins_for(classes: int) -> int:
    """How many bins a histogram has: fewer with many classes, because those of every batch are sent to the host."""
    return max(_LEAST_BINS, min(_MOST_BINS, _MOST_VALUES // classes))


def histograms(labels: tf.Tensor, logits: tf.Tensor, weights: tf.Tensor, bins: int) -> tf.Tensor:
    """How many logits of each class lie in each bin, of samples that have the class and of those that have not.

    Of shape (2 x class x bin,). A bin is a stretch of asinh(logit). So with 1024 bins it is as wide as 1 % of the
    logit, and 0.01 around 0; with 64 bins 16 times as wide.
    """
    classes = logits.shape[1]
    span = math.asinh(_LARGEST_LOGIT)
    places = (tf.asinh(tf.where(tf.math.is_nan(logits), 0.0, logits)) / span + 1) * (bins / 2)
    numbers = tf.cast(tf.clip_by_value(places, 0, bins - 1), tf.int32) + tf.range(classes)[tf.newaxis] * bins
    counts = tf.stack([labels, 1 - labels]) * weights[tf.newaxis, :, tf.newaxis]
    of_bins = [
        tf.math.unsorted_segment_sum(tf.reshape(count, [-1]), tf.reshape(numbers, [-1]), classes * bins)
        for count in tf.unstack(counts)
    ]
    return tf.concat(of_bins, 0)


def auc_of(counts: Any, bins: int) -> float:
    """The area under the ROC curve, as a mean over the classes that some samples have and others have not.

    It is the chance that a sample with the class has a larger logit than one without (Hanley and McNeil 1982,
    doi:10.1148/radiology.143.1.7063747). A pair within a bin counts half. So it is wrong by at most half the share of
    such pairs. NaN if there is no such class.
    """
    positives, negatives = np.asarray(counts).reshape(2, -1, bins)
    below = np.cumsum(negatives, axis=1) - negatives
    pairs = positives.sum(axis=1) * negatives.sum(axis=1)
    areas = (positives * (below + negatives / 2)).sum(axis=1)
    return float((areas[pairs > 0] / pairs[pairs > 0]).mean()) if (pairs > 0).any() else math.nan


def named(prefix: str, metrics: Mapping[str, float]) -> dict[str, float]:
    """The metrics by their names with a prefix: `val_` or `test_`."""
    return {f"{prefix}{name}": value for name, value in metrics.items()}
