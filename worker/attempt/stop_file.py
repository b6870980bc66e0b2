"""The stop file: ranks that see it save and leave. Made by the supervisor, and by the member on every other host.

It lies ready under another name from the start, and only gets its name when the ranks are to stop. So it can be made on
a full disk, where no new file can.
"""

import os
from pathlib import Path


def prepare(path: Path) -> None:
    """Put the file ready."""
    _ready(path).touch()


def make(path: Path) -> None:
    """Make the stop file. A second call changes nothing."""
    try:
        os.rename(_ready(path), path)
    except FileNotFoundError:
        path.touch()


def _ready(path: Path) -> Path:
    return path.with_name(f"{path.name}-later")
