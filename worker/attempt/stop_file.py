"""The stop file: ranks that see it save and leave. Made by the supervisor, and by the member on every other host.

With the finish file beside it they also leave artifacts and a summary, because their job does not continue. Both lie
ready under other names from the start, and only get their names when the ranks are to stop. So they can be made on a
full disk, where no new file can.
"""

import os
from pathlib import Path


def prepare(path: Path) -> None:
    """Put the files ready."""
    for file in (path, _finish_file(path)):
        _ready(file).touch()


def make(path: Path, *, finish: bool = False) -> None:
    """Make the stop file, after the finish file if the ranks are to `finish`. A second call changes nothing."""
    if finish:
        _make(_finish_file(path))
    _make(path)


def _make(path: Path) -> None:
    try:
        os.rename(_ready(path), path)
    except FileNotFoundError:
        path.touch()


def _finish_file(path: Path) -> Path:
    return path.with_name(f"{path.name}-finish")  # as `trainer.stopping` calls it


def _ready(path: Path) -> Path:
    return path.with_name(f"{path.name}-later")
