"""Small real disks (tmpfs) that tests fill up. Making one needs the right to mount; without it a test is skipped."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path, *, size_bytes: int = 16 * 2**20, files: int = 2000) -> Iterator[Path]:
    """A file system of its own at `folder`, which is made if it does not exist. It is gone after the block."""
    folder.mkdir(parents=True, exist_ok=True)
    options = f"size={size_bytes},nr_inodes={files},mode=0755"
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "none", str(folder)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"this user may not mount a tmpfs: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:  # lazily: a process of the test may still have a file open there
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill_up(folder: Path, *, but_bytes: int = 0) -> Path:
    """Use up the disk's bytes, but for so many. Remove the returned file to make room again."""
    fill = folder / ".fill"
    with fill.open("ab", buffering=0) as file:
        for piece in (2**20, 4096, 1):
            with suppress(OSError):
                while file.write(b"\0" * piece):
                    pass
        if but_bytes:
            file.truncate(max(0, file.tell() - but_bytes))
    return fill


def make_read_only(folder: Path) -> None:
    """Remount the disk as the system does after an error. No file there may be open for writing."""
    subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)


@contextmanager
def read_only_from_now_on(folder: Path) -> Iterator[None]:
    """Let nobody write there by a path. Files may be open for writing, and these stay so."""
    subprocess.run(["mount", "--bind", str(folder), str(folder)], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", str(folder)], check=True)
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def use_up_files(folder: Path) -> Path:
    """Use up the disk's inodes, again if it was done before. Remove the returned folder to make room again."""
    names = folder / ".files"
    names.mkdir(exist_ok=True)
    with suppress(OSError):
        for number in count(len(os.listdir(names))):
            (names / str(number)).touch()
    return names
