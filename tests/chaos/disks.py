"""A small disk in memory for the files of a host's jobs, so that a round can fill it. Only root can mount one."""

import os
import shutil
import subprocess
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path

from tests.full_disks import fill_up, use_up_files

_BYTES, _INODES = 512 * 2**20, 20_000
_FILL_PERIOD_S = 0.05  # what others remove meanwhile is taken again after this time


@cache
def reason_to_skip() -> str | None:
    """Why no disk can be mounted here; None if one can."""
    if os.geteuid() != 0:
        return "only root can mount a disk"
    tried = subprocess.run(
        ["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True, text=True, check=False
    )
    return None if tried.returncode == 0 else f"cannot mount: {tried.stderr.strip()}"


class Disk:
    """A disk mounted at `path`. Where that is not possible `path` is a folder, and `reason_to_skip` says why."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._is_mounted = False
        self._emptied = threading.Event()
        self._filler: threading.Thread | None = None
        self._taken: set[Path] = set()

    def mount(self) -> None:
        """Make the folder, and mount the disk there."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if reason_to_skip() is None:
            options = f"size={_BYTES},nr_inodes={_INODES},mode=700"
            subprocess.run(["mount", "-t", "tmpfs", "-o", options, "chaos", str(self.path)], check=True)
            self._is_mounted = True

    def unmount(self) -> None:
        """Free what was filled and unmount the disk, also if a process still has files open there."""
        self.empty()
        if self._is_mounted:
            subprocess.run(["umount", "--lazy", str(self.path)], check=True)
            self._is_mounted = False

    def fill(self, *, inodes: bool) -> None:
        """Take all bytes, or all inodes, and keep them until `empty`. Returns when the disk is full."""
        full = threading.Event()
        self._emptied.clear()
        target = use_up_files if inodes else fill_up
        self._filler = threading.Thread(target=self._keep_full, args=(target, full), name="filler", daemon=True)
        self._filler.start()
        full.wait(30)

    def empty(self) -> None:
        """Give back what `fill` took."""
        self._emptied.set()
        if self._filler is not None:
            self._filler.join()
            self._filler = None
        for taken in self._taken:
            shutil.rmtree(taken) if taken.is_dir() else taken.unlink(missing_ok=True)

    def _keep_full(self, take: Callable[[Path], Path], full: threading.Event) -> None:
        while not self._emptied.is_set():
            self._taken.add(take(self.path))
            full.set()
            self._emptied.wait(_FILL_PERIOD_S)
