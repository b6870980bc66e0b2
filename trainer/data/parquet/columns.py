"""Which columns of a Parquet file are the label and the features, and how their values become arrays.

Used by the other modules of Parquet. The functions that look at values raise `BadData` without the name of the file:
the reader of the row group adds it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jobs.model.tasks import AnyTask, Task
from trainer.data.interfaces import Features
from trainer.data.parquet.labels import LabelKind, is_text, label_kind_of
from trainer.errors import BadData

_IMAGE_NAME = "image"  # the name of the image if there are several columns of bytes
_TEXT_NAME = "text"  # the name of the text if there are several columns of strings
_DTYPES = {"bytes": np.uint8, "text": np.int32}


@dataclass(frozen=True)
class Columns:
    """The columns that are read: the label, and one column of bytes, one of texts, or all columns of numbers."""

    label: str
    task: Task
    label_kind: LabelKind
    features: tuple[str, ...]
    kind: Literal["bytes", "text", "table"]
    types: Mapping[str, pa.DataType]  # of those of features; texts of every type count as strings
    text_length: int = 0  # words of a text

    @property
    def projection(self) -> list[str]:
        """The paths to read in a file for samples. Of an image in a struct only its bytes."""
        within = ".bytes" if self.kind == "bytes" and pa.types.is_struct(self.types[self.features[0]]) else ""
        return [self.label, *(name + within for name in self.features)]

    @property
    def dictionary(self) -> list[str]:
        """The columns whose values repeat, or may: each distinct one is read once."""
        labels = [self.label] if self.label_kind == "string" and self.task == "classification" else []
        return labels + (list(self.features) if self.kind == "text" else [])

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the features as numbers."""
        types = {kind.value_type if pa.types.is_fixed_size_list(kind) else kind for kind in self.types.values()}
        return np.dtype(_DTYPES.get(self.kind, np.uint8 if types == {pa.uint8()} else np.float32))

    @property
    def width(self) -> int:
        """Values of a row of a table, or words of a text."""
        return self.text_length or sum(_width(kind) for kind in self.types.values())


def columns_of(
    schema: pa.Schema, label: str, task: AnyTask = "auto", *, text: str | None = None, text_length: int = 256
) -> Columns:
    """The columns to read of a file with a schema; `text` is the name of the column of texts, if one was given.

    Raises `BadData`, to be put after the name of the file.
    """
    names = schema.names
    if len(set(names)) < len(names):
        raise BadData(f"the name of a column occurs twice: {', '.join(names)}")
    if label not in names:
        raise BadData(f"there is no label column {label!r} (dataset.label); there are: {', '.join(names)}")
    fitting_task, label_kind = label_kind_of(schema.field(label).type, label, task)
    index = _pandas_index(schema)
    fields = {field.name: field.type for field in schema if field.name != label and field.name not in index}
    text = _text_column(fields, names, label, text)
    if text is not None:
        return Columns(label, fitting_task, label_kind, (text,), "text", {text: pa.string()}, text_length)
    features = _image_column(fields) or fields
    kind: Literal["bytes", "table"] = "bytes" if features is not fields else "table"
    others = {name: type_ for name, type_ in features.items() if kind == "table" and not _is_numbers(type_)}
    if others:
        listed = ", ".join(f"{name!r} ({type_})" for name, type_ in others.items())
        otherwise = ", or name the column of texts in dataset.text" if any(map(is_text, others.values())) else ""
        if any(map(_is_list_of_numbers, others.values())):
            otherwise += ", or write lists of numbers with a fixed size, such as pa.list_(pa.float32(), 784)"
        raise BadData(f"neither numbers nor images: {listed}: leave such columns out of the files{otherwise}")
    if not features:
        raise BadData(f"there is no column of numbers, images or texts beside the label {label!r}")
    return Columns(label, fitting_task, label_kind, tuple(features), kind, features)


def table_of(batch: pa.RecordBatch, columns: Columns) -> Features:
    """The values of a batch of a table, (row, value), as `Columns.dtype`. Raises `BadData`."""
    with np.errstate(over="ignore", invalid="ignore"):  # values beyond float32 become infinite, which is checked below
        table = _side_by_side(batch, columns)
        # The sum of finite values is finite unless they are huge, so most batches need only one check.
        if table.dtype == np.float32 and not np.isfinite(table.sum()):
            _check_finite(table, columns)
    return table


def _side_by_side(batch: pa.RecordBatch, columns: Columns) -> Features:
    features = batch.select(columns.features)
    for name, values in zip(columns.features, features.columns, strict=True):
        _check_filled(values, name)
    if set(features.schema.types) == {pa.from_numpy_dtype(columns.dtype)}:
        tensor: Features = features.to_tensor().to_numpy()  # all columns at once: twice as fast
        return tensor
    table = np.empty((len(batch), columns.width), columns.dtype)
    at = 0
    for name, values in zip(columns.features, features.columns, strict=True):
        width = _width(values.type)
        if pa.types.is_fixed_size_list(values.type):
            values = values.flatten()  # noqa: PLW2901
            _check_filled(values, name)
        table[:, at : at + width] = values.to_numpy(zero_copy_only=False).reshape(-1, width)
        at += width
    return table


