"""The sides of `bench.input`, each run in a process of its own: `python -m bench.readers SIDE FOLDER`.

A side reads what `bench.input` has written below the folder and prints its figures as JSON. All sides have all cores
of this machine. Rates are samples/s, counted from the first request.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow.parquet as pq

from bench.datasets import COLUMNS, LABEL
from jobs.model.spec import Spec, spec_from
from trainer.data.interfaces import Batch, Host
from trainer.data.opening import Dataset, open_source
from trainer.plan import settle_plan, steps_of

TABLE_PASSES, TFRECORD_PASSES, IMAGE_PASSES, EPOCHS = 10, 5, 3, 3
ROWS_ONE_BY_ONE = 20_000
_BATCH, _IMAGES = 1024, 32  # samples of a batch
_CORES = os.cpu_count() or 1


def table_by_hora(folder: Path) -> dict[str, float]:
    """Training batches as the training loop gets them: shuffled, complete, and prepared ahead of time."""
    spec = _spec("table", batch_size=_BATCH)
    return {"rate": _rate_of_epochs(spec, _opened(spec, folder), TABLE_PASSES)}


def table_by_pyarrow(folder: Path) -> dict[str, float]:
    """Every column of every row group as a NumPy array, in the sequence of the file: reading alone."""
    return {"rate": _rate_of_row_groups(folder, lambda columns: columns)}


def table_by_pyarrow_in_rows(folder: Path) -> dict[str, float]:
    """The same, with the columns joined to (row, column). Batches without shuffling could be cut out of that."""
    return {"rate": _rate_of_row_groups(folder, lambda columns: np.stack(columns[:-1], axis=1))}


def table_as_tfrecord(folder: Path) -> dict[str, float]:
    """TFRecord as fast as tf.data can: files interleaved, whole batches parsed at once and in parallel, no shuffle."""
    return {"rate": _rate_of_tfrecord(folder, shuffle_buffer=0)}


def table_as_shuffled_tfrecord(folder: Path) -> dict[str, float]:
    """The same, shuffled as training needs it, in a buffer as large as the default of `dataset.shuffle_buffer`."""
    return {"rate": _rate_of_tfrecord(folder, shuffle_buffer=4096)}


def table_row_by_row(folder: Path) -> dict[str, float]:
    """A Python generator of rows, batched by tf.data: the first program that most people write for a table."""
    import tensorflow as tf

    def rows() -> Generator[tuple[Any, Any], None, None]:
        with pq.ParquetFile(folder / "table" / "train.parquet") as file:
            for batch in file.iter_batches(_BATCH):
                for row in batch.to_pylist():
                    label = row.pop(LABEL)
                    yield list(row.values()), label

    signature = (tf.TensorSpec([COLUMNS], tf.float32), tf.TensorSpec([], tf.int64))
    batches = tf.data.Dataset.from_generator(rows, output_signature=signature).batch(_BATCH).prefetch(2)
    return {"rate": _rate(islice(batches, ROWS_ONE_BY_ONE // _BATCH), _BATCH)}


def images_by_hora(folder: Path) -> dict[str, float]:
    """Training batches of images in their own size."""
    spec = _spec("photographs", batch_size=_IMAGES)
    return {"rate": _rate_of_epochs(spec, _opened(spec, folder), IMAGE_PASSES)}


def images_by_hora_resized(folder: Path) -> dict[str, float]:
    """The same, scaled to 224x224."""
    spec = _spec("photographs", batch_size=_IMAGES, image_size=[224, 224])
    return {"rate": _rate_of_epochs(spec, _opened(spec, folder), IMAGE_PASSES)}


def images_decoded_alone(folder: Path) -> dict[str, float]:
    """`tf.io.decode_jpeg` of each file on all cores and nothing else: no order, no batches."""
    import tensorflow as tf

    paths = sorted(map(str, folder.glob("photographs/*/*.jpg")))
    images = (
        tf.data.Dataset.from_tensor_slices(paths)
        .repeat(IMAGE_PASSES)
        .map(lambda path: tf.io.decode_jpeg(tf.io.read_file(path), 3), num_parallel_calls=_CORES, deterministic=False)
    )
    options = tf.data.Options()
    options.threading.private_threadpool_size = _CORES
    options.threading.max_intra_op_parallelism = 1
    return {"rate": _rate(images.with_options(options), 1)}


def memory_while_streaming(folder: Path) -> dict[str, float]:
    """Growth of this process's resident memory from before the data is opened to the end of one epoch, and of three."""
    before = psutil.Process().memory_info().rss
    spec = _spec("large", batch_size=_BATCH)
    dataset = _opened(spec, folder)
    plan = settle_plan(spec, dataset.facts.sizes, gpus=1)
    steps = steps_of(plan)[0]
    figures = {"opened": float(_peak_bytes() - before)}
    with closing(dataset.train_batches(spec, plan, rank=0, epoch=1, first=0)) as batches:
        for epoch in range(1, EPOCHS + 1):
            for _ in islice(batches, steps):
                pass
            figures[f"epoch_{epoch}"] = float(_peak_bytes() - before)
    return figures


