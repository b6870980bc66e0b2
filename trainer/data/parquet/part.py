"""A part of a dataset in Parquet files, streamed. Made by `trainer.data.parquet.source`."""

from collections import deque
from collections.abc import Generator, Iterator
from contextlib import closing

import numpy as np

from trainer.data.interfaces import Batch, EvaluationBatch, Indices, Labels, SampleSchedule
from trainer.data.parquet.blocks import Block, BlockReader, in_batches, mended, sound
from trainer.data.parquet.shuffling import Stretch
from trainer.data.parquet.windows import WINDOW_BYTES, windows

KEPT_BYTES = 256 * 2**20  # of the rows that this rank evaluates, encoded images as they are

_ROWS = 256  # of a batch of `rows`, at most


class ParquetPart:
    """Some rows of a collection of Parquet files."""

    def __init__(self, reader: BlockReader, stretch: Stretch, *, threads: int) -> None:
        self._reader = reader
        self._stretch = stretch
        self._threads = threads
        self._kept: dict[tuple[int, int, int], list[Block]] = {}

    def __len__(self) -> int:
        return len(self._stretch)

    @property
    def is_quick(self) -> bool:
        """See `Part.is_quick`: a batch is cut out of a window, which a thread has made; images are to be decoded."""
        return self._reader.form != "contents"

    def damage(self) -> dict[str, str]:
        """See `Part.damage`."""
        return dict(self._reader.damage)

    def train(self, schedule: SampleSchedule, *, epoch: int, first: int) -> Generator[Batch, None, None]:
        """See `Part.train`."""
        used = Stretch(self._stretch.spread, self._stretch.first, self._stretch.first + schedule.samples)
        blocks = windows(self._reader, used, schedule, epoch=epoch, first=first, threads=self._threads)
        with closing(blocks), closing(self._delivered(in_batches(blocks, schedule.per_rank))) as batches:
            yield from batches

    def evaluate(
        self, *, rank: int, ranks: int, per_rank: int, samples: int | None = None
    ) -> Generator[EvaluationBatch, None, None]:
        """See `Part.evaluate`. Each rank reads row groups of its own; damaged images and blank samples weigh 0."""
        used = self._first(samples)
        start, stop = (len(used) * number // ranks for number in (rank, rank + 1))
        with closing(self._delivered(in_batches(self._kept_blocks(used, start, stop), per_rank))) as batches:
            for _ in range(-(-len(used) // (per_rank * ranks))):
                yield self._padded(next(batches, None), per_rank)

    def rows(self, start: int, stop: int, *, of: int | None = None) -> Generator[Batch, None, None]:
        """See `Part.rows`; they come as they lie on disk."""
        blocks = in_batches(self._read(self._first(of), start, stop), _ROWS)
        yield from self._delivered(mended(block) for block in blocks)

    def _first(self, samples: int | None) -> Stretch:
        """The first samples of the part; None: all."""
        first = self._stretch.first
        return self._stretch if samples is None else Stretch(self._stretch.spread, first, first + samples)

    def _kept_blocks(self, stretch: Stretch, start: int, stop: int) -> Iterator[Block]:
        """The sound rows start..stop of a stretch. They come from memory if they are few and were read before."""
        key = (len(stretch), start, stop)
        blocks = self._kept.get(key)
        if blocks is None:
            sound_blocks = (sound(block) for block in self._read(stretch, start, stop))
            if self._bytes_of(stretch, start, stop) > KEPT_BYTES:
                return sound_blocks
            blocks = self._kept[key] = list(sound_blocks)
        return iter(blocks)

    def _bytes_of(self, stretch: Stretch, start: int, stop: int) -> int:
        groups = self._reader.groups
        pieces = ((piece, groups[piece.group]) for piece in stretch.pieces(start, stop))
        return sum(group.decoded_bytes * piece.rows // group.rows for piece, group in pieces)

    def _read(self, stretch: Stretch, start: int, stop: int) -> Generator[Block, None, None]:
        """Rows as they lie on disk."""
        for piece in stretch.pieces(start, stop):
            whole = self._reader.groups[piece.group].decoded_bytes <= WINDOW_BYTES
            with closing(self._reader.open(piece.group, whole_chunks=whole, use_threads=True)) as rows:
                yield from rows.read(stretch.mask(piece))

    def _delivered(self, blocks: Iterator[Block]) -> Generator[Batch, None, None]:
        """Blocks of one size as batches. Encoded images are decoded a few batches ahead."""
        reader = self._reader
        if reader.form != "contents":
            yield from (Batch(block.features, block.labels) for block in blocks)
            return
        from trainer.data.images import decode

        waiting: deque[Labels] = deque()  # of the batches that are being decoded; they keep their order

        def sources() -> Generator[tuple[Indices, list[bytes]], None, None]:
            for block in blocks:
                waiting.append(block.labels)
                yield block.rows, block.features.tolist()

        height, width, channel = reader.target.shape
        images = decode.decoded(
            sources(),
            kind="contents",
            shape=(height, width, channel),
            resize=reader.resize,
            threads=self._threads,
            name_of=reader.name_of,
        )
        with closing(images):
            for _, pixels in images:
                yield Batch(pixels, waiting.popleft())

    def _padded(self, batch: Batch | None, size: int) -> EvaluationBatch:
        """A batch filled up with blank samples of weight 0."""
        target, rows = self._reader.target, len(batch.labels) if batch else 0
        weights = (np.arange(size) < rows).astype(np.float32)
        if batch and rows == size:
            return EvaluationBatch(batch.features, np.asarray(batch.labels, target.label_dtype), weights)
        features = np.zeros((size, *target.shape), self._reader.dtype)
        labels = np.zeros((size, *target.label_shape), target.label_dtype)
        if batch:
            features[:rows], labels[:rows] = batch
        return EvaluationBatch(features, labels, weights)
