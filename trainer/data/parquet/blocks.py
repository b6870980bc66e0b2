"""Rows of Parquet files as blocks of arrays, and operations on streams of blocks. For `trainer.data.parquet.part`.

Images stay encoded here: they take a tenth of the memory, and the pipeline that decodes them has its own threads.
"""

from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from trainer.data.images.headers import Damaged, check
from trainer.data.interfaces import Features, Indices, Labels, Target
from trainer.data.parquet.columns import Columns, contents_of, pixels_of, table_of, texts_of
from trainer.data.parquet.files import GroupReader, RowGroup, Store
from trainer.data.parquet.labels import labels_of
from trainer.data.texts import Encoder
from trainer.errors import BadData

T = TypeVar("T")
Form = Literal["table", "texts", "pixels", "contents"]  # the last two are bytes: of pixels, of encoded images

_MOST_DAMAGED = 0.01  # the share of rows that may be unreadable
_NAMED = 5


class Block(NamedTuple):
    """Some rows; the features of encoded images are bytes, and None where an image is damaged."""

    features: Features  # (row, ...)
    labels: Labels
    rows: Indices  # of images, their numbers in the collection

    def cut(self, start: int, stop: int) -> "Block":
        """The rows start..stop of it, as views."""
        return Block._make(values[start:stop] for values in self)

    def select(self, rows: Indices) -> "Block":
        """Some of its rows."""
        return Block._make(values[rows] for values in self)


