"""Pictures of studies and files of articles, made by processes of their own (`plot`, `article_page`).

So this process keeps its memory. Called by the routes of studies and articles. When too many are requested at once,
the next one is refused with `Busy`.
"""

import os
import subprocess
import sys
import threading
from functools import cache
from tempfile import TemporaryDirectory

import structlog

from api.problems import Broken, Problem, Unavailable
from jobs.insight.articles.document import Document
from jobs.insight.studies.plots import Plot
from jobs.runtime.space import is_full

_DRAWING = threading.BoundedSemaphore(2)
_WAITING_OR_DRAWING = threading.BoundedSemaphore(4)  # each holds a thread of the service: a fifth is refused
_NO_PDF = 3  # the exit status of `article_page` without the libraries that PDF needs
_LIMIT_S = 30.0  # the first picture of a process takes a few seconds, later ones about one

_log = structlog.get_logger(__name__)


class Busy(Unavailable):
    """Too many pictures are requested at once."""

    def __init__(self) -> None:
        super().__init__("too many pictures are being drawn; try again")


class NoPdf(Problem):
    """The api's machine lacks the libraries that PDF needs."""

    def __init__(self) -> None:
        detail = (
            "this service cannot make PDF: its machine lacks Pango (Debian: apt-get install libpangoft2-1.0-0"
            " libharfbuzz-subset0); ask for html, and print that"
        )
        super().__init__(501, "no-pdf", "PDF is not available", detail)


def png_of(plot: Plot) -> bytes:
    """The picture. Raises `Busy`, and `Broken` where it cannot be drawn."""
    return _made_by("api.processes.plot", plot)


def file_of(document: Document) -> bytes:
    """The article as one file of HTML or PDF. Raises `Busy`, `NoPdf`, and `Broken` where it cannot be made."""
    return _made_by("api.processes.article_page", document)


def _made_by(module: str, described: Plot | Document) -> bytes:
    if not _WAITING_OR_DRAWING.acquire(blocking=False):
        raise Busy
    try:
        with _DRAWING:
            return _run(module, described)
    finally:
        _WAITING_OR_DRAWING.release()


def _run(module: str, described: Plot | Document) -> bytes:
    # No secrets: the process gets texts that people wrote. It needs only a folder for its fonts.
    environment = {name: os.environ[name] for name in ("PATH", "LANG", "PYTHONPATH") if name in os.environ}
    try:
        environment["MPLCONFIGDIR"] = _font_folder().name
    except OSError as error:
        if not is_full(error):
            raise
        raise Unavailable("there is no space for the picture in the temporary folder of the api") from error
    argv = [sys.executable, "-m", module]
    try:
        process = subprocess.run(
            argv, input=described.model_dump_json().encode(), capture_output=True, env=environment, timeout=_LIMIT_S,
            check=True,
        )  # fmt: skip
    except subprocess.SubprocessError as error:
        if isinstance(error, subprocess.CalledProcessError) and error.returncode == _NO_PDF:
            raise NoPdf from None
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
