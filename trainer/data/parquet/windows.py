"""The training rows of a rank in windows: shuffled well, read once, in bounded memory. For `trainer.data.parquet.part`.

A window is some 16 row groups of this rank's share, or a slice of each if they are large. Its rows are put down in
random order as they are read. So sorted data is mixed, and each row is copied twice. Data of any size needs the memory
of two windows: a thread reads the next window while the steps take batches out of this one, and another thread shuffles
the numbers for the one after it. A window depends on the seed and its number alone. So a run that continues in the
middle of an epoch skips the windows before without reading them.
"""

from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from itertools import count, groupby
from operator import attrgetter

import numpy as np

from trainer.data.interfaces import Features, Indices, SampleSchedule
from trainer.data.parquet.blocks import Block, BlockReader, mended, one_ahead
from trainer.data.parquet.files import GroupReader
from trainer.data.parquet.shuffling import Mask, Mix, Pass, Stretch, mixes, pass_of

WINDOW_BYTES = 128 * 2**20
MIXED_GROUPS = 16
LEAST_OPEN_GROUPS = 4

_READERS = 2  # for each thread of the processor: some wait for a disk, or for Python's lock
_PAGE_BYTES = 2**20  # a page of a column in most files; a row group that is read in slices has so much in memory
_PAGES_BYTES = 256 * 2**20


def windows(
    reader: BlockReader, stretch: Stretch, schedule: SampleSchedule, *, epoch: int, first: int, threads: int
) -> Generator[Block, None, None]:
    """A rank's rows of every step from `first` of `epoch` on, without end; no window reaches into the next epoch.

    `stretch` has the used rows of all ranks. Damaged images are replaced by others of the same window.
    """
    _warn_of_large_groups(reader)
    with ThreadPoolExecutor(_READERS * threads, thread_name_prefix="parquet") as pool:
        maker = _Maker(reader, stretch, schedule, pool, threads)
        with closing(one_ahead(maker.windows(epoch, first))) as made:
            yield from made


@dataclass(frozen=True)
class _Window:
    """The plan of a window: what to read for it, the place of each row, and the rows to use."""

    readers: Sequence[GroupReader[Block]]  # of its mix
    masks: Sequence[Mask]  # of each reader's next rows
    places: Indices
    start: int
    stop: int


