"""What a job leaves: its network and weights, its class names, TensorBoard's event files. Called by the session.

Written by rank 0, each file whole or not at all; but for the event files, which grow with the run.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import keras
import tensorflow as tf

from trainer.callbacks import Callback, Epoch
from trainer.checkpoint import atomic_write

# As protocol buffers of our own and not by tf.summary, whose first use takes 0.1 s and runs ops between the steps.
_Event, _SessionLog, _Summary = tf.compat.v1.Event, tf.compat.v1.SessionLog, tf.compat.v1.Summary


def save_network(model: keras.Model, folder: Path) -> None:
    """Write model.weights.h5, and model.keras, which Keras loads without anything of ours.

    A network of one's own may hold what Keras cannot save; then there are the weights alone.
    """
    with atomic_write(folder / "model.weights.h5") as temporary:
        model.save_weights(temporary)
    try:
        with atomic_write(folder / "model.keras") as temporary:
            model.save(temporary)
    except (NotImplementedError, TypeError, ValueError) as error:
        print(f"there is no model.keras, Keras cannot save this network: {error}", flush=True)


def save_classes(classes: Sequence[str], folder: Path) -> None:
    """Write classes.json: the names of the classes, in the order of the network's outputs."""
    with atomic_write(folder / "classes.json") as temporary:
        temporary.write_text(json.dumps(classes, ensure_ascii=False, indent=1) + "\n", "utf-8")


class EventFile:
    """The scalars of one run of TensorBoard, as an attempt writes them: a file of its own beside those before it.

    It begins by voiding the points of earlier attempts from `first_step` on.
    """

    def __init__(self, folder: Path, *, first_step: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        # TensorBoard reads files whose name has this beginning, in the order of their names.
        path = folder / f"events.out.tfevents.{time.time():.6f}"
        self._writer = tf.io.TFRecordWriter(str(path))
        self._write(_Event(wall_time=time.time(), file_version="brain.Event:2"))
        start = _SessionLog(status=_SessionLog.START)
        self._write(_Event(wall_time=time.time(), step=first_step, session_log=start))

    def add(self, step: int, scalars: Mapping[str, float]) -> None:
        """Append a point of each tag, at once."""
        values = [_Summary.Value(tag=tag, simple_value=value) for tag, value in scalars.items()]
        self._write(_Event(wall_time=time.time(), step=step, summary=_Summary(value=values)))

    def _write(self, event: tf.compat.v1.Event) -> None:
        self._writer.write(event.SerializeToString())
        self._writer.flush()


class TensorBoard(Callback):
    """Writes the epochs as Keras's callback of this name does: runs `train` and `validation`, tags `epoch_loss`, ..."""

    def __init__(self, folder: Path, learning_rate: Callable[[], float], *, first_epoch: int) -> None:
        self._train = EventFile(folder / "train", first_step=first_epoch)
        self._validation = EventFile(folder / "validation", first_step=first_epoch)
        self._learning_rate = learning_rate

    def on_epoch_end(self, epoch: Epoch) -> None:
        """Append the epoch to both runs."""
        metrics, pace = epoch.metrics, epoch.pace
        self._train.add(
            epoch.epoch,
            {
                "epoch_loss": metrics["loss"],
                "epoch_accuracy": metrics["accuracy"],
                "epoch_learning_rate": self._learning_rate(),
                "samples_per_s": pace.samples_per_s,
                "epoch_s": pace.epoch_s,
            },
        )
        self._validation.add(
            epoch.epoch, {"epoch_loss": metrics["val_loss"], "epoch_accuracy": metrics["val_accuracy"]}
        )


def add_test(folder: Path, epoch: int, *, loss: float, accuracy: float) -> None:
    """Append the figures of the held-out data to the run `test`, at the epoch whose weights were measured."""
    EventFile(folder / "test", first_step=0).add(epoch, {"epoch_loss": loss, "epoch_accuracy": accuracy})
