"""How the loop keeps a device busy, by its kind. Used by the session and the probe."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import tensorflow as tf
from numpy.typing import NDArray

from jobs.model.spec import AllreduceSpec
from trainer.averaging import Averaging


@dataclass(frozen=True)
class Pipeline:
    """What differs between GPUs, which work while the host does other things, and CPUs, which are the host."""

    lag: int  # steps that may be unread while a further one begins
    batches_on: str | None  # the device that batches are copied to ahead; None: they stay where they are
    bucket_mb: float | None  # unless the spec says another size

    def place(self) -> Callable[[NDArray[Any]], tf.Tensor] | None:
        """A function that copies an array to the device. Other threads run Python meanwhile."""
        device = self.batches_on
        if device is None:
            return None

        def copy(array: NDArray[Any]) -> tf.Tensor:
            with tf.device("CPU:0"):
                on_host = tf.convert_to_tensor(array)
            with tf.device(device):
                return tf.identity(on_host)

        return copy

    def averaging(self, spec: AllreduceSpec) -> Averaging:
        """How the ranks of a job average."""
        return Averaging(spec.bucket_mb or self.bucket_mb, spec.compression)


PIPELINES: dict[Literal["gpu", "cpu"], Pipeline] = {
    # 25 MB as in PyTorch's DistributedDataParallel (Li et al. 2020, arXiv:2006.15704).
    "gpu": Pipeline(lag=1, batches_on="GPU:0", bucket_mb=25.0),
    # A CPU computes the messages too: several of them, or copies of batches, only take time from the step.
    "cpu": Pipeline(lag=0, batches_on=None, bucket_mb=None),
}
