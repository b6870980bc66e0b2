"""Encoded images to pixels, by one tf.data pipeline.

Used by `trainer.data.images.source` and `trainer.data.parquet.source`.

Importing this module imports TensorFlow. All of it runs on the CPU, in a thread pool of its own. How images come out:

- JPEG, PNG, BMP, and the first frame of a GIF; alpha is dropped, 16 bits become 8, an EXIF orientation is not applied;
- one grey channel if one is requested, else three;
- scaled to a size bilinearly, without antialiasing. A JPEG that is at least twice as large is halved first, as often
  as it stays large enough: its decoder averages squares of pixels, which is faster and looks better.
"""

import re
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from math import prod
from threading import Lock
from typing import Any, Literal

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from trainer.data.images.headers import Damaged
from trainer.data.interfaces import Indices
from trainer.errors import BadData

Kind = Literal["paths", "contents"]
Source = str | bytes  # the path of an image, or what is in it
Sources = tuple[Indices, Sequence[Source]]  # of a batch: the tag of each image, and its source
ImageShape = tuple[int, int, int]  # (height, width, channel)
Pixels = NDArray[np.uint8]  # (image, height, width, channel), not to be written to

_GROUP_BYTES, _MOST_GROUPED = 32_768, 16


def decoded(
    batches: Iterator[Sources],
    *,
    kind: Kind,
    shape: ImageShape,
    resize: bool,
    threads: int,
    name_of: Callable[[int], str] = str,
) -> Generator[tuple[Indices, Pixels], None, None]:
    """The images of each batch, in order, beside their tags; works about two batches ahead in `threads` threads.

    Batches are of one size; only the last one may be smaller. They are drawn in another thread. An error there is
    raised here after the batches before it. Without `resize` every image must have `shape`. Raises `BadData` for an
    image that cannot be decoded, with the name that `name_of` gives its tag. Closing the generator ends the threads,
    and closes `batches`.
    """
    first = next(batches, None)
    if first is None:
        return
    decode = _decoder(kind, shape, resize=resize)
    feed = _Feed(first, batches)
    pipeline = _pipeline(feed, decode, len(first[0]), shape, threads).as_numpy_iterator()
    try:
        for tags, pixels in pipeline:
            batch, _ = feed.ahead.popleft()
            assert len(batch) == len(tags), "batches are of one size, but for the last"
            yield tags, pixels
        if feed.error is not None:
            raise feed.error
    except tf.errors.OpError as error:
        raise _with_image_name(error, feed.ahead, decode, name_of) from None
    finally:
        feed.close()


def shape_of(content: bytes) -> ImageShape:
    """The shape of one image, found by decoding it. Raises `Damaged`."""
    try:
        with tf.device("CPU:0"):
            height, width, channel = tf.io.decode_image(content, expand_animations=False).shape
    except tf.errors.OpError as error:
        raise Damaged(f"cannot be decoded: {_reason(error)}") from None
    return height, width, 1 if channel <= 2 else 3  # two are grey and alpha


class _Feed:
    """Gives batches to the pipeline, and keeps those that the pipeline still works on."""

    def __init__(self, first: Sources, rest: Iterator[Sources]) -> None:
        self.ahead: deque[Sources] = deque()
        self.error: Exception | None = None
        self._first: Sources | None = first
        self._rest = rest
        self._lock = Lock()

    def next(self, number: int) -> tuple[Indices, NDArray[Any]]:
        """The next batch, or an empty one at the end; called by the pipeline with 0, 1, 2, ..."""
        with self._lock:
            batch = self._draw()
            if batch is None:
                return np.empty(0, np.int64), np.empty(0, object)
            self.ahead.append(batch)
            return batch[0], np.array(batch[1], object)

    def _draw(self) -> Sources | None:
        first, self._first = self._first, None
        try:
            return first or next(self._rest, None)
        except Exception as error:  # the pipeline would turn it into an error of its own
            self.error = error
            return None

    def close(self) -> None:
        """Close the source, where it is a generator."""
        with self._lock:  # it cannot be closed while another thread is in it
            if isinstance(self._rest, Generator):
                self._rest.close()


