"""Whether a script should save and leave. All its ranks get the same answer at the same call."""

from __future__ import annotations

import ctypes
import itertools
import mmap
import time

from hora.run.given import values

_DECISION_S = 30.0  # for the ranks to agree on where to stop


class Control(ctypes.Structure):
    """A small file that the script and its rank share. Each field is written by one of them."""

    _fields_ = [
        ("calls", ctypes.c_uint64),  # script: how often it asked whether to stop
        ("answered_yes", ctypes.c_uint64),  # script: 1 once the answer was yes
        ("stop_requested", ctypes.c_uint64),  # rank: 1 once somebody wants the job to stop
        ("stop_at", ctypes.c_uint64),  # rank: the call that answers yes; 0: the ranks have not agreed yet
    ]


class _Asking:
    """Counts the questions of this process, and knows the answer."""

    def __init__(self) -> None:
        self._calls = itertools.count(1)
        self._control: Control | None = None
        if "control" in values:
            with open(values["control"], "r+b") as file:
                self._control = Control.from_buffer(mmap.mmap(file.fileno(), ctypes.sizeof(Control)))

    def ask(self) -> bool:
        control, call = self._control, next(self._calls)
        if control is None:
            return False
        control.calls = call
        if not control.stop_requested:
            return False
        give_up_at = time.monotonic() + _DECISION_S
        while not control.stop_at and time.monotonic() < give_up_at:
            time.sleep(0.001)
        if not control.stop_at or call < control.stop_at:
            return False
        control.answered_yes = 1
        return True


_asking = _Asking()


def should_stop() -> bool:
    """Whether to save and leave now: the job is paused, preempted, pruned or stopped early, or its host shuts down.

    All ranks get True at the same call. So call it equally often on each, for example after each step.
    """
    return _asking.ask()
