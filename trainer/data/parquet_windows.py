"""The training rows of a rank in windows: shuffled well, read once, in bounded memory. For `trainer.data.parquet_part`.

A window is some 16 row groups of this rank's share, or a slice of each of them where they are large, whose rows are put
down in random order as they are read. So data that lies sorted is mixed, each row is copied twice, and the memory
is that of two windows, whatever the size of the data: a thread reads the next one while the steps take batches out of
this one. A window comes from the seed and its number alone: to go on in the middle of an epoch, those before are
passed over unread.
"""

from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import count

import numpy as np

from trainer.data.parquet_blocks import Block, BlockReader, first_rows, mended, one_ahead
from trainer.data.parquet_files import GroupReader
from trainer.data.parquet_order import Mask, Mix, Pass, Stretch, mixes, pass_of
from trainer.data.parts import Draw, Features, Indices

WINDOW_BYTES = 128 * 2**20
MIXED_GROUPS = 16
LEAST_OPEN_GROUPS = 4

_PAGE_BYTES = 2**20  # of a column, as most writers have it: what is in memory of a row group that is read in slices
_PAGES_BYTES = 256 * 2**20


def windows(
    reader: BlockReader, stretch: Stretch, draw: Draw, *, epoch: int, first: int, threads: int
) -> Generator[Block, None, None]:
    """A rank's rows of every step from `first` of `epoch` on, without end; no window reaches into the next epoch.

    `stretch` are the rows that are used, of all ranks. Damaged images are replaced by others of the same window.
    """
    _warn_of_large_groups(reader)
    with ThreadPoolExecutor(threads, thread_name_prefix="parquet") as pool:
        maker = _Maker(reader, stretch, draw, pool)
        with closing(one_ahead(maker.windows(epoch, first))) as made:
            yield from made


@dataclass(frozen=True)
class _Maker:
    reader: BlockReader
    stretch: Stretch
    draw: Draw
    pool: ThreadPoolExecutor

    def windows(self, epoch: int, first: int) -> Generator[Block, None, None]:
        """See `windows`."""
        draw = self.draw
        for number in count(epoch):
            yield from first_rows(self._passes(number, first * draw.per_rank), (draw.steps - first) * draw.per_rank)
            first = 0

    def _passes(self, epoch: int, skip: int) -> Generator[Block, None, None]:
        """The windows of one pass of an epoch after the other, without the first `skip` rows."""
        bytes_of = [group.decoded_bytes for group in self.reader.groups]
        for number in count():
            one = pass_of(self.stretch, self.draw, epoch=epoch, number=number)
            assert one.rows, "a rank without a row would look for one for ever"
            if skip < one.rows:
                parts = mixes(
                    one.pieces(),
                    bytes_of,
                    groups=MIXED_GROUPS,
                    open_groups=self._open_groups(),
                    rows=self.draw.shuffle_buffer,
                    window_bytes=WINDOW_BYTES,
                )
                for place, mix in enumerate(parts):
                    if skip < mix.rows:
                        yield from self._mixed(one, mix, place, skip)
                    skip = max(0, skip - mix.rows)
            else:
                skip -= one.rows

    def _open_groups(self) -> int:
        """How many row groups are read in slices at once."""
        of_pages = _PAGES_BYTES // (_PAGE_BYTES * len(self.reader.columns.projection))
        return min(MIXED_GROUPS, max(LEAST_OPEN_GROUPS, of_pages))

    def _mixed(self, one: Pass, mix: Mix, number: int, skip: int) -> Iterator[Block]:
        """The windows of a mix without its first `skip` rows; their files are open from the first to the last."""
        whole = mix.windows == 1
        with ExitStack() as stack:
            opened = [self.reader.open(piece.group, whole_chunks=whole) for piece in mix.pieces]
            readers = [stack.enter_context(closing(reader)) for reader in opened]
            masks = list(self.pool.map(one.mask, mix.pieces))
            for window in range(mix.windows):
                meant = [_slice(mask, window, mix.windows) for mask in masks]
                rows = sum(map(np.count_nonzero, meant))
                if skip < rows:
                    places = one.places(rows, mix=number, window=window, rank=self.draw.rank)
                    yield mended(self._filled(readers, meant, places)).cut(skip, rows)
                else:
                    self._filled(readers, [np.zeros_like(mask) for mask in meant], np.arange(0))
                skip = max(0, skip - rows)

    def _filled(self, readers: Sequence[GroupReader[Block]], masks: Sequence[Mask], places: Indices) -> Block:
        """A block of the next rows that are meant of all readers, which read at once; each row comes to its place."""
        block = self.reader.blank(len(places))
        shares = np.split(places, np.cumsum([np.count_nonzero(mask) for mask in masks])[:-1])
        filling = [self.pool.submit(_fill, block, *of_one) for of_one in zip(readers, masks, shares, strict=True)]
        wait(filling)  # for all, also when one has failed: nobody may close a file in which another thread reads
        for filled in filling:
            filled.result()
        return block


def _slice(mask: Mask, window: int, windows: int) -> Mask:
    """Of the rows of a row group those that are in a window."""
    start, stop = (len(mask) * number // windows for number in (window, window + 1))
    return mask[start:stop]


def _fill(block: Block, reader: GroupReader[Block], mask: Mask, places: Indices) -> None:
    at = 0
    for read in reader.read(mask):
        here = places[at : at + len(read.rows)]
        for values, filled in zip(read, block, strict=True):
            _in_one_piece(filled)[here] = _in_one_piece(values)
        at += len(here)


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
