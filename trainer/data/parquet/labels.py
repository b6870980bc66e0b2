"""The label column of Parquet files, by task. Used by the other modules of Parquet.

classification   integers or strings, also as truth values or a dictionary
regression       numbers, or a list of as many numbers in each row
multilabel       lists of integers or strings; or a list of fixed size with 0 or 1 for each class

The functions that look at values raise `BadData` without the name of the file: the reader of the row group adds it.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from jobs.model.tasks import AnyTask, Task
from trainer.data.interfaces import Labels, Target
from trainer.data.targets import as_targets
from trainer.errors import BadData

LabelKind = Literal["integer", "string", "number", "matrix"]


def is_text(type_: pa.DataType) -> bool:
    """Whether a column of this type holds strings."""
    value_type = type_.value_type if pa.types.is_dictionary(type_) else type_
    kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(is_kind(value_type) for is_kind in kinds)


def label_kind_of(type_: pa.DataType, label: str, task: AnyTask) -> tuple[Task, LabelKind]:
    """What the labels of a column are for, and what they are. Raises `BadData` if they do not fit the `task`."""
    possible = _possible(type_)
    for found, kind in possible:
        if task in {"auto", found}:
            return found, kind
    if not possible:
        raise BadData(
            f"the label column {label!r} holds {type_}: a label is an integer, a string, a number or a list of those"
        )
    fits = " or ".join(found for found, _ in possible)
    raise BadData(f"task: {task} does not fit the label column {label!r}, which holds {type_}: it is for {fits}")


def _possible(type_: pa.DataType) -> list[tuple[Task, LabelKind]]:
    """The tasks that labels of this type are for, the most likely one first."""
    is_fixed = pa.types.is_fixed_size_list(type_)
    if not (is_fixed or pa.types.is_list(type_) or pa.types.is_large_list(type_)):
        return _possible_of_one(type_)
    in_list: list[tuple[Task, LabelKind]] = []
    for found, kind in _possible_of_one(type_.value_type):
        in_list.append((found, kind) if found == "regression" else ("multilabel", "matrix" if is_fixed else kind))
    if is_fixed and in_list == [("multilabel", "matrix")]:  # of strings
        return [("multilabel", "string")]
    return in_list


def _possible_of_one(type_: pa.DataType) -> list[tuple[Task, LabelKind]]:
    if is_text(type_):
        return [("classification", "string")]
    value_type = type_.value_type if pa.types.is_dictionary(type_) else type_
    if pa.types.is_integer(value_type) or pa.types.is_boolean(value_type):
        return [("classification", "integer"), ("regression", "number")]
    if pa.types.is_floating(value_type) or pa.types.is_decimal(value_type):
        return [("regression", "number")]
    return []


def labels_of(values: pa.Array, task: Task, kind: LabelKind, target: Target, label: str) -> Labels:
    """The labels of some rows; see `Labels`. Raises `BadData`, also for a label that the survey did not find."""
    if task == "regression":
        targets = targets_of(values, label)
        if len(targets):
            target.check_width(targets.shape[1], name=f"the label column {label!r}")
        return targets.reshape(len(targets), target.targets)
    if task == "classification":
        return _numbers_of(values, target.label_of, label)
    if kind == "matrix":
        matrix = _matrix_of(values, label)
        target.check_width(matrix.shape[1], name=f"the label column {label!r}")
        return matrix
    rows, names = _members(values, label)
    marks = np.zeros((len(values), len(target.classes)), np.uint8)
    marks[rows, _known(names, target.label_of)] = 1
    return marks


def count_labels(values: pa.Array, task: Task, kind: LabelKind, label: str, times: Counter[str]) -> None:
    """Add how often each label occurs in some rows. Raises `BadData`."""
    if kind == "matrix":
        sums = _matrix_of(values, label).sum(axis=0, dtype=np.int64).tolist()
        for number, count in enumerate(sums):
            times[str(number)] += count  # also 0: the class is there
        return
    if task == "multilabel":
        rows, labels = _members(values, label)
        pairs = np.unique(np.stack([rows, labels.indices.to_numpy()]), axis=1)  # a class counts once in a row
        codes = pairs[1]
    else:
        labels = _encoded(values, label)
        codes = labels.indices.to_numpy()
    counts = np.bincount(codes, minlength=len(labels.dictionary))
    for name, occurrences in zip(labels.dictionary.to_pylist(), counts.tolist(), strict=True):
        if occurrences:
            times[str(name)] += occurrences


def targets_of(values: pa.Array, label: str) -> Labels:
    """The numbers to learn (row, target) float32. Raises `BadData`."""
    _check_filled(values, label)
    width = 1
    if _is_list(values.type):
        values, lengths = _flat(values, label)
        if len(set(lengths.tolist())) > 1 or not all(lengths[:1]):
            raise BadData(
                f"the label column {label!r} has lists of {lengths.min()} to {lengths.max()} numbers: write as many in "
                "each row"
            )
        width = int(lengths[0]) if len(lengths) else 1
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    numbers = values.cast(pa.float64()) if pa.types.is_decimal(values.type) else values
    targets, wrong = as_targets(numbers.to_numpy(zero_copy_only=False).reshape(-1, width))
    if wrong is not None:
        raise BadData(f"the label column {label!r} has values that are NaN, infinite or beyond float32")
    return targets


def _numbers_of(values: pa.Array, label_of: Mapping[str, int], label: str) -> Labels:
    """The number of each row's class."""
    if pa.types.is_integer(values.type) and not values.null_count and _are_numbers(label_of):
        integers: Labels = values.to_numpy()
        if not len(integers) or 0 <= integers.min() <= integers.max() < len(label_of):
            return integers.astype(np.int32, copy=False)
    return _known(_encoded(values, label), label_of)


