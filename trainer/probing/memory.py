"""The peak memory of a rank, and whether its host has room for more. Called by `measuring`.

With a GPU, TensorFlow counts its memory. Without one it is the resident memory of the process. There a batch that is
too large raises no error: the kernel kills the rank, or its neighbour. So the probe checks before it tries.
"""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

import tensorflow as tf

_KEPT_FREE = 0.1  # of the free memory, for other things that grow


def begin_peak(device: Literal["gpu", "cpu"]) -> None:
    """Forget the peak so far."""
    if device == "gpu":
        tf.config.experimental.reset_memory_stats("GPU:0")
    else:
        with suppress(OSError):  # where that is forbidden, the peak is that of the whole process
            Path("/proc/self/clear_refs").write_text("5")


def peak_bytes(device: Literal["gpu", "cpu"]) -> int:
    """The peak since `begin_peak`: memory of the GPU, or without one resident memory."""
    if device == "gpu":
        return int(tf.config.experimental.get_memory_info("GPU:0")["peak"])
    return _of_process("VmHWM")


def lacks_room(peaks: Sequence[int], device: Literal["gpu", "cpu"], *, local_ranks: int) -> bool:
    """Whether this rank's share of what its host has left is too small for a batch twice as large as the last one.

    `peaks` are those of the batches so far, doubling. Always false with a GPU, whose allocator raises an error itself.
    """
    if device == "gpu":
        return False
    needs = expected_peak(peaks) - _of_process("VmRSS")
    return needs > (1 - _KEPT_FREE) * _available_bytes() / local_ranks


def expected_peak(peaks: Sequence[int]) -> int:
    """The expected peak of the next batch, if memory has a fixed part and a part that doubles with the batch."""
    if len(peaks) < 2:
        return peaks[-1] if peaks else 0
    return peaks[-1] + 2 * max(0, peaks[-1] - peaks[-2])


def _of_process(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return 0


def _available_bytes() -> int:
    """The memory that processes here can still take: in the machine, and in the container if it has a limit."""
    lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    available = int(lines["MemAvailable"].split()[0]) * 1024
    group = Path("/sys/fs/cgroup")
    with suppress(OSError, ValueError):  # "max" is no limit
        limit, current = (int((group / f"memory.{name}").read_text()) for name in ("max", "current"))
        stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        available = min(available, limit - current + int(stat["inactive_file"]))
    return available
