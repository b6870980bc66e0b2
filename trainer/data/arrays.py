"""Collections that are arrays in memory: what `.npz` and IDX files and the registered datasets become. NumPy only."""

from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainer.data.images.resize import reader_of_shape
from trainer.data.indexed import ArrayReader, IndexedPart
from trainer.data.interfaces import Features, Normalization, Selection, Shape, Survey, Target
from trainer.data.shuffling import selected
from trainer.errors import BadData

Values = NDArray[Any]

_LARGEST_LABEL = 2**31


@dataclass(frozen=True)
class Arrays:
    """Samples and their labels in memory. `value_range` is set if it is known without reading the values."""

    name: str
    features: Features
    labels: Values  # (sample,): integers, truth values or strings
    value_range: tuple[float, float] | None = None

    def survey(self, *, rank: int, ranks: int) -> Survey:
        """Every rank has all of it in memory, so only the first rank surveys it."""
        survey = Survey(label_kind="integer" if self.labels.dtype.kind in "iu" else "string")
        if rank == 0:
            values, times = np.unique(self.labels, return_counts=True)
            survey.samples = len(self.labels)
            survey.labels = {str(value): int(count) for value, count in zip(values, times, strict=True)}
            survey.shapes = [self.features.shape[1:]]
            survey.details = {"dtype": str(self.features.dtype), **self._scale()}
        return survey

    def shape_of(self, survey: Survey, image_size: tuple[int, int] | None) -> Shape:
        """The shape in the file, or that of the requested size."""
        (shape,) = survey.shapes
        return shape if image_size is None else (*image_size, shape[-1])

    def part(self, survey: Survey, target: Target, selection: Selection) -> IndexedPart:
        """The selected samples."""
        values, numbers = np.unique(self.labels, return_inverse=True)
        labels = np.array([target.label_of[str(value)] for value in values], np.int32)[numbers]
        reader = reader_of_shape(ArrayReader(self.features), self.features.shape[1:], target.shape)
        return IndexedPart(reader, labels, selected(len(labels), selection))

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


def arrays(features: Values, labels: Values, *, name: str, image_size: tuple[int, int] | None) -> Arrays:
    """A collection of the values of a file: bytes stay bytes, other numbers become float32. Raises `BadData`.

    A table whose columns are the pixels of an `image_size` becomes images of that size.
    """
    labels = _as_labels(labels, name=name)
    features = _as_features(features, name=name, image_size=image_size)
    if len(features) != len(labels):
        raise BadData(f"{name}: there are {len(features)} samples and {len(labels)} labels")
    return Arrays(name, features, labels, value_range=(0.0, 255.0) if features.dtype == np.uint8 else None)


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
    if rest or channels not in {1, 3}:
        size = "x".join(map(str, image_size))
        raise BadData(
            f"dataset.image_size: {name} has rows of {table.shape[1]} values, which are no {size} images of 1 or 3 "
            "channels"
        )
    return table.reshape(-1, *image_size, channels)


def _as_labels(values: Values, *, name: str) -> Values:
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
    is_one_hot = rows.dtype.kind in "biuf" and np.isin(rows, (0, 1)).all() and (rows.sum(axis=1) == 1).all()
    if not is_one_hot:
        raise BadData(
            f"{name}: the labels have the shape {rows.shape} and are not one-hot (a single 1 in a row of zeros): "
            "one label a sample is needed"
        )
    numbers: Values = rows.argmax(axis=1)
    return numbers


def _whole_numbers(values: Values, *, name: str) -> Values:
    whole = (np.abs(values) < _LARGEST_LABEL) & (values == np.floor(values))
    if not whole.all():
        row = int(np.argmin(whole))
        raise BadData(f"{name}: the label of sample {row} (from 0) is {values[row]:g}: a class is a whole number")
    return values.astype(np.int64)
