"""Pictures of studies, drawn by a process of their own (`api.plot`), so that this one keeps its memory.

Called by the routes of studies. When too many pictures are requested at once, the next one is refused with `Busy`.
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
from jobs.runtime.space import is_full

_DRAWING = threading.BoundedSemaphore(2)
_WAITING_OR_DRAWING = threading.BoundedSemaphore(4)  # each holds a thread of the service: a fifth is refused
_LIMIT_S = 30.0  # the first picture of a process takes a few seconds, later ones about one

_log = structlog.get_logger(__name__)


class Busy(Unavailable):
    """Too many pictures are requested at once."""

    def __init__(self) -> None:
        super().__init__("too many pictures are being drawn; try again")


def png_of(plot: Plot) -> bytes:
    """The picture. Raises `Busy`, and `Broken` where it cannot be drawn."""
    if not _WAITING_OR_DRAWING.acquire(blocking=False):
        raise Busy
    try:
        with _DRAWING:
            return _draw(plot)
    finally:
        _WAITING_OR_DRAWING.release()


def _draw(plot: Plot) -> bytes:
    # No secrets: the process gets texts that people wrote. It needs only a folder for its fonts.
    environment = {name: os.environ[name] for name in ("PATH", "LANG", "PYTHONPATH") if name in os.environ}
    try:
        environment["MPLCONFIGDIR"] = _font_folder().name
    except OSError as error:
        if not is_full(error):
            raise
        raise Unavailable("there is no space for the picture in the temporary folder of the api") from error
    argv = [sys.executable, "-m", "api.plot"]
    try:
        process = subprocess.run(
            argv, input=plot.model_dump_json().encode(), capture_output=True, env=environment, timeout=_LIMIT_S,
            check=True,
        )  # fmt: skip
    except subprocess.SubprocessError as error:
        stderr = getattr(error, "stderr", None) or b""
        _log.error("no picture", error=str(error), stderr=stderr[-2000:].decode("utf-8", "replace"))
        raise Broken from None
    return process.stdout


@cache
def _font_folder() -> "TemporaryDirectory[str]":
    """Where the processes keep their list of fonts, which takes seconds to make."""
    return TemporaryDirectory(prefix="hora-plot-", ignore_cleanup_errors=True)


def close() -> None:
    """Remove the list of fonts. A server that ends by a signal does not run Python's own clean-up."""
    if _font_folder.cache_info().currsize:
        _font_folder().cleanup()
        _font_folder.cache_clear()
