"""TensorBoard's event files of a job, below its artifacts: written by rank 0 while it trains. Listed by the session.

EventFile         the scalars of one run of TensorBoard, of one attempt
EpochEvents       the runs `train` and `validation`: a point an epoch
StepEvents        the run `steps`: at most some thousand points of rank 0's own steps

Epochs and steps are separate runs, because an attempt voids all points of a run from some number on. If a write fails,
as on a full disk, the log gets a line and the file ends there. The job continues.
"""

import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path

import tensorflow as tf

from jobs.model.plan import Plan
from jobs.runtime.files import make_private
from trainer.callbacks import Callback, Epoch, Step
from trainer.measures import named
from trainer.plan import steps_of

# We write protocol buffers ourselves: the first use of tf.summary takes 0.1 s, and it runs ops between the steps.
_Event, _SessionLog, _Summary = tf.compat.v1.Event, tf.compat.v1.SessionLog, tf.compat.v1.Summary
_FAILURES = (OSError, tf.errors.OpError)
_MOST_STEPS = 1000  # of a run without early stopping; TensorBoard shows no more points of a series


class EventFile:
    """The scalars of one run of TensorBoard from one attempt: a file beside those of earlier attempts.

    It begins by voiding the points of earlier attempts from `first_step` on.
    """

    def __init__(self, folder: Path, *, attempt: int, first_step: int) -> None:
        # TensorBoard reads files whose name has this beginning, in the order of their names. So not the time, which
        # may be behind on the host of a later attempt.
        self._path = folder / f"events.out.tfevents.{attempt:010}"
        self._writer: tf.io.TFRecordWriter | None = None
        try:
            make_private(folder)
            self._writer = tf.io.TFRecordWriter(str(self._path))
        except _FAILURES as error:
            self._give_up(error)
        self._write(_Event(wall_time=time.time(), file_version="brain.Event:2"))
        start = _SessionLog(status=_SessionLog.START)
        self._write(_Event(wall_time=time.time(), step=first_step, session_log=start))

    def add(self, step: int, scalars: Mapping[str, float]) -> None:
        """Append a point of each tag, at once, because a rank that leaves does not flush buffers."""
        values = [_Summary.Value(tag=tag, simple_value=value) for tag, value in scalars.items()]
        self._write(_Event(wall_time=time.time(), step=step, summary=_Summary(value=values)))

    def _write(self, event: tf.compat.v1.Event) -> None:
        if self._writer is not None:
            try:
                self._writer.write(event.SerializeToString())
                self._writer.flush()
            except _FAILURES as error:
                self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        self._writer = None
        print(f"warning: nothing more is written for TensorBoard to {self._path}: {error}", flush=True)


class EpochEvents(Callback):
    """Writes the epochs as Keras's callback TensorBoard does: runs `train` and `validation`, tags `epoch_loss`, ..."""

    def __init__(self, folder: Path, learning_rate: Callable[[], float], *, attempt: int, first_epoch: int) -> None:
        self._train = EventFile(folder / "train", attempt=attempt, first_step=first_epoch)
        self._validation = EventFile(folder / "validation", attempt=attempt, first_step=first_epoch)
        self._learning_rate = learning_rate

    def on_epoch_end(self, epoch: Epoch) -> None:
        """Append the epoch to both runs."""
        validated = {name.removeprefix("val_"): y for name, y in epoch.metrics.items() if name.startswith("val_")}
        trained = {name: y for name, y in epoch.metrics.items() if not name.startswith("val_")}
        pace = epoch.pace
        self._train.add(
            epoch.epoch,
            {
                **named("epoch_", trained),
                "epoch_learning_rate": self._learning_rate(),
                "samples_per_s": pace.samples_per_s,
                "epoch_s": pace.epoch_s,
            },
        )
        self._validation.add(epoch.epoch, named("epoch_", validated))


class StepEvents(Callback):
    """Writes each so many steps of this rank, as Keras's callback names them: run `steps`, tags `batch_loss`, ..."""

    def __init__(
        self, folder: Path, rate_of: Callable[[int], float], *, plan: Plan, attempt: int, first_step: int
    ) -> None:
        self._steps = EventFile(folder / "steps", attempt=attempt, first_step=first_step)
        self._rate_of = rate_of
        self._begun_updates: deque[int] = deque()  # one may begin before the last one ends
        self._global_batch = plan.global_batch
        self._every = -(-plan.epochs * steps_of(plan)[0] // _MOST_STEPS)

    def on_step_begin(self, update: int) -> None:
        """Remember which update the step makes."""
        self._begun_updates.append(update)

    def on_step_end(self, step: Step) -> None:
        """Append the step where it is one of those."""
        update = self._begun_updates.popleft()
        if step.step % self._every:
            return
        self._steps.add(
            step.step,
            {
                **named("batch_", step.metrics),
                "batch_learning_rate": self._rate_of(update),
                "samples_per_s": self._global_batch / step.step_time_s,
                "step_time_s": step.step_time_s,
                "data_wait_s": step.data_wait_s,
                "allreduce_s": step.allreduce_s,
            },
        )


def add_test(folder: Path, epoch: int, metrics: Mapping[str, float], *, attempt: int) -> None:
    """Append the metrics of the held-out data to the run `test`, at the epoch whose weights were measured."""
    EventFile(folder / "test", attempt=attempt, first_step=0).add(epoch, named("epoch_", metrics))