def _known(labels: pa.DictionaryArray, label_of: Mapping[str, int]) -> Labels:
    """The number of each label's class."""
    numbers = np.array([label_of.get(str(label), -1) for label in labels.dictionary.to_pylist()], np.int32)
    codes: Labels = numbers[labels.indices.to_numpy()]
    if len(codes) and codes.min() < 0:
        raise BadData(f"there is a label that was not there before: {labels[int(codes.argmin())]}")
    return codes


def _are_numbers(label_of: Mapping[str, int]) -> bool:
    """Whether each class is called by its number."""
    return all(name == str(number) for name, number in label_of.items())


def _encoded(values: pa.Array, label: str) -> pa.DictionaryArray:
    """The labels, each distinct one once in the dictionary."""
    _check_filled(values, label)
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    return values if pa.types.is_dictionary(values.type) else values.dictionary_encode()


def _members(values: pa.Array, label: str) -> tuple[Any, pa.DictionaryArray]:
    """The row of each label of all lists, and the labels."""
    _check_filled(values, label)
    labels, lengths = _flat(values, label)
    return np.repeat(np.arange(len(lengths)), lengths), _encoded(labels, label)


def _matrix_of(values: pa.Array, label: str) -> Labels:
    """The rows of 0 and 1 (row, class) uint8."""
    _check_filled(values, label)
    numbers = values.flatten().to_numpy(zero_copy_only=False)
    wrong = ~np.isin(numbers, (0, 1))
    if wrong.any():
        raise BadData(
            f"the label column {label!r} has lists of a fixed size, so 0 or 1 for each class, and holds "
            f"{numbers[int(wrong.argmax())]}: write lists of any size with the classes, or set task to regression"
        )
    matrix: Labels = numbers.reshape(len(values), -1).astype(np.uint8)
    return matrix


def _flat(values: pa.Array, label: str) -> tuple[pa.Array, Any]:
    """The values of all lists, and the length of each list."""
    flat = values.flatten()
    _check_filled(flat, label)
    if pa.types.is_fixed_size_list(values.type):
        return flat, np.full(len(values), values.type.list_size)
    return flat, values.value_lengths().to_numpy(zero_copy_only=False).astype(np.int64)


def _is_list(type_: pa.DataType) -> bool:
    return bool(pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_fixed_size_list(type_))


def _check_filled(values: pa.Array, label: str) -> None:
    if values.null_count:
        raise BadData(f"the label column {label!r} has empty values")