def _pipeline(
    feed: _Feed, decode: Callable[[tf.Tensor], tf.Tensor], size: int, shape: ImageShape, threads: int
) -> tf.data.Dataset:
    def draw(number: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        # Stateless as far as tf.data can tell: it would run everything that follows one by one, without working
        # ahead, where ops are to be deterministic. A sequential map is deterministic, and `number` is always another.
        tags, sources = tf.numpy_function(feed.next, [number], (tf.int64, tf.string), stateful=False)
        return tf.ensure_shape(tags, [None]), tf.ensure_shape(sources, [None])

    def decode_group(tags: tf.Tensor, sources: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return tags, tf.map_fn(decode, sources, fn_output_signature=tf.TensorSpec(shape, tf.uint8))

    images = tf.data.Dataset.counter().map(draw).take_while(lambda tags, sources: tf.size(tags) > 0).unbatch()
    group = min(size, _MOST_GROUPED, _GROUP_BYTES // prod(shape))
    if group > 1:  # tf.data spends more time on an element than the decoding of a small image takes
        groups = images.batch(group).map(decode_group, num_parallel_calls=threads)
        batches = groups.rebatch(size)
    else:
        pixels = images.map(lambda tag, source: (tag, decode(source)), num_parallel_calls=threads)
        batches = pixels.batch(size, num_parallel_calls=2)  # one thread copies too slowly for 16 that decode
    options = tf.data.Options()
    options.deterministic = True
    options.autotune.enabled = False
    options.threading.private_threadpool_size = threads + 1  # one for `draw`, which may wait for a disk
    options.threading.max_intra_op_parallelism = 1
    return batches.prefetch(1).with_options(options)


def _decoder(kind: Kind, shape: ImageShape, *, resize: bool) -> Callable[[tf.Tensor], tf.Tensor]:
    """A function of TensorFlow, and of tensors: an image of `kind` -> pixels of `shape`."""

    def decode(source: tf.Tensor) -> tf.Tensor:
        content = tf.io.read_file(source) if kind == "paths" else source
        image = tf.case(
            [
                (tf.strings.substr(content, 0, 3) == b"\xff\xd8\xff", lambda: _decode_jpeg(content, shape, resize)),
                (tf.strings.substr(content, 0, 2) == b"BM", lambda: _decode_bmp(content, shape)),
            ],
            default=lambda: tf.io.decode_image(content, shape[2], expand_animations=False),
        )
        return tf.ensure_shape(_resized(image, shape) if resize else image, shape)

    return decode


def _decode_jpeg(content: tf.Tensor, shape: ImageShape, resize: bool) -> tf.Tensor:
    if not resize:
        return tf.io.decode_jpeg(content, shape[2])
    times = tf.reduce_min(tf.image.extract_jpeg_shape(content)[:2] // shape[:2])  # as large as is asked for
    ratios = (1, 2, 4, 8)
    position = tf.reduce_sum(tf.cast(times >= ratios[1:], tf.int32))
    return tf.switch_case(position, [lambda r=ratio: tf.io.decode_jpeg(content, shape[2], ratio=r) for ratio in ratios])


def _decode_bmp(content: tf.Tensor, shape: ImageShape) -> tf.Tensor:
    """A decoder that gives the channels of the file, 1, 3 or 4, and no others."""
    image = tf.io.decode_bmp(content)
    return tf.gather(image, tf.minimum(tf.range(shape[2]), tf.shape(image)[2] - 1), axis=2)


def _resized(image: tf.Tensor, shape: ImageShape) -> tf.Tensor:
    def resized() -> tf.Tensor:
        return tf.cast(tf.round(tf.image.resize(image, shape[:2])), tf.uint8)

    return tf.cond(tf.reduce_all(tf.shape(image)[:2] == shape[:2]), lambda: image, resized)


def _with_image_name(
    error: Exception,
    ahead: Sequence[Sources],
    decode: Callable[[tf.Tensor], tf.Tensor],
    name_of: Callable[[int], str],
) -> Exception:
    """Find the image that the pipeline cannot decode: its error does not say which image it was."""
    for tags, sources in ahead:
        for tag, source in zip(tags.tolist(), sources, strict=True):
            try:
                with tf.device("CPU:0"):
                    decode(tf.constant(source))
            except tf.errors.OpError as decode_error:
                return BadData(f"{name_of(tag)} cannot be decoded: {_reason(decode_error)}")
    return error


def _reason(error: tf.errors.OpError) -> str:
    """TensorFlow's message without the names of its nodes."""
    return re.sub(r"\{\{.*?\}\} ?|\[Op:.*", "", str(error.message)).strip().rstrip(".")
