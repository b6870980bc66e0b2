"""Pictures of studies, drawn by a process of their own (`api.plot`), so that this one keeps its memory.

Called by the routes of studies. A picture is refused with `Busy` where too many are wanted at once.
"""

import os
import subprocess
import sys
import threading
from functools import cache
from tempfile import TemporaryDirectory

import structlog

from api.problems import Broken, Unavailable
from jobs.insight.studies.plots import Plot

_AT_ONCE = threading.BoundedSemaphore(2)
_IN_LINE = threading.BoundedSemaphore(4)  # each holds a thread of the service: a fifth is refused
_LIMIT_S = 30.0  # the first picture of a process takes a few seconds, later ones about one

_log = structlog.get_logger(__name__)


class Busy(Unavailable):
    """Too many pictures are wanted at once."""

    def __init__(self) -> None:
        super().__init__("other pictures are being drawn; ask again")


def png_of(plot: Plot) -> bytes:
    """The picture. Raises `Busy`, and `Broken` where it cannot be drawn."""
    if not _IN_LINE.acquire(blocking=False):
        raise Busy
    try:
        with _AT_ONCE:
            return _drawn(plot)
    finally:
        _IN_LINE.release()


def _drawn(plot: Plot) -> bytes:
    # Nothing secret: the process that draws gets texts that people wrote, and needs no more than a place for its fonts.
    environment = {name: os.environ[name] for name in ("PATH", "LANG", "PYTHONPATH") if name in os.environ}
    environment["MPLCONFIGDIR"] = _folder().name
    argv = [sys.executable, "-m", "api.plot"]
    try:
        done = subprocess.run(
            argv, input=plot.model_dump_json().encode(), capture_output=True, env=environment, timeout=_LIMIT_S,
            check=True,
        )  # fmt: skip
    except subprocess.SubprocessError as error:
        stderr = getattr(error, "stderr", None) or b""
        _log.error("no picture", error=str(error), stderr=stderr[-2000:].decode("utf-8", "replace"))
        raise Broken from None
    return done.stdout


@cache
def _folder() -> "TemporaryDirectory[str]":
    """Where the processes keep the list of fonts, which takes seconds to make."""
    return TemporaryDirectory(prefix="hora-plot-", ignore_cleanup_errors=True)


def close() -> None:
    """Remove what was kept. A server that is told to stop ends by that signal, and runs no clean-up of Python's."""
    if _folder.cache_info().currsize:
        _folder().cleanup()
        _folder.cache_clear()
