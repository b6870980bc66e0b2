"""Watches for the wish to stop, the stop file or SIGTERM, and for the end of the lease. Started first in every rank.

A thread of its own, so that a rank is not deaf while its main thread waits inside TensorFlow or Horovod, where
Python runs no signal handler.
"""

import math
import signal
import threading
import time
import zlib
from collections.abc import Callable
from enum import Enum, auto
from pathlib import Path

POLL_S = 0.1
_TRIES, _RETRY_S = 20, 0.005  # to read a whole lease file


class Stage(Enum):
    """What a wish to stop means at the moment."""

    SETTING_UP = auto()  # leave at once: there is nothing to save yet
    TRAINING = auto()  # only note it: the ranks agree on the step to stop at, then save a checkpoint
    FINISHING = auto()  # the file is ignored, the end is near; SIGTERM means leave at once


class LeaseFile:
    """The time until which this rank may run, on CLOCK_MONOTONIC, in a file that its supervisor writes again and again.

    If the supervisor is stopped, dead or cut off, the rank must be gone before its job runs elsewhere. Maybe no process
    is left that could tell it so.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._until = math.inf if path is None else 0.0

    def is_over(self) -> bool:
        """Whether the time has come. The file is read only then: it may say a later one by now.

        So a rank that was stopped for a long time continues if its supervisor continued.
        """
        if time.monotonic() >= self._until and self._path is not None:
            try:
                self._until = _read_until(self._path)
            except (OSError, ValueError):
                return True  # an unreadable file extends nothing
        return time.monotonic() >= self._until


def _read_until(path: Path) -> float:
    """The time in a lease file, which `worker.attempt.lease_file` overwrites. Raises `OSError`, `ValueError`."""
    for _ in range(_TRIES):
        words = path.read_bytes().split()
        if len(words) == 1:  # older versions wrote the time alone
            return float(words[0])
        if len(words) == 2 and words[1] == b"%08x" % zlib.crc32(words[0]):
            return float(words[0])
        time.sleep(_RETRY_S)  # it is being written
    raise ValueError("a damaged lease file")


class StopWatch(threading.Thread):
    """Sets `requested` when the stop file appears or SIGTERM comes, and leaves if `stage` says so.

    When the lease is over it leaves at once, in any stage.
    """

    def __init__(
        self,
        stop_path: Path,
        on_leave: Callable[[str], None],
        *,
        lease: LeaseFile | None = None,
        on_lease_over: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(name="stop-watch", daemon=True)
        self.requested = threading.Event()
        self.terminated = False  # by SIGTERM
        self.finishes = False  # the job does not continue: artifacts and a summary are wanted
        self.asked_by_file = False  # else by SIGTERM alone, as when horovodrun ends the peers of a failed rank
        self.stage = Stage.SETTING_UP
        self._stop_path = stop_path
        self._on_leave = on_leave
        self._lease = lease or LeaseFile(None)
        self._on_lease_over = on_lease_over

    def start(self) -> None:
        """Begin to watch. Call it on the main thread and before any other thread exists.

        SIGTERM is blocked in this thread and in all that inherit from it, so that only the watch receives it.
        """
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        super().start()

    def run(self) -> None:
        """Wait for SIGTERM and look for the file in between, for as long as the process lives."""
        while True:
            term = signal.sigtimedwait({signal.SIGTERM}, POLL_S)
            if term is not None and term.si_signo != signal.SIGTERM:
                term = None  # CPython returns an empty answer if SIGSTOP and SIGCONT came in between
            if self._lease.is_over():
                self._on_lease_over()
            self.asked_by_file = self.asked_by_file or self._stop_path.exists()
            if self.asked_by_file and not self.requested.is_set():
                self.finishes = self._stop_path.with_name(f"{self._stop_path.name}-finish").exists()
            self.terminated = self.terminated or term is not None
            if term or self.asked_by_file:
                self.requested.set()
                if self.stage is Stage.SETTING_UP or (term and self.stage is Stage.FINISHING):
                    by = f"SIGTERM from process {term.si_pid}" if term else "the stop file"
                    self._on_leave(f"asked to stop while not training, by {by}")