SIDES: dict[str, Callable[[Path], dict[str, float]]] = {
    side.__name__: side
    for side in (
        table_by_hora, table_by_pyarrow, table_by_pyarrow_in_rows, table_as_tfrecord, table_as_shuffled_tfrecord,
        table_row_by_row, images_by_hora, images_by_hora_resized, images_decoded_alone, memory_while_streaming,
    )
}  # fmt: skip


def _spec(source: str, *, batch_size: int, image_size: list[int] | None = None) -> Spec:
    """A spec that holds out almost nothing, so it trains on almost all samples."""
    dataset = {"source": source, "image_size": image_size, "validation": 0.01}
    return spec_from({"dataset": dataset, "batch_size": batch_size})


def _opened(spec: Spec, folder: Path) -> Dataset:
    source = open_source(
        spec.own_dataset, seed=spec.seed, host=Host([str(folder)], folder / "cache", folder, threads=_CORES)
    )
    return source.to_dataset([source.survey(rank=0, ranks=1)])


def _rate_of_epochs(spec: Spec, dataset: Dataset, epochs: int) -> float:
    plan = settle_plan(spec, dataset.facts.sizes, gpus=1)
    with closing(dataset.train_batches(spec, plan, rank=0, epoch=1, first=0)) as batches:
        batches_taken: Iterable[Batch] = islice(batches, epochs * steps_of(plan)[0])
        return _rate(batches_taken, plan.global_batch)


def _rate_of_row_groups(folder: Path, use: Callable[[list[Any]], object]) -> float:
    rows, started_at = 0, time.perf_counter()
    for _ in range(TABLE_PASSES):
        with pq.ParquetFile(folder / "table" / "train.parquet") as file:
            for number in range(file.metadata.num_row_groups):
                columns = [column.to_numpy() for column in file.read_row_group(number).columns]
                use(columns)
                rows += len(columns[0])
    return rows / (time.perf_counter() - started_at)


def _rate_of_tfrecord(folder: Path, *, shuffle_buffer: int) -> float:
    import tensorflow as tf

    features = {"x": tf.io.FixedLenFeature([COLUMNS], tf.float32), LABEL: tf.io.FixedLenFeature([], tf.int64)}
    files = tf.data.Dataset.list_files(str(folder / "tfrecord" / "*.tfrecord"), seed=1)
    records = files.interleave(
        tf.data.TFRecordDataset, cycle_length=4, block_length=256, num_parallel_calls=_CORES, deterministic=False
    ).repeat(TFRECORD_PASSES)
    if shuffle_buffer:
        records = records.shuffle(shuffle_buffer)
    parsed = records.batch(_BATCH, drop_remainder=True).map(
        lambda batch: tf.io.parse_example(batch, features), num_parallel_calls=tf.data.AUTOTUNE, deterministic=False
    )
    return _rate(parsed.prefetch(tf.data.AUTOTUNE), _BATCH)


def _rate(batches: Iterable[Any], size: int) -> float:
    """Samples per second after the first batch. What precedes it, such as importing TensorFlow, happens once a job."""
    following = iter(batches)
    next(following)
    started_at = time.perf_counter()
    number = sum(1 for _ in following)
    return number * size / (time.perf_counter() - started_at)


def _peak_bytes() -> int:
    """The peak memory of this process. getrusage would also count the process that started it."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


if __name__ == "__main__":
    print(json.dumps(SIDES[sys.argv[1]](Path(sys.argv[2]))))
