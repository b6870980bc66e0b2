"""The examples in records (`tf.train.Example`): which features are the label and the sample, and their values.

For `trainer.data.tfrecord.source`. Importing this module imports TensorFlow. Its parser runs nothing of what it reads.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from jobs.model.tasks import CLASSIFICATION, AnyTask, Task
from trainer.data.interfaces import Features, Labels
from trainer.data.targets import as_targets
from trainer.errors import BadData

# As TensorFlow's own models and TensorFlow Datasets call them; the first one that is there is taken.
_LABELS = ("label", "image/class/label")
_IMAGES = ("image/encoded", "image", "image_raw")
_KINDS = ("bytes_list", "float_list", "int64_list")


@dataclass(frozen=True)
class Schema:
    """What is read of each example: the label, and either one feature of bytes or all features of numbers."""

    label: str
    label_kind: Literal["integer", "string"]
    features: tuple[str, ...]
    kind: Literal["bytes", "table"]
    sizes: tuple[int, ...]  # values of each feature
    are_floats: tuple[bool, ...]
    task: Task = CLASSIFICATION
    targets: int = 1  # values of the label
    targets_are_floats: bool = False

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> "Schema":
        """Of what `asdict` made."""
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in document.items()
        }
        return cls(**values)


def schema_of(content: bytes, label: str, *, name: str, task: AnyTask = "auto") -> Schema:
    """The schema of a file by its first example; `label` is the name that the spec gives. Raises `BadData`."""
    try:
        example = tf.train.Example.FromString(content)
    except Exception as error:  # protobuf's own, whose name differs between its versions
        raise BadData(f"{name} holds no examples (tf.train.Example): {type(error).__name__}") from None
    values = {key: (feature.WhichOneof("kind"), feature) for key, feature in sorted(example.features.feature.items())}
    kinds = {
        key: (kind, len(getattr(feature, kind).value)) for key, (kind, feature) in values.items() if kind in _KINDS
    }
    names = (label, *_LABELS[1:]) if label == _LABELS[0] else (label,)
    found = next((each for each in names if each in kinds), None)
    there = ", ".join(kinds) or "none"
    if found is None:
        raise BadData(f"{name}: there is no feature {label!r} (dataset.label); there are: {there}")
    kind, targets = kinds.pop(found)
    if task == "multilabel":
        raise BadData(f"task: {name} is TFRecord, which is read for classification and regression: write Parquet")
    chosen: Task = task if task != "auto" else "regression" if kind == "float_list" else CLASSIFICATION
    unfit: dict[str, Task] = {"bytes_list": "regression", "float_list": CLASSIFICATION}
    if chosen == unfit.get(str(kind)):
        what = "text" if kind == "bytes_list" else "floats"
        raise BadData(f"task: {chosen} does not fit the label {found!r} of {name}, which is {what}")
    images = [each for each, (its_kind, count) in kinds.items() if its_kind == "bytes_list" and count == 1]
    image = next((each for each in _IMAGES if each in images), images[0] if len(images) == 1 else None)
    label_kind: Literal["integer", "string"] = "string" if kind == "bytes_list" else "integer"
    labels: dict[str, Any] = {"task": chosen, "targets": targets, "targets_are_floats": kind == "float_list"}
    if image is not None:
        return Schema(found, label_kind, (image,), "bytes", (1,), (False,), **labels)
    if images:
        raise BadData(
            f"{name}: which feature is the image? There are {', '.join(images)}: call it {_IMAGES[0]} or {_IMAGES[1]}"
        )
    numbers = {
        each: (its_kind, count) for each, (its_kind, count) in kinds.items() if its_kind != "bytes_list" and count
    }
    if not numbers:
        raise BadData(
            f"{name}: there is neither an image nor a feature of numbers beside the label; there are: {there}"
        )
    floats = tuple(its_kind == "float_list" for its_kind, _ in numbers.values())
    sizes = tuple(count for _, count in numbers.values())
    return Schema(found, label_kind, tuple(numbers), "table", sizes, floats, **labels)


def labels_of(contents: Sequence[bytes], schema: Schema, name_of: Callable[[int], str]) -> list[str]:
    """The label of each example as text. Raises `BadData`, with the name that `name_of` gives the position."""
    dtype = tf.int64 if schema.label_kind == "integer" else tf.string
    values = _parsed(contents, {schema.label: tf.io.FixedLenFeature([], dtype)}, name_of)[schema.label].tolist()
    if schema.label_kind == "integer":
        return list(map(str, values))
    try:
        return [value.decode() for value in values]
    except UnicodeDecodeError:
        raise BadData(f"{name_of(0)} or one after it has a label that is no UTF-8 text") from None


def targets_of(contents: Sequence[bytes], schema: Schema, name_of: Callable[[int], str]) -> Labels:
    """The numbers that each example has to learn, (example, target) float32. Raises `BadData`."""
    dtype = tf.float32 if schema.targets_are_floats else tf.int64
    values = _parsed(contents, {schema.label: tf.io.FixedLenFeature([schema.targets], dtype)}, name_of)[schema.label]
    targets, wrong = as_targets(values)
    if wrong is not None:
        raise BadData(f"{name_of(wrong)} has a label that is NaN or infinite")
    return targets


def images_of(contents: Sequence[bytes], schema: Schema, name_of: Callable[[int], str]) -> list[bytes]:
    """The bytes of each example. Raises `BadData`."""
    (name,) = schema.features
    values: list[bytes] = _parsed(contents, {name: tf.io.FixedLenFeature([], tf.string)}, name_of)[name].tolist()
    return values


def table_of(contents: Sequence[bytes], schema: Schema, name_of: Callable[[int], str]) -> Features:
    """The numbers of each example, (example, value) float32. Raises `BadData`."""
    described = zip(schema.features, schema.sizes, schema.are_floats, strict=True)
    features = {
        name: tf.io.FixedLenFeature([size], tf.float32 if is_float else tf.int64) for name, size, is_float in described
    }
    values = _parsed(contents, features, name_of)
    table = np.concatenate([values[name].astype(np.float32) for name in schema.features], axis=1)
    finite = np.isfinite(table).all(axis=1)
    if not finite.all():
        raise BadData(f"{name_of(int(np.argmin(finite)))} holds NaN or infinity")
    return table


def _parsed(
    contents: Sequence[bytes], features: dict[str, Any], name_of: Callable[[int], str]
) -> dict[str, NDArray[Any]]:
    with tf.device("CPU:0"):
        try:
            parsed = tf.io.parse_example(np.array(contents, object), features)
        except (tf.errors.OpError, UnicodeDecodeError) as error:  # the second where a message quotes bytes
            if len(contents) > 1:  # the error does not say which example it is
                for number, content in enumerate(contents):
                    _parsed([content], features, lambda _, number=number: name_of(number))  # type: ignore[misc]
            wanted = ", ".join(f"{name} ({_described(feature)})" for name, feature in features.items())
            raise BadData(f"{name_of(0)} has other features than the first one: not {wanted}") from error
    return {name: values.numpy() for name, values in parsed.items()}


def _described(feature: Any) -> str:
    count = feature.shape[0] if feature.shape else 1
    kind = {tf.string: "text", tf.int64: "integer", tf.float32: "float"}[feature.dtype]
    return f"{count} {kind}{'s' * (count != 1)}"