@dataclass(frozen=True)
class _Maker:
    reader: BlockReader
    stretch: Stretch
    schedule: SampleSchedule
    pool: ThreadPoolExecutor
    threads: int  # of the processor that are this rank's

    def windows(self, epoch: int, first: int) -> Generator[Block, None, None]:
        """See `windows`. The files of a mix are open from its first window to its last."""
        with closing(one_ahead(self._windows(epoch, first))) as unread_windows:
            for readers, windows_of_mix in groupby(unread_windows, key=attrgetter("readers")):
                with ExitStack() as stack:
                    for reader in readers:
                        stack.enter_context(closing(reader))
                    for window in windows_of_mix:
                        block = self._filled(window)
                        if window.start < window.stop:
                            yield mended(block).cut(window.start, window.stop)

    def _windows(self, epoch: int, first: int) -> Generator[_Window, None, None]:
        """The windows from step `first` of `epoch` on; those of an epoch have no more rows than its steps take."""
        for number in count(epoch):
            rows = (self.schedule.steps - first) * self.schedule.per_rank
            windows_of_passes = self._passes(number, first * self.schedule.per_rank)
            while rows > 0:
                window = next(windows_of_passes)
                window = replace(window, stop=min(window.stop, window.start + rows))
                rows -= window.stop - window.start
                yield window
            first = 0

    def _passes(self, epoch: int, skip: int) -> Iterator[_Window]:
        """The windows of one pass of an epoch after the other, without the first `skip` rows."""
        bytes_of = [group.decoded_bytes for group in self.reader.groups]
        for number in count():
            current_pass = pass_of(self.stretch, self.schedule, epoch=epoch, number=number)
            assert current_pass.rows, "a rank without a row would look for one for ever"
            if skip < current_pass.rows:
                mixes_of_pass = mixes(
                    current_pass.pieces(),
                    bytes_of,
                    groups=MIXED_GROUPS,
                    open_groups=self._open_groups(),
                    rows=self.schedule.shuffle_buffer,
                    window_bytes=WINDOW_BYTES,
                )
                for place, mix in enumerate(mixes_of_pass):
                    if skip < mix.rows:
                        yield from self._mixed(current_pass, mix, place, skip)
                    skip = max(0, skip - mix.rows)
            else:
                skip -= current_pass.rows

    def _open_groups(self) -> int:
        """How many row groups are read in slices at once."""
        of_pages = _PAGES_BYTES // (_PAGE_BYTES * len(self.reader.columns.projection))
        return min(MIXED_GROUPS, max(LEAST_OPEN_GROUPS, of_pages))

    def _mixed(self, current_pass: Pass, mix: Mix, number: int, skip: int) -> Iterator[_Window]:
        """The windows of a mix without its first `skip` rows. In a skipped window the readers only move on."""
        whole = mix.windows == 1
        alone = len(mix.pieces) < self.threads  # else each row group has a thread of its own
        readers = [self.reader.open(piece.group, whole_chunks=whole, use_threads=alone) for piece in mix.pieces]
        masks = [current_pass.mask(piece) for piece in mix.pieces]
        for window in range(mix.windows):
            window_masks = [_slice(mask, window, mix.windows) for mask in masks]
            rows = sum(map(np.count_nonzero, window_masks))
            if skip < rows:
                places = current_pass.places(rows, mix=number, window=window, rank=self.schedule.rank)
                yield _Window(readers, window_masks, places, skip, rows)
            else:
                yield _Window(readers, [np.zeros_like(mask) for mask in window_masks], np.arange(0), 0, 0)
            skip = max(0, skip - rows)

    def _filled(self, window: _Window) -> Block:
        """A block of the next selected rows of all readers, which read at the same time. Each row goes to its place."""
        rows = len(window.places)
        block = self.reader.blank(rows + 1)  # the last place is for rows that are not selected
        shares = np.split(window.places, np.cumsum([np.count_nonzero(mask) for mask in window.masks])[:-1])
        reads = zip(window.readers, window.masks, shares, strict=True)
        futures = [self.pool.submit(_fill, block, *read) for read in reads]
        wait(futures)  # for all, also if one has failed: no file may be closed while another thread reads it
        for future in futures:
            future.result()
        return block.cut(0, rows)


def _slice(mask: Mask, window: int, windows: int) -> Mask:
    """The rows of a row group that are in a window."""
    start, stop = (len(mask) * number // windows for number in (window, window + 1))
    return mask[start:stop]


def _fill(block: Block, reader: GroupReader[Block], mask: Mask, places: Indices) -> None:
    """Put each selected row at its place, and all other rows that were read at the last place."""
    features = _in_one_piece(block.features)
    at = 0
    for read_block, chosen in reader.read_most(mask):
        targets = np.full(len(chosen), len(features) - 1)
        share = places[at : at + np.count_nonzero(chosen)]
        targets[chosen] = share
        features[targets] = _in_one_piece(read_block.features)
        block.labels[targets] = read_block.labels
        if block.rows.flags.writeable:
            block.rows[targets] = read_block.rows
        at += len(share)


def _in_one_piece(values: Features) -> Features:
    """A view in which a row is a single item: NumPy moves those twice as fast as rows of numbers."""
    if values.ndim == 1:
        return values
    return values.reshape(len(values), -1).view(np.dtype((np.void, values[:1].nbytes))).ravel()


def _warn_of_large_groups(reader: BlockReader) -> None:
    largest = max(reader.groups, key=lambda group: group.decoded_bytes)
    if largest.decoded_bytes > WINDOW_BYTES:
        print(
            f"{largest.name} takes {largest.decoded_bytes / 1e6:.0f} MB in memory: rows are mixed with those of the "
            f"same {WINDOW_BYTES / 1e6:.0f} MB only; smaller row groups shuffle better",
            flush=True,
        )
