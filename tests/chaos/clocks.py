"""Clocks of the parts of a stage. Each can be set forward or back; the machine's own clock stays.

The parts load a small library (`clock.c`) that adds a file's seconds to the wall clock. Ranks do not: their environment
is made anew. `PYTHONPATH` reaches them, so a `sitecustomize.py` there moves Python's `time.time`, which stamps their
records.
"""

import os
import struct
import subprocess
from functools import cache
from pathlib import Path

_SOURCE = Path(__file__).with_name("clock.c")
_SECONDS = struct.Struct("q")
_LIBRARY = "clock.so"
_OF_RANKS = """
import mmap, os, struct, time
if "CHAOS_CLOCK" not in os.environ:
    with open({file!r}, "rb") as file:
        _ahead = mmap.mmap(file.fileno(), 8, access=mmap.ACCESS_READ)
    _now = time.time
    time.time = lambda: _now() + struct.unpack("q", _ahead[:])[0]
"""


@cache
def reason_to_skip() -> str | None:
    """Why no clock can be set here; None if they can."""
    try:
        tried = _compile(Path(os.devnull))
    except OSError as error:
        return f"cc does not run: {error.strerror}"
    return None if tried.returncode == 0 else f"cc failed: {tried.stderr.strip().splitlines()[-1]}"


def _compile(library: Path) -> "subprocess.CompletedProcess[str]":
    argv = ["cc", "-O2", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-o", str(library), str(_SOURCE)]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


class Clock:
    """The clock of some processes. They must start with its `environment`, and `python_path` as their PYTHONPATH."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o755, parents=True)
        self.folder = folder
        self._file = folder / "ahead"
        self.set(0)
        self._file.chmod(0o644)  # the database's own user reads it
        if reason_to_skip() is None:
            _compile(folder / _LIBRARY).check_returncode()
            (folder / "sitecustomize.py").write_text(_OF_RANKS.format(file=str(self._file)))

    @property
    def environment(self) -> dict[str, str]:
        """The variables with which a process has this clock; none if no clock can be set here."""
        if reason_to_skip() is not None:
            return {}
        return {"LD_PRELOAD": str(self.folder / _LIBRARY), "CHAOS_CLOCK": str(self._file)}

    def set(self, ahead_s: int) -> None:
        """Set it to `ahead_s` after the machine's clock, at once. The file stays, because the processes mapped it."""
        file = os.open(self._file, os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            os.pwrite(file, _SECONDS.pack(ahead_s), 0)
        finally:
            os.close(file)
