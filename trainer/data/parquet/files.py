"""Parquet files on any filesystem: found, opened, and read row group by row group.

Used by `trainer.data.parquet.source*`.
"""

import errno
import os
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from jobs.model.os_errors import without_paths
from jobs.model.tasks import AnyTask
from jobs.runtime.files import open_regular, path_of
from trainer.data.cache import DiskCache
from trainer.data.interfaces import Indices
from trainer.data.parquet.columns import Columns, columns_of
from trainer.data.parquet.shuffling import Mask
from trainer.errors import BadData

T = TypeVar("T")

_BATCH_BYTES, _BATCH_ROWS = 4 * 2**20, 65_536  # converted at once: so much nearly fits the processor's cache
_BUFFER_BYTES, _LEAST_BUFFER_BYTES = 2 * 2**20, 2**16  # of a file whose column chunks are too large to be read whole
_OBJECT_BYTES = 60  # of a row's bytes in Python, beside the bytes themselves
_MOST_ROWS = 2**31  # of a row group
_FOOTERS = 16  # of files that are kept
_GONE = (errno.ENOENT, errno.EACCES, errno.EISDIR, errno.ENOTDIR)


@dataclass(frozen=True)
class File:
    """A Parquet file. `path` has the form of its filesystem; `name` is for messages."""

    path: str
    name: str
    size_bytes: int


@dataclass(frozen=True)
class RowGroup:
    """A row group that holds rows."""

    file: File
    number: int  # in the file
    rows: int
    first_row: int  # in the file
    decoded_bytes: int  # of its features in memory, about
    text_bytes: int = 0  # of its texts

    @property
    def name(self) -> str:
        """Its name in messages."""
        return f"row group {self.number} of {self.file.name}"


@dataclass(frozen=True)
class Store:
    """The place of the files: a filesystem of fsspec, and with `cache: disk` the copies on local disk."""

    filesystem: Any
    cache: DiskCache | None

    @property
    def is_local(self) -> bool:
        """Whether the paths are paths of this host."""
        protocol = self.filesystem.protocol
        return "file" in ((protocol,) if isinstance(protocol, str) else protocol)

    @contextmanager
    def opened(self, file: File, *, buffer_bytes: int = 0, **options: Any) -> Iterator[Any]:
        """A file as a `pyarrow.parquet.ParquetFile`; column chunks are read whole, or through buffers of a size."""
        options["buffer_size"] = buffer_bytes
        with ExitStack() as stack:
            if self.cache is not None:
                source: Any = stack.enter_context(self.cache.open(self.filesystem, file.path))
            elif self.is_local:
                descriptor = open_regular(file.path)
                stack.callback(os.close, descriptor)
                source, status = path_of(descriptor), os.fstat(descriptor)
                options["metadata"] = _footer(file.path, status.st_mtime_ns, status.st_size)
            else:
                source = stack.enter_context(self.filesystem.open(file.path, "rb", cache_type="none"))
                options["pre_buffer"] = not buffer_bytes  # neighbouring column chunks in one request
            yield stack.enter_context(pq.ParquetFile(source, **options))


@lru_cache(_FOOTERS)
def _footer(path: str, modified_ns: int, size_bytes: int) -> Any:
    """The footer of a file on this host. Parsing it takes a tenth of the time of reading a row group."""
    with open(open_regular(path), "rb") as file:
        return pq.read_metadata(file)


