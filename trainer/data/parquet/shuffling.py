"""Which rows of which row group come when, from seeds and the sizes of the row groups alone. Pure.

Used by `trainer.data.parquet.windows` and `parquet_part`. The words, from the whole to the small:

Spread    all rows, sorted so that every stretch has its share of every row group; parts are cut out of it
Piece     the rows of one row group that one rank reads in one pass
Mix       pieces whose rows are mixed with each other
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from trainer.data.interfaces import Indices, SampleSchedule
from trainer.data.shuffling import Stream

Mask = NDArray[np.bool_]  # (row of a row group,): which of them are meant

_UNIT_BITS = 30  # where in the order a row comes, in units of 2 ** -30 of the whole
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2 ** 64 / the golden ratio


@dataclass(frozen=True)
class Spread:
    """All rows of a collection, sorted so that every stretch has its share of every row group.

    The rows of a row group are shuffled; its row number j of n comes (j + offset) / n of the way down the order. The
    offsets of successive row groups are multiples of the golden ratio, which are far from each other in every range.
    So a stretch that is too short for a row of each group takes one of every few. Therefore data that is sorted by
    label is split evenly, and a share of a share is part of it.
    """

    rows: Indices  # of each row group, less than 2 ** 31
    seed: int

    def __len__(self) -> int:
        return int(self.rows.sum())

    def counts(self, position: int) -> Indices:
        """How many rows of each row group are among the first `position` of the order."""
        low, high = 0, 1 << _UNIT_BITS  # the place of that position is between them
        while high - low > 1:
            middle = (low + high) // 2
            if self._counts_at(middle).sum() <= position:
                low = middle
            else:
                high = middle
        counts = self._counts_at(low)
        tied = self._counts_at(high) - counts  # at one place: in the order of the row groups
        left = position - int(counts.sum())
        found: Indices = counts + np.clip(left - (np.cumsum(tied) - tied), 0, tied)
        return found

    def shuffled(self, group: int) -> Indices:
        """The rows of a row group in the order in which `counts` counts them."""
        return np.random.default_rng((self.seed, Stream.SPLIT, group)).permutation(self.rows[group])

    def _counts_at(self, place: int) -> Indices:
        """How many rows of each row group come up to a place: those with (j + offset) / n <= place."""
        return np.minimum(((place * self.rows - self._offsets) >> _UNIT_BITS) + 1, self.rows)

    @cached_property
    def _offsets(self) -> Indices:
        numbers = np.arange(1, len(self.rows) + 1, dtype=np.uint64)
        return np.maximum((numbers * _GOLDEN) >> np.uint64(64 - _UNIT_BITS), 1).astype(np.int64)


@dataclass(frozen=True)
class Piece:
    """The rows start..stop of those that are used of a row group, in the order of a pass."""

    group: int
    start: int
    stop: int
    used_rows: int  # rows of the row group that are used at all

    @property
    def rows(self) -> int:
        """The number of its rows."""
        return self.stop - self.start


@dataclass(frozen=True)
class Stretch:
    """The rows first..last of a spread; they are read row group by row group."""

    spread: Spread
    first: int
    last: int

    def __len__(self) -> int:
        return self.last - self.first

    def pieces(self, start: int, stop: int, order: Indices | None = None) -> list[Piece]:
        """The pieces to read for the rows start..stop. The row groups come in `order` (default: as on disk)."""
        groups = np.arange(len(self.spread.rows)) if order is None else order
        used = self._counts[groups]
        ends = np.cumsum(used)
        starts = np.clip(start - (ends - used), 0, used)
        stops = np.clip(stop - (ends - used), 0, used)
        return [
            Piece(*map(int, (groups[place], starts[place], stops[place], used[place])))
            for place in np.flatnonzero(starts < stops)
        ]

    def mask(self, piece: Piece, seed: tuple[int, ...] = ()) -> Mask:
        """Which rows of its row group a piece takes; `seed` is that of the pass, in which a cut row group is shuffled.

        Without a seed it is cut as it lies on disk. The mask is made when it is needed, so the memory for a collection
        does not grow with its rows.
        """
        first = int(self._firsts[piece.group])
        used = self.spread.shuffled(piece.group)[first : first + piece.used_rows]
        if piece.rows < piece.used_rows:
            used = np.random.default_rng((*seed, piece.group)).permutation(used) if seed else np.sort(used)
        mask = np.zeros(self.spread.rows[piece.group], np.bool_)
        mask[used[piece.start : piece.stop]] = True
        return mask

    @cached_property
    def _firsts(self) -> Indices:
        return self.spread.counts(self.first)

    @cached_property
    def _counts(self) -> Indices:
        return self.spread.counts(self.last) - self._firsts


@dataclass(frozen=True)
class Pass:
    """One pass of a rank over its share of the rows that are used, `rows` in all; `seed` is that of the order."""

    stretch: Stretch
    start: int
    stop: int
    seed: tuple[int, ...]

    @property
    def rows(self) -> int:
        """How many rows it takes."""
        return self.stop - self.start

    def pieces(self) -> list[Piece]:
        """The pieces that it reads, in its order."""
        order = np.random.default_rng(self.seed).permutation(len(self.stretch.spread.rows))
        return self.stretch.pieces(self.start, self.stop, order)

    def mask(self, piece: Piece) -> Mask:
        """Which rows of its row group a piece takes."""
        return self.stretch.mask(piece, self.seed)

    def places(self, rows: int, *, mix: int, window: int, rank: int) -> Indices:
        """The place of each row in a window. Each rank shuffles in its own way."""
        generator = np.random.default_rng((*self.seed, rank, mix, window))
        return generator.permutation(rows)


def pass_of(stretch: Stretch, schedule: SampleSchedule, *, epoch: int, number: int) -> Pass:
    """A rank's pass over the used rows, those of `stretch`. It depends on the seed, the epoch and its number alone.

    `shard`: all ranks share out one order of the row groups, each taking a range; the longest has one row more than
    the shortest, and never less than an epoch takes of one pass. `steps`: each rank has an order of its own.
    """
    samples = len(stretch)
    if schedule.sharding == "steps":
        return Pass(stretch, 0, samples, (schedule.seed, Stream.RANK_ORDER, epoch, number, schedule.rank))
    start, stop = (samples * rank // schedule.ranks for rank in (schedule.rank, schedule.rank + 1))
    return Pass(stretch, start, stop, (schedule.seed, Stream.ORDER, epoch, number))


@dataclass(frozen=True)
class Mix:
    """Pieces whose rows are mixed with each other, in `windows` turns. Each turn has an equal part of every piece."""

    pieces: tuple[Piece, ...]
    windows: int

    @property
    def rows(self) -> int:
        """The number of rows in all pieces."""
        return sum(piece.rows for piece in self.pieces)


def mixes(
    pieces: Sequence[Piece], bytes_of: Sequence[int], *, groups: int, open_groups: int, rows: int, window_bytes: int
) -> Iterator[Mix]:
    """Share out pieces into mixes of at least `groups` row groups and `rows` rows; of `open_groups` if memory is short.

    `bytes_of` is what each row group takes in memory. A mix that takes more than `window_bytes` is made in windows.
    """
    mix_pieces: list[Piece] = []
    mix_rows = mix_bytes = 0
    for piece in pieces:
        is_short = mix_bytes + bytes_of[piece.group] > window_bytes
        if len(mix_pieces) >= (open_groups if is_short else groups) and (is_short or mix_rows >= rows):
            yield Mix(tuple(mix_pieces), -(-mix_bytes // window_bytes))
            mix_pieces, mix_rows, mix_bytes = [], 0, 0
        mix_pieces.append(piece)
        mix_rows += piece.rows
        mix_bytes += bytes_of[piece.group]
    if mix_pieces:
        yield Mix(tuple(mix_pieces), -(-mix_bytes // window_bytes))
