"""Collections that are arrays in memory: what `.npz` and IDX files and the registered datasets become. NumPy only."""

from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jobs.model.tasks import CLASSIFICATION, AnyTask, Task
from trainer.data.images.resize import reader_of_shape
from trainer.data.indexed import ArrayReader, IndexedPart
from trainer.data.interfaces import Features, Labels, Normalization, Selection, Shape, Survey, Target
from trainer.data.moments import Moments
from trainer.data.pixels import CHANNELS, why_no_image
from trainer.data.shuffling import selected
from trainer.data.targets import as_targets
from trainer.errors import BadData

Values = NDArray[Any]

_LARGEST_LABEL = 2**31


@dataclass(frozen=True)
class Arrays:
    """Samples and their labels in memory. `value_range` is set if it is known without reading the values."""

    name: str
    features: Features
    labels: Values  # of a classification (sample,): integers, truth values or strings; else as `Labels`
    value_range: tuple[float, float] | None = None
    task: Task = CLASSIFICATION

    def survey(self, *, rank: int, ranks: int) -> Survey:
        """Every rank has all of it in memory, so only the first rank surveys it."""
        survey = Survey(label_kind="integer" if self.labels.dtype.kind in "iu" else "string")
        if rank == 0:
            survey.samples = len(self.labels)
            if self.task == "regression":
                moments = Moments()
                moments.add(self.labels)
                survey.moments = {"0": moments.sums}
            else:
                survey.labels = self._times()
            survey.shapes = [self.features.shape[1:]]
            survey.details = {"dtype": str(self.features.dtype), **self._scale()}
        return survey

    def shape_of(self, survey: Survey, image_size: tuple[int, int] | None) -> Shape:
        """The shape in the file, or that of the requested size."""
        (shape,) = survey.shapes
        return shape if image_size is None else (*image_size, shape[-1])

    def part(self, survey: Survey, target: Target, selection: Selection) -> IndexedPart:
        """The selected samples."""
        reader = reader_of_shape(ArrayReader(self.features), self.features.shape[1:], target.shape)
        return IndexedPart(reader, self._labels(target), selected(len(self.labels), selection))

    def _times(self) -> dict[str, int]:
        """How often each label occurs."""
        if self.task == "multilabel":
            return {str(number): count for number, count in enumerate(self.labels.sum(axis=0, dtype=np.int64).tolist())}
        values, times = np.unique(self.labels, return_counts=True)
        return {str(value): int(count) for value, count in zip(values, times, strict=True)}

    def _labels(self, target: Target) -> Labels:
        if self.task == "classification":
            values, numbers = np.unique(self.labels, return_inverse=True)
            return np.array([target.label_of[str(value)] for value in values], np.int32)[numbers]
        target.check_width(self.labels.shape[1], name=self.name)
        return self.labels

    def _scale(self) -> dict[str, Any]:
        """`value_range` of images or `normalization` of a table's columns, as details of a survey."""
        if self.value_range is not None:
            return {"value_range": self.value_range}
        finite = np.isfinite(self.features.reshape(len(self.features), -1)).all(axis=1)
        if not finite.all():
            raise BadData(f"{self.name}: sample {int(np.argmin(finite))} (from 0) holds NaN or infinity")
        if self.features.ndim == 2:
            return {"normalization": astuple(normalization_of(self.features))}
        low, high = float(self.features.min()), float(self.features.max())
        if low == high:
            raise BadData(f"{self.name}: every value is {low:g}: there is nothing to learn from")
        return {"value_range": (low, high)}


def normalization_of(table: Features) -> Normalization:
    """Mean and deviation of each column (sample, feature); a column of one value has deviation 1."""
    deviation = table.std(axis=0, dtype=np.float64)
    deviation[deviation == 0] = 1
    return Normalization(tuple(table.mean(axis=0, dtype=np.float64).tolist()), tuple(deviation.tolist()))


def arrays(
    features: Values, labels: Values, *, name: str, image_size: tuple[int, int] | None, task: AnyTask = "auto"
) -> Arrays:
    """A collection of the values of a file: bytes stay bytes, other numbers become float32. Raises `BadData`.

    A table whose columns are the pixels of an `image_size` becomes images of that size.
    """
    chosen = _task_of(labels, name=name) if task == "auto" else task
    labels = _AS_LABELS[chosen](labels, name=name)
    features = _as_features(features, name=name, image_size=image_size)
    if len(features) != len(labels):
        raise BadData(f"{name}: there are {len(features)} samples and {len(labels)} labels")
    return Arrays(name, features, labels, (0.0, 255.0) if features.dtype == np.uint8 else None, chosen)


