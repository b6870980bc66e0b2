"""Horovod with Keras as its documentation shows it, as far as Keras 3 allows. A person without Hora would use this.

`bench.train` runs it under horovodrun, with a launch file as its argument. It writes samples/s of all ranks to a file.
"""

import sys
import time
from pathlib import Path

import horovod.tensorflow as hvd
import keras
import tensorflow as tf

from jobs.model.launch import Launch
from jobs.model.plan import DatasetSizes
from trainer.data.arrays import Arrays
from trainer.data.interfaces import Facts
from trainer.data.registered import fashion_mnist
from trainer.models import build_model

_WARM_UP_STEPS = 20


class DistributedModel(keras.Model):  # type: ignore[misc]
    """Keras 3 never calls Horovod's optimizer hook, so the gradients are averaged in the step itself."""

    def train_step(self, data: tuple[tf.Tensor, tf.Tensor]) -> dict[str, tf.Tensor]:
        """One update, the gradients averaged over all ranks."""
        pixels, labels = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(y=labels, y_pred=self(pixels, training=True))
        tape = hvd.DistributedGradientTape(tape)
        gradients = tape.gradient(loss, [variable.value for variable in self.trainable_variables])
        self.optimizer.apply(gradients, self.trainable_variables)
        return {"loss": loss}


class Clock(keras.callbacks.Callback):  # type: ignore[misc]
    """Records when each batch ended."""

    def __init__(self) -> None:
        super().__init__()
        self.ended_at: list[float] = []

    def on_train_batch_end(self, batch: int, logs: object = None) -> None:
        """Record the time."""
        self.ended_at.append(time.perf_counter())


def main(launch: Launch) -> None:
    """Train for as many steps as the spec says."""
    hvd.init()
    spec = launch.spec
    arrays = fashion_mnist([])["train"]
    assert isinstance(arrays, Arrays)
    mine = slice(hvd.rank(), None, hvd.size())
    pixels, labels = arrays.features[mine], arrays.labels[mine]
    keras.utils.set_random_seed(spec.seed)
    inner = build_model(spec, _facts(pixels.shape[1:], len(pixels)), models=launch.models)
    model = DistributedModel(inner.inputs, inner.outputs)
    model.compile(
        optimizer=keras.optimizers.Adam(spec.learning_rate),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=False,
    )
    data = tf.data.Dataset.from_tensor_slices((pixels, labels))
    data = data.shuffle(4096).repeat().batch(spec.batch_size).prefetch(2)
    clock = Clock()
    model.fit(data, steps_per_epoch=spec.steps_per_epoch, epochs=1, verbose=0, callbacks=[clock])
    steady = clock.ended_at[_WARM_UP_STEPS:]
    if hvd.rank() == 0:
        rate = (len(steady) - 1) * spec.batch_size * hvd.size() / (steady[-1] - steady[0])
        Path(launch.artifacts_dir, "samples_per_s").write_text(str(rate))


def _facts(shape: tuple[int, ...], samples: int) -> Facts:
    sizes = DatasetSizes(train=samples, validation=0)
    classes = tuple(map(str, range(10)))
    return Facts("arrays", shape, "uint8", (0.0, 255.0), None, classes, sizes, {})


if __name__ == "__main__":
    main(Launch.model_validate_json(Path(sys.argv[1]).read_bytes()))
