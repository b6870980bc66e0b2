"""How much memory a rank takes at its most, and whether its host has room for more. Called by `measuring`.

Where there is a GPU, TensorFlow counts. Without one it is the process's resident memory, and there a batch that is too
large ends no call with an error: the kernel kills the rank, or its neighbour. So the probe asks beforehand.
"""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

import tensorflow as tf

_KEPT_FREE = 0.1  # of what is free, for what else grows


def begin_peak(device: Literal["gpu", "cpu"]) -> None:
    """Forget what was taken at most so far."""
    if device == "gpu":
        tf.config.experimental.reset_memory_stats("GPU:0")
    else:
        with suppress(OSError):  # where that is forbidden, the peak is that of the whole process
            Path("/proc/self/clear_refs").write_text("5")


def peak_bytes(device: Literal["gpu", "cpu"]) -> int:
    """What was taken at most since `begin_peak`: of the GPU, or resident without one."""
    if device == "gpu":
        return int(tf.config.experimental.get_memory_info("GPU:0")["peak"])
    return _of_process("VmHWM")


def lacks_room(peaks: Sequence[int], device: Literal["gpu", "cpu"], *, local_ranks: int) -> bool:
    """Whether this rank's share of what its host has left is too small for a batch twice as large as the last one.

    `peaks` are those of the batches so far, doubling. Never so with a GPU, whose allocator says it by itself.
    """
    if device == "gpu":
        return False
    needs = expected_peak(peaks) - _of_process("VmRSS")
    return needs > (1 - _KEPT_FREE) * _available_bytes() / local_ranks


def expected_peak(peaks: Sequence[int]) -> int:
    """What the next batch takes at its most, when memory is a fixed part and one that doubles with the batch."""
    if len(peaks) < 2:
        return peaks[-1] if peaks else 0
    return peaks[-1] + 2 * max(0, peaks[-1] - peaks[-2])


def _of_process(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return 0


def _available_bytes() -> int:
    """What processes here can still take: of the machine, and of the container where there is a limit."""
    lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    available = int(lines["MemAvailable"].split()[0]) * 1024
    group = Path("/sys/fs/cgroup")
    with suppress(OSError, ValueError):  # "max" is no limit
        limit, current = (int((group / f"memory.{name}").read_text()) for name in ("max", "current"))
        stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        available = min(available, limit - current + int(stat["inactive_file"]))
    return available
