"""The GPUs of this host, through NVML. Opened once, when the worker starts; a host without NVML has none.

The sampler reads them, the agent registers them, and `worker.attempt.gpu_use` checks whether they are free.
`worker.host.gpu_health` finds out which report errors.
Reading a card never raises, because every metric is read separately. A metric that is not supported, fails, or cannot
be true is None. That is logged once for each card and metric.
"""

import logging
import time
from collections.abc import Callable, Mapping
from ctypes import byref, c_uint
from dataclasses import dataclass
from typing import Any, TypeVar

import pynvml

_log = logging.getLogger(__name__)
_Value = TypeVar("_Value")

OFF_THE_BUS = "it is off the bus"
_REOPEN_S = 10.0  # how often a lost card is looked for
_MOST_GPUS = 256  # of a host; a driver that reports more is broken
_LOST = (pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_NOT_FOUND, pynvml.NVML_ERROR_GPU_NOT_FOUND)
# A single metric may return these for its own reasons. All metrics do only if the handle is no longer valid.
_MAY_BE_LOST = (*_LOST, pynvml.NVML_ERROR_INVALID_ARGUMENT, pynvml.NVML_ERROR_UNINITIALIZED)


class _Implausible(ValueError):
    """NVML gave a figure that cannot be true."""


class _GpuLost(Exception):
    """The card is off the bus."""


@dataclass(frozen=True)
class GpuReading:
    """One reading of one GPU. An unreported metric is None. `percent` is the share of time with a running kernel."""

    percent: float | None = None
    memory_bytes: int | None = None  # in use
    power_w: float | None = None
    temperature_c: float | None = None
    sm_clock_mhz: float | None = None
    throttle: int | None = None  # NVML's bits of why the clock is lower than it could be
    processes: int | None = None  # that compute on it
    is_lost: bool = False  # off the bus: it reports nothing


NO_GPU = GpuReading()
LOST = GpuReading(is_lost=True)


def _at_most(value: int, limit: int) -> int:
    if value > limit:
        raise _Implausible(f"{value}, of at most {limit}")
    return value


def _memory(handle: Any) -> int:
    try:  # without what the driver keeps for itself, as nvidia-smi shows it
        memory = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
    except pynvml.NVMLError_FunctionNotFound:  # a driver from before that
        memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
    return _at_most(int(memory.used), int(memory.total))


def _throttle(handle: Any) -> int:
    try:
        reasons = pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle)
    except pynvml.NVMLError_FunctionNotFound:  # a driver from before the new name
        reasons = pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)
    return _at_most(int(reasons), 2**63 - 1)


def _processes(handle: Any) -> int:
    """The number of processes. The list is not read: the binding would trust the number and allocate memory for it."""
    number = c_uint(0)
    for version in ("_v3", "_v2", ""):
        try:
            function = getattr(pynvml.nvmlLib, f"nvmlDeviceGetComputeRunningProcesses{version}")
        except AttributeError:
            continue
        code = function(handle, byref(number), None)
        if code not in (pynvml.NVML_SUCCESS, pynvml.NVML_ERROR_INSUFFICIENT_SIZE):
            raise pynvml.NVMLError(code)
        return _at_most(number.value, 100_000)
    raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)


_METRICS: Mapping[str, Callable[[Any], float]] = {
    "percent": lambda handle: float(_at_most(pynvml.nvmlDeviceGetUtilizationRates(handle).gpu, 100)),
    "memory_bytes": _memory,
    "power_w": lambda handle: _at_most(pynvml.nvmlDeviceGetPowerUsage(handle), 10_000_000) / 1000,
    "temperature_c": lambda handle: float(
        _at_most(pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU), 200)
    ),
    "sm_clock_mhz": lambda handle: float(_at_most(pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM), 10_000)),
    "throttle": _throttle,
    "processes": _processes,
}


