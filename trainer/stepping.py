"""Begins training steps, and reads their tallies: at once, or while the next steps run. Used by the loop and the probe.

Reading a tally waits for the device. With a lag of 1 the tally of a step is read when the next step has begun, so a GPU
always has work. The copy of a tally starts when its step has begun, in a thread: TensorFlow copies after all work that
the device was given until then. A copy that starts later would wait for the next step too.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from trainer.data.interfaces import Batch
from trainer.steps import StepFunction, Tally

_NO, _YES = np.zeros((), np.float32), np.ones((), np.float32)  # arrays: a tensor here would start TensorFlow


@dataclass(frozen=True)
class Made:
    """A step whose tally was read. Its time is what the caller spent on it: its batch, its begin, and the reading.

    So the times of all steps add up to the time that has passed. The device may have worked on it at other times.
    """

    tally: Tally
    step_time_s: float
    data_wait_s: float  # part of the step's time


@dataclass
class _Unread:
    read: Callable[[], NDArray[np.float32]]
    spent_s: float
    data_wait_s: float


class Stepper:
    """Runs steps. `lag` steps may be unread while a further one begins; with 0 each is read before the next begins."""

    def __init__(self, train_step: StepFunction, *, lag: int) -> None:
        self.lag = lag
        self._train_step = train_step
        self._unread: deque[_Unread] = deque()
        self._copier = ThreadPoolExecutor(1, "tally") if lag else None
        self._since = time.perf_counter()

    @property
    def unread(self) -> int:
        """Steps that have begun and are not read."""
        return len(self._unread)

    def restart_clock(self) -> None:
        """Count no time before now for any step."""
        self._since = time.perf_counter()

    def begin(self, batches: Iterator[Batch], wishes_to_stop: Callable[[], bool] = lambda: False) -> None:
        """Take the next batch and begin a step with it. On a CPU the step is done after that."""
        requested_at = time.perf_counter()
        batch = next(batches)
        data_wait_s = time.perf_counter() - requested_at
        wish = _YES if wishes_to_stop() else _NO
        read = self._start_copy(self._train_step(batch.features, batch.labels, wish))
        self._unread.append(_Unread(read, self._lap(), data_wait_s))

    def read(self, *, keep: int) -> Iterator[Made]:
        """Read tallies in the sequence of the steps, until `keep` are unread."""
        while len(self._unread) > keep:
            step = self._unread.popleft()
            tally = Tally.of(step.read().tolist())
            yield Made(tally, step.spent_s + self._lap(), step.data_wait_s)

    def _start_copy(self, tally: tf.Tensor) -> Callable[[], NDArray[np.float32]]:
        return tally.numpy if self._copier is None else self._copier.submit(tally.numpy).result

    def _lap(self) -> float:
        """The time since the last call."""
        before, self._since = self._since, time.perf_counter()
        return self._since - before
