"""Horovod with Keras and nothing of Hora's trainer but the network: what a run of Hora is compared with.

Run under horovodrun, with a launch file as its argument. Writes samples/s of all ranks to a file.
"""

import sys
from pathlib import Path

import horovod.tensorflow as hvd
import keras
import numpy as np
import tensorflow as tf

from bench.bare import Clock, DistributedModel
from jobs.model.launch import Launch
from jobs.model.plan import DatasetSizes
from jobs.model.spec import synthetic_of
from trainer.data.interfaces import Facts
from trainer.models import build_model

_WARM_UP_STEPS = 10


def main(launch: Launch) -> None:
    """Train for as many steps as the spec says, on random pixels in memory."""
    hvd.init()
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        tf.config.set_visible_devices(gpus[hvd.local_rank()], "GPU")
        tf.config.experimental.set_memory_growth(gpus[hvd.local_rank()], True)
    spec = launch.spec
    data = synthetic_of(spec.dataset.source)
    batch = spec.batch_size
    pixels = np.random.default_rng(1).integers(0, 256, (4 * batch, *data.shape), np.uint8)
    labels = np.arange(4 * batch, dtype=np.int32) % data.classes
    sizes = DatasetSizes(train=len(pixels), validation=0)
    facts = Facts("arrays", data.shape, "uint8", (0.0, 255.0), None, tuple(map(str, range(data.classes))), sizes, {})
    inner = build_model(spec, facts)
    model = DistributedModel(inner.inputs, inner.outputs)
    model.compile(
        optimizer=keras.optimizers.Adam(spec.learning_rate),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=False,
    )
    clock = Clock()
    batches = tf.data.Dataset.from_tensor_slices((pixels, labels)).repeat().batch(batch).prefetch(2)
    model.fit(batches, steps_per_epoch=spec.steps_per_epoch, epochs=1, verbose=0, callbacks=[clock])
    steady = clock.ended_at[_WARM_UP_STEPS:]
    if hvd.rank() == 0:
        rate = (len(steady) - 1) * batch * hvd.size() / (steady[-1] - steady[0])
        Path(launch.artifacts_dir, "samples_per_s").write_text(str(rate))


if __name__ == "__main__":
    main(Launch.model_validate_json(Path(sys.argv[1]).read_bytes()))
