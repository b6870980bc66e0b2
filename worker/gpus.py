"""The GPUs of this host, through NVML. Opened once by the agent; a host without NVML has none.

Every metric is read by itself: on some cards one call is unsupported, and that metric alone becomes None.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import pynvml

_log = logging.getLogger(__name__)
_Value = TypeVar("_Value")


@dataclass(frozen=True)
class GpuReading:
    """One look at one GPU; what it cannot tell is None. `percent` is the share of time in which a kernel ran."""

    percent: float | None = None
    memory_bytes: int | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    sm_clock_mhz: float | None = None


@dataclass(frozen=True)
class Gpu:
    """A card as NVML found it."""

    index: int
    uuid: str
    name: str
    memory_bytes: int | None
    handle: Any


def find_gpus() -> list[Gpu]:
    """The GPUs of this host in NVML's order; none where the driver or its library is not there."""
    try:
        pynvml.nvmlInit()
        count = pynvml.nvmlDeviceGetCount()
    except pynvml.NVMLError as error:
        _log.info("no GPUs: %s", error)
        return []
    return [gpu for index in range(count) if (gpu := _gpu(index)) is not None]


def _gpu(index: int) -> Gpu | None:
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        uuid = pynvml.nvmlDeviceGetUUID(handle)
    except pynvml.NVMLError as error:
        _log.warning("GPU %d cannot be opened and is left out: %s", index, error)
        return None
    name = _guarded(lambda: pynvml.nvmlDeviceGetName(handle))
    memory = _guarded(lambda: int(pynvml.nvmlDeviceGetMemoryInfo(handle).total))
    return Gpu(index, _text(uuid), _text(name or "GPU"), memory, handle)


def read(gpu: Gpu) -> GpuReading:
    """Read every metric of a GPU."""
    handle = gpu.handle
    return GpuReading(
        percent=_guarded(lambda: float(pynvml.nvmlDeviceGetUtilizationRates(handle).gpu)),
        memory_bytes=_guarded(lambda: int(pynvml.nvmlDeviceGetMemoryInfo(handle).used)),
        power_w=_guarded(lambda: pynvml.nvmlDeviceGetPowerUsage(handle) / 1000),
        temperature_c=_guarded(lambda: float(pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU))),
        sm_clock_mhz=_guarded(lambda: float(pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM))),
    )


def is_in_use(uuid: str) -> bool:
    """Whether a process computes on the GPU, of whatever user; False where NVML does not tell."""
    try:
        pynvml.nvmlInit()
        return bool(pynvml.nvmlDeviceGetComputeRunningProcesses(pynvml.nvmlDeviceGetHandleByUUID(uuid)))
    except (pynvml.NVMLError, pynvml.NVMLLibraryMismatchError):  # the latter: a driver from before this question
        return False


def _guarded(read_one: Callable[[], _Value]) -> _Value | None:
    try:
        return read_one()
    except pynvml.NVMLError:
        return None


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