def _as_features(values: Values, *, name: str, image_size: tuple[int, int] | None) -> Features:
    """(sample, height, width, channel) uint8 or float32, or (sample, feature) float32."""
    if values.dtype.kind not in "buif":
        raise BadData(f"{name}: the samples are of the type {values.dtype}: save them as integers or floats")
    if values.ndim not in {2, 3, 4}:
        raise BadData(
            f"{name}: the samples have the shape {values.shape}: (sample, height, width, channel), "
            "(sample, height, width) and (sample, feature) are understood"
        )
    if not values.size:
        raise BadData(f"{name}: the samples have the shape {values.shape}: there is no value in them")
    if values.ndim == 2 and image_size is not None:
        values = _as_images(values, image_size, name=name)
    if values.ndim == 3:
        values = values[..., np.newaxis]
    if values.ndim == 4 and values.shape[1] in {1, 3} and values.shape[3] > 4:
        raise BadData(f"{name}: the samples have the shape {values.shape}: put the channels last")
    if values.ndim == 4 and values.dtype == np.uint8:
        return values
    with np.errstate(over="ignore"):  # too large values become infinity, which is refused
        return values.astype(np.float32, copy=False)


def _as_images(table: Values, image_size: tuple[int, int], *, name: str) -> Values:
    channels, rest = divmod(table.shape[1], image_size[0] * image_size[1])
    if rest or channels not in CHANNELS:
        why = why_no_image({table.shape[1]}, image_size, unit="values")
        raise BadData(f"dataset.image_size: a row of {name} is no such image: {why}")
    return table.reshape(-1, *image_size, channels)


def _task_of(labels: Values, *, name: str) -> Task:
    """What the labels are for. Whole numbers are classes, also as floats, as scikit-learn's `type_of_target` has it."""
    if labels.dtype.kind == "f" and not (labels.ndim == 2 and labels.shape[1] > 1):
        return "classification" if _are_whole(labels).all() else "regression"
    if labels.ndim != 2 or labels.shape[1] == 1 or labels.dtype.kind not in "biuf" or _is_one_hot(labels):
        return "classification"
    if np.isin(labels, (0, 1)).all():
        return "multilabel"
    if labels.dtype.kind == "f":
        return "regression"
    raise BadData(
        f"{name}: the labels have the shape {labels.shape} and are neither one-hot (a single 1 in a row of zeros) nor "
        "0 and 1 only: if they are numbers to learn, set task to regression"
    )


def _as_targets(values: Values, *, name: str) -> Labels:
    """The numbers to learn (sample, target)."""
    if values.ndim not in {1, 2} or values.dtype.kind not in "biuf" or not values.size:
        raise BadData(
            f"task: regression learns one or several numbers a sample, and the labels of {name} are of the type "
            f"{values.dtype} and the shape {values.shape}"
        )
    targets, wrong = as_targets(values.reshape(len(values), -1))
    if wrong is not None:
        raise BadData(f"{name}: the label of sample {wrong} (from 0) is NaN, infinite or beyond float32")
    return targets


def _as_matrix(values: Values, *, name: str) -> Labels:
    """Which classes apply (sample, class)."""
    if values.ndim != 2 or values.dtype.kind not in "biuf" or not values.size:
        raise BadData(
            f"task: multilabel needs a row of 0 and 1 for each sample, and the labels of {name} are of the type "
            f"{values.dtype} and the shape {values.shape}"
        )
    wrong = ~np.isin(values, (0, 1))
    if wrong.any():
        row, column = map(int, np.argwhere(wrong)[0])
        raise BadData(f"{name}: label {column} of sample {row} (from 0) is {values[row, column]:g}, and not 0 or 1")
    return values.astype(np.uint8)


def _as_classes(values: Values, *, name: str) -> Values:
    """One label for each sample (sample,), also from a column or from one-hot rows."""
    if values.ndim == 2:
        values = values[:, 0] if values.shape[1] == 1 else _from_one_hot(values, name=name)
    if values.ndim != 1:
        raise BadData(f"{name}: the labels have the shape {values.shape}: one label a sample is needed")
    if values.dtype.kind == "f":
        return _whole_numbers(values, name=name)
    if values.dtype.kind == "S":
        try:
            return np.char.decode(values, "utf-8")
        except UnicodeDecodeError:
            raise BadData(f"{name}: the labels are bytes that are no UTF-8 text") from None
    if values.dtype.kind not in "iubU":
        raise BadData(f"{name}: the labels are of the type {values.dtype}: save them as integers or strings")
    return values


def _from_one_hot(rows: Values, *, name: str) -> Values:
    if rows.dtype.kind not in "biuf" or not _is_one_hot(rows):
        raise BadData(
            f"{name}: the labels have the shape {rows.shape} and are not one-hot (a single 1 in a row of zeros): "
            "one label a sample is needed"
        )
    numbers: Values = rows.argmax(axis=1)
    return numbers


def _is_one_hot(rows: Values) -> bool:
    return bool(np.isin(rows, (0, 1)).all() and (rows.sum(axis=1) == 1).all())


def _are_whole(values: Values) -> Any:
    return (np.abs(values) < _LARGEST_LABEL) & (values == np.floor(values))


def _whole_numbers(values: Values, *, name: str) -> Values:
    whole = _are_whole(values)
    if not whole.all():
        row = int(np.argmin(whole))
        raise BadData(f"{name}: the label of sample {row} (from 0) is {values[row]:g}: a class is a whole number")
    return values.astype(np.int64)


_AS_LABELS = {"classification": _as_classes, "regression": _as_targets, "multilabel": _as_matrix}