def contents_of(batch: pa.RecordBatch, columns: Columns) -> Features:
    """The bytes of each row of a batch, (row,) of objects. Raises `BadData`."""
    (name,) = columns.features
    values = batch.column(name)
    if pa.types.is_struct(values.type):
        values = pc.struct_field(values, "bytes")
    _check_filled(values, name)
    if is_bytes_in_list(values.type):
        return _bytes_of_lists(values, name)
    contents: Features = values.to_numpy(zero_copy_only=False)
    return contents


def _bytes_of_lists(values: pa.Array, name: str) -> Features:
    flat = values.flatten()
    _check_filled(flat, name)
    joined, ends = flat.to_numpy().tobytes(), np.cumsum(values.value_lengths().to_numpy(zero_copy_only=False))
    contents = np.empty(len(values), np.dtype(object))
    contents[:] = [joined[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]
    return contents


def texts_of(batch: pa.RecordBatch, columns: Columns) -> pa.DictionaryArray:
    """The texts of a batch, each distinct one once in the dictionary. Raises `BadData`."""
    (name,) = columns.features
    texts = batch.column(name)
    if texts.null_count:
        raise BadData(f"the column {name!r} has null values: write an empty text where there is none")
    return texts if pa.types.is_dictionary(texts.type) else texts.dictionary_encode()


def pixels_of(batch: pa.RecordBatch, columns: Columns, size: int) -> Features:
    """The pixels of each row of a batch whose bytes are raw pixels, (row, size) uint8. Raises `BadData`."""
    contents = contents_of(batch, columns)
    joined = b"".join(contents)
    if len(joined) != size * len(contents) or any(len(content) != size for content in contents):
        raise BadData(f"a row of the column {columns.features[0]!r} has another length than {size} bytes")
    return np.frombuffer(joined, np.uint8).reshape(len(contents), size)


def _pandas_index(schema: pa.Schema) -> set[str]:
    """Columns in which pandas keeps the numbers of the rows: no features, and for sorted data the label itself."""
    index = (schema.pandas_metadata or {}).get("index_columns", [])
    return {name for name in index if isinstance(name, str)}


def _text_column(fields: Mapping[str, pa.DataType], names: Sequence[str], label: str, chosen: str | None) -> str | None:
    """The name of the column of texts: the chosen one, or the only one that can be meant. None for other data."""
    if chosen is not None:
        if chosen == label:
            raise BadData(f"dataset.text: {chosen!r} is the label column: name the one of the texts")
        if chosen not in names:
            raise BadData(f"there is no column {chosen!r} (dataset.text); there are: {', '.join(names)}")
        if chosen not in fields or not is_text(fields[chosen]):
            raise BadData(f"dataset.text: the column {chosen!r} holds {fields.get(chosen, 'an index')}, not strings")
        return chosen
    texts = [name for name, type_ in fields.items() if is_text(type_)]
    if not texts or any(_is_bytes(type_) or _is_numbers(type_) for type_ in fields.values()):
        return None
    if len(texts) > 1 and _TEXT_NAME not in texts:
        raise BadData(f"several columns may hold the text: {', '.join(texts)}: name one of them in dataset.text")
    return texts[0] if len(texts) == 1 else _TEXT_NAME


def _image_column(fields: Mapping[str, pa.DataType]) -> dict[str, pa.DataType] | None:
    candidates = {name: type_ for name, type_ in fields.items() if _is_bytes(type_)}
    if len(candidates) > 1 and _IMAGE_NAME not in candidates:
        raise BadData(f"several columns may hold the image: {', '.join(candidates)}: name one of them {_IMAGE_NAME!r}")
    if len(candidates) > 1:
        return {_IMAGE_NAME: candidates[_IMAGE_NAME]}
    return candidates or None


def is_bytes_in_list(type_: pa.DataType) -> bool:
    """Whether a column has its bytes as lists of uint8, of any length."""
    return bool((pa.types.is_list(type_) or pa.types.is_large_list(type_)) and type_.value_type == pa.uint8())


def _is_bytes(type_: pa.DataType) -> bool:
    if pa.types.is_struct(type_):  # as the datasets of Hugging Face have it
        place = type_.get_field_index("bytes")
        return bool(place >= 0 and _is_bytes(type_.field(place).type))
    of_one_size = pa.types.is_fixed_size_binary(type_) and not pa.types.is_decimal(type_)
    in_one = pa.types.is_binary(type_) or pa.types.is_large_binary(type_) or of_one_size
    return bool(in_one or is_bytes_in_list(type_))


def _is_numbers(type_: pa.DataType) -> bool:
    value_type = type_.value_type if pa.types.is_fixed_size_list(type_) else type_
    return bool(pa.types.is_integer(value_type) or pa.types.is_floating(value_type) or pa.types.is_boolean(value_type))


def _is_list_of_numbers(type_: pa.DataType) -> bool:
    return bool((pa.types.is_list(type_) or pa.types.is_large_list(type_)) and _is_numbers(type_.value_type))


def _width(type_: pa.DataType) -> int:
    return type_.list_size if pa.types.is_fixed_size_list(type_) else 1


def _check_filled(values: pa.Array, name: str) -> None:
    if values.null_count:
        raise BadData(f"the column {name!r} has empty values")


def _check_finite(table: Features, columns: Columns) -> None:
    finite = np.isfinite(table).all(0)
    if finite.all():
        return
    names = [name for name in columns.features for _ in range(_width(columns.types[name]))]
    raise BadData(f"the column {names[int(finite.argmin())]!r} has values that are NaN, infinite or beyond float32")