class Gpu:
    """A card as NVML found it, and its handle."""

    def __init__(self, index: int, uuid: str, handle: Any) -> None:
        self.index = index
        self.uuid = uuid
        self.handle = handle
        self.is_lost = False
        self.unusable: str | None = None  # why TensorFlow cannot use it
        self.xid_error: str | None = None  # the last error of the card that the driver reported
        self.memory_error: str | None = None
        self._logged_metrics: set[str] = set()
        self._looked_for_at = 0.0
        self.name: str = self.query("name", pynvml.nvmlDeviceGetName) or "GPU"
        self.memory_bytes: int | None = self.query("memory", lambda of: int(pynvml.nvmlDeviceGetMemoryInfo(of).total))
        self.mig: bool | None = self.query("MIG mode", lambda of: bool(_at_most(pynvml.nvmlDeviceGetMigMode(of)[0], 1)))
        if self.mig:
            _log.warning("GPU %d (%s) is in MIG mode: its utilization cannot be read", index, uuid)

    @property
    def unhealthy(self) -> str | None:
        """Why no job should get the card. None if it is well."""
        return OFF_THE_BUS if self.is_lost else self.unusable or self.xid_error or self.memory_error

    def query(self, metric: str, question: Callable[[Any], _Value]) -> _Value | None:
        """Ask NVML. None if it has no answer."""
        try:
            return question(self.handle)
        except Exception as error:
            self._log_once(metric, error)
            return None

    def read(self) -> GpuReading:
        """Read every metric. A lost card is `LOST` until it is back; every few seconds the reading looks for it."""
        if self.is_lost and not self._is_open_again():
            return LOST
        try:
            reading = self._read()
        except _GpuLost:
            if not self.is_lost:
                _log.error("GPU %d (%s) is lost", self.index, self.uuid)
                self.is_lost, self._looked_for_at = True, time.monotonic()
            return LOST
        if self.is_lost:
            _log.warning("GPU %d (%s) is back", self.index, self.uuid)
            self.is_lost, self.xid_error = False, None
        return reading

    def _read(self) -> GpuReading:
        """Raises `_GpuLost`."""
        values: dict[str, Any] = {}
        may_be_lost = False
        for metric, read in _METRICS.items():
            if self.mig and metric == "percent":
                continue
            try:
                values[metric] = read(self.handle)
            except pynvml.NVMLError as error:
                if error.value == pynvml.NVML_ERROR_GPU_IS_LOST:
                    raise _GpuLost from None
                may_be_lost = may_be_lost or error.value in _MAY_BE_LOST
                self._log_once(metric, error)
            except Exception as error:
                self._log_once(metric, error)
        if may_be_lost and not values:
            raise _GpuLost
        return GpuReading(**values)

    def _is_open_again(self) -> bool:
        now = time.monotonic()
        if now - self._looked_for_at < _REOPEN_S:
            return False
        self._looked_for_at = now
        try:
            self.handle = pynvml.nvmlDeviceGetHandleByUUID(self.uuid)
        except Exception:  # still lost
            return False
        return True

    def _log_once(self, metric: str, error: Exception) -> None:
        if metric not in self._logged_metrics:
            self._logged_metrics.add(metric)
            level = logging.INFO if isinstance(error, pynvml.NVMLError) else logging.WARNING
            _log.log(level, "GPU %d (%s) does not report its %s: %s", self.index, self.uuid, metric, error)


def find_gpus() -> list[Gpu]:
    """The GPUs of this host in NVML's sequence. Empty without the driver or its library."""
    try:
        pynvml.nvmlInit()
        count = _at_most(pynvml.nvmlDeviceGetCount(), _MOST_GPUS)
    except Exception as error:
        _log.info("no GPUs: %s", error)
        return []
    gpus: dict[str, Gpu] = {}
    for index in range(count):
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            uuid = str(pynvml.nvmlDeviceGetUUID(handle))
            if not uuid or uuid in gpus:
                raise _Implausible(f"its UUID is {uuid!r}")
        except Exception as error:
            _log.warning("GPU %d cannot be opened and is left out: %s", index, error)
            continue
        gpus[uuid] = Gpu(index, uuid, handle)
    return list(gpus.values())


def why_no_gpus() -> str:
    """Why NVML finds no GPU here, in a few words."""
    try:
        pynvml.nvmlInit()
        count = pynvml.nvmlDeviceGetCount()
    except pynvml.NVMLError as error:
        missing = (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, pynvml.NVML_ERROR_DRIVER_NOT_LOADED)
        return "no NVIDIA driver" if error.value in missing else f"NVML: {error}"
    except Exception as error:
        return f"NVML: {error}"
    return "the driver reports none" if count == 0 else f"none of the {count} that the driver reports can be opened"


def is_in_use(uuid: str) -> bool:
    """Whether a process of any user computes on the GPU. False if NVML does not answer."""
    try:
        pynvml.nvmlInit()
        return _processes(pynvml.nvmlDeviceGetHandleByUUID(uuid)) > 0
    except Exception:
        return False


def is_lost(uuid: str) -> bool:
    """Whether the GPU of this host is off the bus. False if NVML does not answer."""
    try:
        pynvml.nvmlInit()
        pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByUUID(uuid))
    except pynvml.NVMLError as error:
        return error.value in _LOST
    except Exception:
        return False
    return False
