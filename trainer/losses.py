"""The losses of training and of evaluation, from outputs of the network. Used by `trainer.measures` and the session.

Labels of a classification are int32 (sample,), the number of the class. In training they may be float32 (sample,
class): the share of each class in a mixed sample. See `trainer.data.interfaces.Labels` for the other tasks.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import tensorflow as tf

from jobs.model.spec import Spec, unknown_class
from trainer.data.interfaces import Facts
from trainer.errors import BadData

Loss = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]  # labels, outputs (sample, output) -> the loss of each sample


def cross_entropy(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """-sum over the classes of share x log(chance), of each sample."""
    if labels.dtype.is_integer:
        return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    return -tf.reduce_sum(labels * tf.nn.log_softmax(logits), axis=1)


def binary_cross_entropy(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """The mean over the classes of -log(chance of what is so), of each sample. Logits of 0 give ln 2."""
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(tf.cast(labels, tf.float32), logits), axis=1)


def squared_error(deviations: Sequence[float]) -> Loss:
    """The mean over the targets of (error / deviation)^2, of each sample. Always the mean target gives 1 on average."""

    def loss(targets: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        return tf.reduce_mean(tf.square((outputs - targets) / tf.constant(deviations, tf.float32)), axis=1)

    return loss


def training_loss_of(spec: Spec, facts: Facts) -> Loss:
    """The loss of training: that of the task, with what the recipe adds. Raises `BadData`."""
    if facts.targets is not None:
        return squared_error(facts.targets.deviation)
    if facts.task == "multilabel":
        return smoothed_binary(spec.label_smoothing)
    weights = weights_of_classes(spec.class_weights, facts)
    return training_loss(label_smoothing=spec.label_smoothing, class_weights=weights)


def smoothed_binary(label_smoothing: float) -> Loss:
    """The binary cross-entropy of labels that are `label_smoothing` / 2 away from 0 and 1."""
    if not label_smoothing:
        return binary_cross_entropy

    def loss(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        shares = tf.cast(labels, tf.float32)
        return binary_cross_entropy(shares + label_smoothing * (0.5 - shares), logits)

    return loss


def training_loss(*, label_smoothing: float = 0.0, class_weights: Sequence[float] | None = None) -> Loss:
    """The cross-entropy with smoothed labels (Szegedy et al. 2015, arXiv:1512.00567), each class by its weight.

    Smoothing gives every class the share `label_smoothing` / classes. The loss of a sample counts as often as its class
    weighs; that of a mixed sample is the mean of the losses of its classes, by their shares.
    """
    if not label_smoothing and class_weights is None:
        return cross_entropy

    def loss(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        shares = tf.one_hot(labels, logits.shape[1]) if labels.dtype.is_integer else labels
        if class_weights is not None:
            shares *= tf.constant(class_weights, tf.float32)
        of_all = tf.reduce_mean(shares, axis=1, keepdims=True)
        return cross_entropy(shares + label_smoothing * (of_all - shares), logits)

    return loss


def weights_of_classes(asked: Literal["balanced"] | Mapping[str, float] | None, facts: Facts) -> list[float] | None:
    """The weight of each class in the loss of training. Raises `BadData` for a class that the data does not have.

    `balanced`: samples / (classes x samples of the class), over the classes that have samples, so that all classes sum
    to the same and the mean over the samples is 1 (King and Zeng 2001; scikit-learn has the same formula).
    """
    if asked is None:
        return None
    if asked == "balanced":
        used = sum(count > 0 for count in facts.counts)
        return [sum(facts.counts) / (used * count) if count else 0.0 for count in facts.counts]
    if (unknown := unknown_class(asked, facts.classes)) is not None:
        name, message = unknown
        raise BadData(f"class_weights.{name}: {message}")
    return [asked.get(name, 1.0) for name in facts.classes]


def hits(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """1.0 where the largest logit is at the label, or at the class with the largest share; else 0.0."""
    largest = labels if labels.dtype.is_integer else tf.argmax(labels, axis=1, output_type=tf.int32)
    return tf.cast(tf.equal(tf.argmax(logits, axis=1, output_type=tf.int32), largest), tf.float32)
