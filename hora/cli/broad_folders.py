"""Asks before a folder is registered as a dataset that is hardly meant: one of the system, or a very large one.

Called by `hora dataset add`.
"""

import os
import sys
from pathlib import Path

import typer

from hora.render.text import plain
from jobs.runtime.files import size_text

_ROOT = Path("/")
_OF_SYSTEM = frozenset(  # below the root
    (
        "bin", "boot", "dev", "etc", "home", "lib", "lib64", "media", "mnt", "opt", "proc", "root", "run", "sbin",
        "srv", "sys", "tmp", "usr", "var",
    )
)  # fmt: skip
_NO_DATA_BELOW = tuple(map(Path, ("/boot", "/dev", "/etc", "/proc", "/sys")))
_WITHOUT_OWN_DATA = (Path("/usr"), Path("/var"))  # what lies in one of their folders may be data
_LARGE_BYTES = 100 * 10**9
_MOST_FILES = 1_000_000  # are counted


def confirm_breadth(folder: Path, *, may_ask: bool) -> None:
    """Ask a person whether they mean such a folder. Raises `BadParameter` where nobody can answer, and `Abort`."""
    if not folder.is_dir():
        return
    kind, size = kind_of(folder), size_of(folder)
    if kind is None and size[0] <= _LARGE_BYTES and size[1] <= _MOST_FILES:
        return
    said = f"{plain(folder)} is {kind or 'a very large folder'}: {_in_words(size)}"
    if not (may_ask and sys.stdin.isatty() and sys.stderr.isatty()):
        raise typer.BadParameter(f"{said}; if you mean it, add --yes", param_hint="PATH")
    if not typer.confirm(f"{said}. Register all of it as a dataset?", err=True):
        raise typer.Abort


def kind_of(folder: Path) -> str | None:
    """What a folder is that is hardly a dataset. None: it may well be one. Links are followed."""
    real = folder.resolve()
    if real == Path.home().resolve():
        return "your home folder"
    at_top = real == _ROOT or (real.parent == _ROOT and real.name in _OF_SYSTEM)
    if at_top or real.parent in _WITHOUT_OWN_DATA or any(real.is_relative_to(above) for above in _NO_DATA_BELOW):
        return "a folder of the system"
    return None


def size_of(folder: Path) -> tuple[int, int]:
    """The bytes and the number of files below a folder. It stops at a million files. Links are not followed."""
    total_bytes = files = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total_bytes += os.lstat(os.path.join(parent, name)).st_size
            except OSError:  # it is gone, or cannot be read
                continue
            files += 1
            if files > _MOST_FILES:
                return total_bytes, files
    return total_bytes, files


def _in_words(size: tuple[int, int]) -> str:
    total_bytes, files = size
    more = "more than " if files > _MOST_FILES else ""
    return f"{more}{size_text(total_bytes)} in {min(files, _MOST_FILES):,} file{'s' * (files != 1)}"
