"""Watches for the wish to stop: the stop file or SIGTERM. Started first thing in every rank.

A thread of its own, so that a rank is not deaf while its main thread waits inside TensorFlow or Horovod, where
Python runs no signal handler.
"""

import signal
import threading
from collections.abc import Callable
from enum import Enum, auto
from pathlib import Path

POLL_S = 0.1


class Stage(Enum):
    """What a wish to stop means at the moment."""

    SETTING_UP = auto()  # leave at once: there is nothing to save yet
    TRAINING = auto()  # only note it: the ranks agree on the step to stop at, then save a checkpoint
    FINISHING = auto()  # the file is ignored, the end is near; SIGTERM means leave at once


class StopWatch(threading.Thread):
    """Sets `requested` when the stop file appears or SIGTERM comes, and leaves where `stage` says so."""

    def __init__(self, stop_path: Path, on_leave: Callable[[str], None]) -> None:
        super().__init__(name="stop-watch", daemon=True)
        self.requested = threading.Event()
        self.asked_by_file = False  # else by SIGTERM alone, as when horovodrun ends the peers of a failed rank
        self.stage = Stage.SETTING_UP
        self._stop_path = stop_path
        self._on_leave = on_leave

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
            self.asked_by_file = self.asked_by_file or self._stop_path.exists()
            if term or self.asked_by_file:
                self.requested.set()
                if self.stage is Stage.SETTING_UP or (term and self.stage is Stage.FINISHING):
                    by = f"SIGTERM from process {term.si_pid}" if term else "the stop file"
                    self._on_leave(f"asked to stop while not training, by {by}")