@dataclass(frozen=True)
class BlockReader:
    """Reads blocks out of the row groups of a collection; `damage` holds the images that cannot be decoded."""

    name: str
    store: Store
    groups: Sequence[RowGroup]
    columns: Columns
    target: Target
    form: Form
    resize: bool
    damage: dict[str, str] = field(default_factory=dict)

    def open(self, number: int, *, whole_chunks: bool, use_threads: bool) -> GroupReader[Block]:
        """The rows of a row group, to be closed."""
        return GroupReader(
            self.store,
            self.groups[number],
            self.columns.projection,
            lambda batch, rows: self._block(batch, rows + self._first_rows[number]),
            is_quick=self.form in {"table", "pixels"},  # each of the others is looked at
            whole_chunks=whole_chunks,
            use_threads=use_threads,
            dictionary=self.columns.dictionary,
        )

    def blank(self, rows: int) -> Block:
        """A block to be filled."""
        shape, dtype = ((), np.dtype(object)) if self.form == "contents" else (self.target.shape, self.dtype)
        # Only images can be damaged, so that somebody asks for the number of a row.
        numbers = np.empty(rows, np.int64) if self.form == "contents" else np.broadcast_to(np.int64(-1), rows)
        labels = np.empty((rows, *self.target.label_shape), self.target.label_dtype)
        return Block(np.empty((rows, *shape), dtype), labels, numbers)

    def name_of(self, row: int) -> str:
        """The name of a row in messages, by its number in the collection."""
        number = int(np.searchsorted(self._first_rows, row, side="right")) - 1
        group = self.groups[number]
        return f"{group.file.name}: row {group.first_row + row - int(self._first_rows[number])}"

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of a decoded sample."""
        return self.columns.dtype

    @cached_property
    def _first_rows(self) -> Indices:
        rows = np.array([group.rows for group in self.groups], np.int64)
        return np.cumsum(rows) - rows

    def _block(self, batch: pa.RecordBatch, rows: Indices) -> Block:
        columns = self.columns
        column = batch.column(columns.label)
        labels = labels_of(column, columns.task, columns.label_kind, self.target, columns.label)
        shape = self.target.shape
        if self.form == "table":
            return Block(table_of(batch, self.columns).reshape(-1, *shape), labels, rows)
        if self.form == "texts":
            return Block(self._numbers_of(texts_of(batch, self.columns)), labels, rows)
        if self.form == "pixels":
            return Block(pixels_of(batch, self.columns, int(np.prod(shape))).reshape(-1, *shape), labels, rows)
        contents = contents_of(batch, self.columns)
        for place, content in enumerate(contents):
            if not self._is_sound(content, int(rows[place])):
                contents[place] = None
        return Block(contents, labels, rows)

    def _numbers_of(self, texts: pa.DictionaryArray) -> Features:
        """The numbers of the words of each text. A text that occurs often is looked at once."""
        used, rows = np.unique(texts.indices.to_numpy(), return_inverse=True)
        numbers: Features = self._encoder(texts.dictionary.take(pa.array(used)).to_pylist())[rows]
        return numbers

    @cached_property
    def _encoder(self) -> Encoder:
        return Encoder(self.target.vocabulary, self.columns.text_length)

    def _is_sound(self, content: bytes, row: int) -> bool:
        try:
            height, width = size_of(content)
        except Damaged as why:
            self._count_damage(self.name_of(row), str(why))
            return False
        if not self.resize and (height, width) != self.target.shape[:2]:
            expected = "{}x{}".format(*self.target.shape)
            raise BadData(f"row {row} has {height}x{width} pixels, others {expected}: set dataset.image_size")
        return True

    def _count_damage(self, name: str, why: str) -> None:
        self.damage[name] = why
        whole = sum(group.rows for group in self.groups)
        if len(self.damage) > _MOST_DAMAGED * whole:
            named = "; ".join(f"{name} {why}" for name, why in list(self.damage.items())[:_NAMED])
            raise BadData(f"at least {len(self.damage)} of {whole} images are damaged, more than 1 %: {named}")


def size_of(content: bytes) -> tuple[int, int]:
    """(height, width) of an encoded image. Raises `Damaged`."""
    header = check(content)
    if not header.suspect:
        return header.height, header.width
    from trainer.data.images import decode

    height, width, _ = decode.shape_of(content)
    return height, width


def sound(block: Block) -> Block:
    """A block without its damaged rows."""
    if block.features.dtype != object:
        return block
    return block.select(np.flatnonzero([content is not None for content in block.features]))


def mended(block: Block) -> Block:
    """A block in which each damaged row is replaced by the next sound one. Raises `BadData` if there is none."""
    if block.features.dtype != object:
        return block
    places = np.flatnonzero([content is not None for content in block.features])
    if len(places) == len(block.rows):
        return block
    if not len(places):
        raise BadData(f"none of {len(block.rows)} successive images can be read")
    following = np.searchsorted(places, np.arange(len(block.rows))) % len(places)
    return block.select(places[following])


def in_batches(blocks: Iterator[Block], size: int) -> Iterator[Block]:
    """The same rows in blocks of `size`; the last one may be smaller. Most are views, and no row is copied twice."""
    waiting: list[Block] = []
    waiting_rows = 0
    for block in blocks:
        at = 0
        while waiting_rows + len(block.rows) - at >= size:
            until = at + size - waiting_rows
            yield _joined([*waiting, block.cut(at, until)])
            at, waiting, waiting_rows = until, [], 0
        if at < len(block.rows):
            waiting.append(block.cut(at, len(block.rows)))
            waiting_rows += len(block.rows) - at
    if waiting:
        yield _joined(waiting)


def _joined(blocks: Sequence[Block]) -> Block:
    return blocks[0] if len(blocks) == 1 else Block._make(map(np.concatenate, zip(*blocks, strict=True)))


def one_ahead(items: Generator[T, None, None]) -> Generator[T, None, None]:
    """The same items, each made by a thread while the one before is in use: there are two of them at a time."""
    with ThreadPoolExecutor(1, thread_name_prefix="parquet") as thread:
        next_item = thread.submit(next, items, None)
        try:
            while (item := next_item.result()) is not None:
                next_item = thread.submit(next, items, None)
                yield item
        finally:
            wait([next_item])  # a generator that runs cannot be closed
            items.close()
