"""A rank's survey of Parquet files before training. Used by `trainer.data.parquet.source`.

Every rank counts the labels in its share of the row groups, and reads no other column for that. It also looks at their
first rows. The form of the features and their normalization must be the same everywhere, so they come from the first
rank alone. The first row group is in its share.

The words of texts are counted by all ranks. Which texts those are depends on the files alone, and no count is rounded.
So the sum is the same on any number of ranks.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from trainer.data.classes import MOST_CLASSES
from trainer.data.images.headers import Damaged, check
from trainer.data.interfaces import Shape, Sums, Survey
from trainer.data.moments import Moments
from trainer.data.parquet.columns import Columns, contents_of, is_bytes_in_list, table_of, texts_of
from trainer.data.parquet.files import GroupReader, RowGroup, Store
from trainer.data.parquet.labels import count_labels, targets_of
from trainer.data.parquet.shuffling import Mask
from trainer.data.pixels import CHANNELS, if_pixels, why_no_image
from trainer.data.texts import check_words, count_words
from trainer.errors import BadData

_LOOKED_AT = 16  # images
_MEASURED_GROUPS, _MEASURED_ROWS = 8, 8192  # of a table, for its normalization; rows of each row group
_COUNTED_BYTES, _COUNTED_GROUPS = 128 * 2**20, 64  # of larger texts, for the vocabulary


def surveyed(
    store: Store,
    columns: Columns,
    groups: Sequence[RowGroup],
    *,
    name: str,
    image_size: tuple[int, int] | None,
    rank: int,
    ranks: int,
    has_vocabulary: bool = True,
) -> Survey:
    """The survey of a rank's share of the row groups. The words of texts are counted where they make the vocabulary.

    Raises `BadData`.
    """
    own_groups = groups[rank::ranks]
    survey = Survey(
        samples=sum(group.rows for group in own_groups),
        label_kind="string" if columns.label_kind == "string" else "integer",
    )
    if columns.task == "regression":
        survey.moments = _label_moments(store, columns, groups, rank=rank, ranks=ranks)
    else:
        survey.labels = _label_counts(store, columns, own_groups, name=name)
    if columns.kind == "text" and has_vocabulary:
        survey.words = _word_counts(store, columns, counted_rows(groups)[rank::ranks], name=name)
    if not own_groups:
        return survey
    if columns.kind == "table":
        survey.shapes = [_table_shape(columns.width, image_size, name=name)]
        survey.details = _measured(store, columns, groups, is_image=image_size is not None) if rank == 0 else {}
    elif columns.kind == "text":
        if image_size is not None:
            raise BadData(f"dataset.image_size: the samples of {name} are texts: leave it out")
        survey.shapes = [(columns.text_length,)]
        survey.details = {"dtype": columns.dtype.name, "form": "texts"}
    else:
        survey.shapes, form = _looked_at(store, columns, own_groups[0], image_size)
        survey.details = {
            "dtype": "uint8",
            "value_range": [0.0, 255.0],
            "form": form,
            "encoded": form == "contents",
        }
    return survey


def shape_of(survey: Survey, image_size: tuple[int, int] | None, *, name: str) -> Shape:
    """The shape of every sample once it is read, by the survey of all ranks. Raises `BadData`."""
    if survey.details["form"] != "contents":
        return survey.shapes[0]
    channel = max(shape[2] for shape in survey.shapes)
    return *survey.size_of(image_size, name=name), channel


def _label_counts(store: Store, columns: Columns, groups: Sequence[RowGroup], *, name: str) -> dict[str, int]:
    """How often each label occurs."""
    times: Counter[str] = Counter()

    def count(batch: pa.RecordBatch, rows: Any) -> None:
        count_labels(batch.column(columns.label), columns.task, columns.label_kind, columns.label, times)

    dictionary = [name for name in columns.dictionary if name == columns.label]
    for group in groups:
        with closing(GroupReader(store, group, [columns.label], count, dictionary=dictionary)) as reader:
            for _ in reader.read(np.ones(group.rows, np.bool_)):
                if len(times) > MOST_CLASSES:  # stop early, for example in a column of row numbers
                    what = f"different labels in the column {columns.label!r}: is it a label?"
                    raise BadData(f"{name}: more than {MOST_CLASSES} {what}")
    return dict(times)


def _label_moments(
    store: Store, columns: Columns, groups: Sequence[RowGroup], *, rank: int, ranks: int
) -> dict[str, Sums]:
    """The moments of the numbers to learn in each row group of this rank, by its number among all."""
    found: dict[str, Sums] = {}
    for number in range(rank, len(groups), ranks):
        moments = Moments()

        def add(batch: pa.RecordBatch, rows: Any, moments: Moments = moments) -> None:
            if len(batch):
                moments.add(targets_of(batch.column(columns.label), columns.label))

        with closing(GroupReader(store, groups[number], [columns.label], add)) as reader:
            for _ in reader.read(np.ones(groups[number].rows, np.bool_)):
                pass
        found[str(number)] = moments.sums
    return found


def counted_rows(groups: Sequence[RowGroup]) -> list[tuple[RowGroup, Mask]]:
    """The row groups and rows whose words are counted: all, or 128 MiB of rows that are spread over all of them."""
    if sum(group.text_bytes for group in groups) <= _COUNTED_BYTES:
        return [(group, np.ones(group.rows, np.bool_)) for group in groups]
    numbers = np.unique(np.linspace(0, len(groups) - 1, _COUNTED_GROUPS).round().astype(int))
    chosen = [groups[number] for number in numbers]
    share = _COUNTED_BYTES / len(chosen)
    return [(group, _spread(group.rows, max(1, int(group.rows * share / group.text_bytes)))) for group in chosen]


def _word_counts(
    store: Store, columns: Columns, counted: Sequence[tuple[RowGroup, Mask]], *, name: str
) -> dict[str, int]:
    """How often each word occurs in some rows of row groups."""
    times: Counter[str] = Counter()

    def count(batch: pa.RecordBatch, rows: Any) -> None:
        texts = texts_of(batch, columns)
        used, occurrences = np.unique(texts.indices.to_numpy(), return_counts=True)
        distinct = texts.dictionary.take(pa.array(used)).to_pylist()
        count_words(times, distinct, occurrences.tolist(), length=columns.text_length)

    for group, mask in counted:
        texts = list(columns.features)
        with closing(GroupReader(store, group, texts, count, dictionary=texts)) as reader:
            for _ in reader.read(mask):
                check_words(times, name=name)
    return dict(times)


def _table_shape(width: int, image_size: tuple[int, int] | None, *, name: str) -> Shape:
    if image_size is None:
        return (width,)
    height, across = image_size
    channel, rest = divmod(width, height * across)
    if rest or channel not in CHANNELS:
        why = why_no_image({width}, image_size, unit="numbers")
        raise BadData(f"dataset.image_size: a row of {name} is no such image: {why}")
    return height, across, channel


def _looked_at(
    store: Store, columns: Columns, group: RowGroup, image_size: tuple[int, int] | None
) -> tuple[list[Shape], str]:
    """The distinct shapes of the first images of a row group, and whether their bytes are encoded images or pixels."""
    reader = GroupReader(store, group, columns.projection, lambda batch, rows: contents_of(batch, columns))
    with closing(reader):
        contents = np.concatenate(list(reader.read(np.ones(min(group.rows, _LOOKED_AT), np.bool_))))
    shapes: list[Shape] = []
    first_damage = ""
    for content in contents:
        try:
            header = check(content)
        except Damaged as damaged:
            first_damage = first_damage or str(damaged)
        else:
            shapes.append((header.height, header.width, header.channel))
    if shapes:
        return sorted(set(shapes)), "contents"
    lengths = {len(content) for content in contents}
    for channel in CHANNELS:
        if image_size is not None and lengths == {image_size[0] * image_size[1] * channel}:
            return [(*image_size, channel)], "pixels"
    if image_size is None and len(lengths) == 1 and is_bytes_in_list(columns.types[columns.features[0]]):
        return [(*lengths,)], "pixels"  # a row of a table
    why = why_no_image(lengths, image_size, unit="bytes")
    raise BadData(
        f"{group.name}: its first value of the column {columns.features[0]!r} {first_damage}; {if_pixels(image_size)}: "
        f"{why}"
    )


def _measured(store: Store, columns: Columns, groups: Sequence[RowGroup], *, is_image: bool) -> dict[str, Any]:
    """The mean and deviation of each column of a table, from rows that are spread over all of it."""
    details: dict[str, Any] = {"dtype": columns.dtype.name, "form": "table"}
    if columns.dtype == np.uint8:
        return details | {"value_range": [0.0, 255.0]}
    moments = Moments()
    low, high = np.inf, -np.inf
    for number in np.unique(np.linspace(0, len(groups) - 1, _MEASURED_GROUPS).round().astype(int)):
        for values in _spread_rows(store, columns, groups[number]):
            moments.add(values)
            low, high = min(low, values.min()), max(high, values.max())
    if is_image and low < high:
        return details | {"value_range": [float(low), float(high)]}
    return details | {"normalization": moments.normalization()}


def _spread_rows(store: Store, columns: Columns, group: RowGroup) -> Iterator[NDArray[np.float64]]:
    """Rows of a row group at equal distances, (row, value), some at a time."""
    reader = GroupReader(store, group, columns.projection, lambda batch, rows: table_of(batch, columns))
    with closing(reader):
        for values in reader.read(_spread(group.rows, _MEASURED_ROWS)):
            yield values.astype(np.float64)


def _spread(rows: int, selected: int) -> Mask:
    """So many rows at equal distances, or all."""
    mask = np.zeros(rows, np.bool_)
    mask[np.linspace(0, rows - 1, min(rows, selected)).round().astype(int)] = True
    return mask
