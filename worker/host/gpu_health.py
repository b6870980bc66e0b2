"""Whether the GPUs of this host report errors. The sampler asks, and reports the cards that do as unhealthy.

The driver reports errors as XID events (https://docs.nvidia.com/deploy/xid-errors/). Errors of programs do not count.
"""

import logging
from collections.abc import Sequence
from ctypes import c_void_p, cast
from typing import Any

import pynvml

from worker.host.gpus import Gpu

_log = logging.getLogger(__name__)

# The same that NVIDIA's device plugin for Kubernetes ignores (k8s-device-plugin, internal/rm/health.go).
ERRORS_OF_PROGRAMS = frozenset({13, 31, 43, 45, 68, 109})
# After the catalogue of XID errors. Others are reported by their number alone.
_MEANINGS = {
    48: "an ECC error in its memory that cannot be corrected",
    62: "its internal controller halted",
    63: "a defective part of its memory was noted: it is replaced when the GPU is reset",
    64: "a defective part of its memory cannot be replaced",
    74: "an error of NVLink",
    79: "the driver cannot reach it over the bus",
    92: "many ECC errors in its memory",
    94: "an ECC error in its memory that ended one program",
    95: "an ECC error in its memory that may affect every program",
    119: "its system processor (GSP) does not answer",
    120: "an error of its system processor (GSP)",
    140: "ECC errors in its memory that cannot be corrected",
}
_WAIT_MS = 1  # for the next event: it is there, or it comes later
_MOST_EVENTS = 1000  # in one pass


class XidWatch:
    """Takes the XID events of cards, and notes the last error on each card until the worker restarts."""

    def __init__(self, gpus: Sequence[Gpu]) -> None:
        self._gpus = gpus
        self._registered: dict[str, Any] = {}  # the handle of each card, by UUID
        self._is_logged = False
        try:
            self._events = pynvml.nvmlEventSetCreate()
        except Exception as error:
            _log.info("XID errors are not watched: %s", error)
            self._gpus = ()

    def take(self) -> None:
        """Take the events that came since the last call. Does not wait for more."""
        for gpu in self._gpus:
            if self._registered.get(gpu.uuid) is not gpu.handle:  # new, or back on the bus
                self._registered[gpu.uuid] = gpu.handle
                gpu.query("XID errors", self._register)
        for _ in range(_MOST_EVENTS if self._gpus else 0):
            try:
                event = pynvml.nvmlEventSetWait_v2(self._events, _WAIT_MS)
            except Exception as error:
                self._log_once(error)
                return
            if event.eventType == pynvml.nvmlEventTypeXidCriticalError:
                self._note(event.device, int(event.eventData))

    def _register(self, handle: Any) -> None:
        pynvml.nvmlDeviceRegisterEvents(handle, pynvml.nvmlEventTypeXidCriticalError, self._events)

    def _note(self, device: Any, xid: int) -> None:
        gpu = next((gpu for gpu in self._gpus if _address(gpu.handle) == _address(device)), None)
        if gpu is None:
            _log.error("the driver reports error XID %d of a GPU that is not known", xid)
        elif xid in ERRORS_OF_PROGRAMS:
            _log.info("GPU %d (%s): error XID %d of a program", gpu.index, gpu.uuid, xid)
        else:
            gpu.xid_error = xid_text(xid)
            _log.error("GPU %d (%s) is unhealthy: %s", gpu.index, gpu.uuid, gpu.xid_error)

    def _log_once(self, error: Exception) -> None:
        is_timeout = isinstance(error, pynvml.NVMLError) and error.value == pynvml.NVML_ERROR_TIMEOUT
        if not is_timeout and not self._is_logged:
            self._is_logged = True
            _log.warning("the XID errors of the GPUs cannot be read: %s", error)


def _address(handle: Any) -> int | None:
    return cast(handle, c_void_p).value


def xid_text(xid: int) -> str:
    """XID 79: the driver cannot reach it over the bus (until the worker restarts)."""
    meaning = f": {_MEANINGS[xid]}" if xid in _MEANINGS else ""
    return f"XID {xid}{meaning} (until the worker restarts)"


def check_memory(gpu: Gpu) -> None:
    """Note whether the memory of a card has errors now. A card that does not report them has none."""
    if gpu.is_lost:
        return
    error = gpu.query("ECC errors", _ecc_error) or gpu.query("remapped rows", _remapping_error)
    if error != gpu.memory_error:
        _log.warning("GPU %d (%s): %s", gpu.index, gpu.uuid, error or "its memory reports no errors any more")
        gpu.memory_error = error


def _ecc_error(handle: Any) -> str | None:
    errors = pynvml.nvmlDeviceGetTotalEccErrors(
        handle, pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC
    )
    return f"{errors} ECC errors since its driver started, which cannot be corrected" if errors else None


def _remapping_error(handle: Any) -> str | None:
    _, _, is_pending, has_failed = pynvml.nvmlDeviceGetRemappedRows(handle)
    if has_failed:
        return "defective rows of its memory cannot be replaced"
    return "defective rows of its memory are replaced when the GPU is reset" if is_pending else None