@contextmanager
def name_errors(name: str) -> Iterator[None]:
    """Put a name before the text of `BadData`. Turn Arrow's errors about a damaged file into `BadData`.

    An error of the system, such as a failed network, stays as it is: a restart may help.
    """
    try:
        yield
    except MemoryError:
        raise
    except BadData as error:
        raise BadData(f"{name}: {error}") from None
    except (pa.ArrowException, ValueError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None and error.errno not in _GONE:
            raise
        why = getattr(error, "strerror", None) or without_paths(" ".join(str(error).split()))
        raise BadData(f"{name} cannot be read: {why}") from error


def open_files(
    store: Store, files: Sequence[File], *, label: str, threads: int, task: AnyTask = "auto", text: str | None = None,
    text_length: int = 256,
) -> tuple[Columns, list[RowGroup]]:  # fmt: skip
    """The columns of files, which all must have, and all their row groups with rows. Raises `BadData`."""
    with name_errors(files[0].name), store.opened(files[0]) as file:
        columns = columns_of(file.schema_arrow, label, task, text=text, text_length=text_length)
    with ThreadPoolExecutor(threads) as pool:
        groups_of_files = list(pool.map(lambda file: _row_groups(store, file, columns), files))
    return columns, [group for groups in groups_of_files for group in groups]


def _row_groups(store: Store, file: File, columns: Columns) -> list[RowGroup]:
    with name_errors(file.name), store.opened(file) as opened:
        text = columns.features[0] if columns.kind == "text" else None
        _check_columns(columns_of(opened.schema_arrow, columns.label, columns.task, text=text), columns)
        metadata, groups, first_row = opened.metadata, [], 0
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            if group.num_rows >= _MOST_ROWS:
                raise BadData(f"row group {number} has {group.num_rows} rows: write smaller row groups")
            if group.num_rows:
                groups.append(RowGroup(file, number, group.num_rows, first_row, *_bytes_of(group, columns)))
            first_row += group.num_rows
    return groups


def _check_columns(columns: Columns, expected: Columns) -> None:
    if columns.label_kind != expected.label_kind:
        raise BadData(f"the label column {columns.label!r} holds another kind of labels than in the first file")
    for name in [*expected.types, *columns.types]:
        here, there = columns.types.get(name), expected.types.get(name)
        if here != there:
            raise BadData(f"the column {name!r} is {here or 'missing'}, and {there or 'missing'} in the first file")


def _bytes_of(group: Any, columns: Columns) -> tuple[int, int]:
    """The size of a row group's features in memory, and that of its texts.

    Bytes and texts take about their uncompressed size in the file. Texts are read before they become numbers.
    """
    rows: int = group.num_rows
    of_numbers = rows * columns.width * columns.dtype.itemsize
    if columns.kind == "table":
        return of_numbers, 0
    chunks = [group.column(place) for place in range(group.num_columns)]
    in_file: int = sum(
        chunk.total_uncompressed_size
        for chunk in chunks
        if f"{chunk.path_in_schema}.".startswith(f"{columns.projection[1]}.")  # of a list its elements
    )
    objects = in_file + rows * _OBJECT_BYTES
    return (max(of_numbers, objects), objects) if columns.kind == "text" else (objects, 0)


class GroupReader(Generic[T]):
    """The rows of one row group in their order, a stretch at a time; opened at the first and to be closed.

    `convert` turns a batch of rows, with their numbers in the row group, into the result. It `is_quick` if that takes
    less time than to leave out a few rows first. With `use_threads` all threads of Arrow decode the columns: for a
    caller that reads one row group at a time.
    """

    def __init__(
        self,
        store: Store,
        group: RowGroup,
        columns: Sequence[str],
        convert: Callable[[pa.RecordBatch, Indices], T],
        *,
        is_quick: bool = False,
        whole_chunks: bool = True,
        use_threads: bool = True,
        dictionary: Sequence[str] = (),
    ) -> None:
        self._group = group
        self._convert = convert
        self._is_quick = is_quick
        self._next_row = 0
        self._batches = self._read_batches(store, list(columns), whole_chunks, use_threads, list(dictionary))
        self._rest: pa.RecordBatch | None = None

    def read(self, mask: Mask) -> Iterator[T]:
        """Those of the next rows that the mask selects. Raises `BadData`."""
        for read, _ in self._read(mask, with_others=False):
            yield read

    def read_most(self, mask: Mask) -> Iterator[tuple[T, Mask]]:
        """Like `read`, with a mask. If most rows are selected and that is quicker, all come; the mask selects."""
        return self._read(mask, with_others=self._is_quick)

    def _read(self, mask: Mask, *, with_others: bool) -> Iterator[tuple[T, Mask]]:
        with name_errors(self._group.name):
            at = 0
            while at < len(mask):
                batch = self._take(len(mask) - at)
                chosen = mask[at : at + len(batch)]
                if chosen.any():
                    yield self._converted(batch, chosen, with_others=with_others)
                at += len(batch)
                self._next_row += len(batch)
            if self._next_row == self._group.rows:
                self.close()

    def _converted(self, batch: pa.RecordBatch, chosen: Mask, *, with_others: bool) -> tuple[T, Mask]:
        rows = np.arange(self._next_row, self._next_row + len(batch))
        chosen_count = np.count_nonzero(chosen)
        if chosen_count == len(batch) or (with_others and chosen_count > len(batch) / 2):
            with suppress(BadData):  # the row may be one that is not selected
                return self._convert(batch, rows), chosen
        return self._convert(batch.filter(pa.array(chosen)), rows[chosen]), np.ones(chosen_count, np.bool_)

    def close(self) -> None:
        """Close the file."""
        self._batches.close()

    def _take(self, rows: int) -> pa.RecordBatch:
        """The next rows, at most so many of them."""
        batch = self._rest if self._rest is not None else next(self._batches, None)
        if batch is None:
            raise BadData("it ends early: was the file changed?")
        self._rest = batch.slice(rows) if len(batch) > rows else None
        return batch.slice(0, rows)

    def _read_batches(
        self, store: Store, columns: list[str], whole_chunks: bool, use_threads: bool, dictionary: list[str]
    ) -> Generator[pa.RecordBatch, None, None]:
        group = self._group
        batches = max(1, round(group.decoded_bytes / _BATCH_BYTES), -(-group.rows // _BATCH_ROWS))
        size = -(-group.rows // batches)  # all the same: a small one takes as long as a large one
        buffer_bytes = 0 if whole_chunks else max(_LEAST_BUFFER_BYTES, _BUFFER_BYTES // len(columns))
        with store.opened(group.file, buffer_bytes=buffer_bytes, read_dictionary=dictionary) as file:
            metadata = file.metadata
            if group.number >= metadata.num_row_groups or metadata.row_group(group.number).num_rows != group.rows:
                raise BadData("it has another number of rows than before: was the file changed?")
            yield from file.iter_batches(size, row_groups=[group.number], columns=columns, use_threads=use_threads)
