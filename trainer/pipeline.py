"""How the loop keeps a device busy, by its kind. Used by the session and the probe."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from numpy.typing import NDArray

from jobs.model.spec import AllreduceSpec
from trainer.averaging import Averaging
from trainer.mirrored import Mirrored, copied


@dataclass(frozen=True)
class Pipeline:
    """What differs between GPUs, which work while the host does other things, and CPUs, which are the host."""

    lag: int  # steps that may be unread while a further one begins
    batches_on: str | None  # the first device that batches are copied to ahead; None: they stay where they are
    bucket_mb: float | None  # unless the spec says another size

    def place(self, mirrored: Mirrored | None = None) -> Callable[[NDArray[Any]], Any] | None:
        """A function that copies an array to the device, or a part of it to each one. It lets other threads run."""
        device = self.batches_on
        if device is None:
            return None
        if mirrored is not None:
            return mirrored.placed_parts
        return lambda array: copied(array, device)

    def averaging(self, spec: AllreduceSpec) -> Averaging:
        """How the ranks of a job average."""
        return Averaging(spec.bucket_mb or self.bucket_mb, spec.compression)


PIPELINES: dict[Literal["gpu", "cpu"], Pipeline] = {
    # 25 MB as in PyTorch's DistributedDataParallel (Li et al. 2020, arXiv:2006.15704).
    "gpu": Pipeline(lag=1, batches_on="GPU:0", bucket_mb=25.0),
    # A CPU computes the messages too: several of them, or copies of batches, only take time from the step.
    "cpu": Pipeline(lag=0, batches_on=None, bucket_mb=None),
}
