"""What the files of a script take, on disks and in memory. Measured by a thread of its own, because that can take long.

Used by `trainer.script.limits`. Standard library only.
"""

import os
import re
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from jobs.runtime.shared_memory import SHARED_MEMORY, FileKey, files_of

_PERIOD_S = 0.5
_SHARE_OF_TIME = 0.1  # that measuring may take
_BLOCK_BYTES = 512  # of st_blocks
_BYTES_OF_FILE = 16 * 1024  # that a file counts at least: ext4 has one inode for as many bytes
_IN_MEMORY = ("/memfd:", f"{SHARED_MEMORY}/", "/dev/zero", "/SYSV")
_DELETED = " (deleted)"
# proc_pid_maps(5): begin-end, rights, offset, device, inode, name
_MAPPING = re.compile(
    r"^([0-9a-f]+)-([0-9a-f]+) \S+ \S+ ([0-9a-f]+):([0-9a-f]+) (\d+) +(.+) \(deleted\)$", re.MULTILINE
)


class FileUsage(threading.Thread):
    """Measures again and again what lies in folders, and files without a name that the `processes` hold.

    `on_disk` and `in_memory` are folders; files among them count too. All that `uid` has in /dev/shm counts as well:
    where scripts share it, nobody knows which of them wrote what.
    """

    def __init__(
        self,
        processes: Callable[[], Sequence[int]],
        *,
        on_disk: Sequence[Path],
        in_memory: Sequence[Path],
        uid: int | None = None,
    ) -> None:
        super().__init__(name="file usage", daemon=True)
        self._processes = processes
        self._on_disk = list(map(str, on_disk))
        self._in_memory = list(map(str, in_memory))
        self._uid = uid
        self.pids: Collection[int] = ()  # of the programs that measure, which are not the script's
        self.on_disk_bytes = 0
        self.in_memory_bytes = 0
        self.count = 0  # files and folders on disks

    def run(self) -> None:
        """Measure until the process ends."""
        while True:
            began = time.monotonic()
            with suppress(OSError):  # no process can be started now: the next look may find one
                self.measure()
            time.sleep(max((time.monotonic() - began) / _SHARE_OF_TIME, _PERIOD_S))

    def measure(self) -> None:
        """Measure once."""
        unnamed_on_disk, unnamed_in_memory = unnamed_bytes(self._processes())
        self.in_memory_bytes = unnamed_in_memory + self._sum_below(self._in_memory, "--block-size=1")
        if self._uid is not None:
            shared = files_of(self._uid)
            self.in_memory_bytes += sum(status.st_blocks * _BLOCK_BYTES for _, status in shared)
        self.count = self._sum_below(self._on_disk, "--inodes")
        used_bytes = self._sum_below(self._on_disk, "--block-size=1") + unnamed_on_disk
        self.on_disk_bytes = max(used_bytes, self.count * _BYTES_OF_FILE)

    def _sum_below(self, folders: Sequence[str], unit: str) -> int:
        """What `du` says of these folders and files together, however deep. A file with several names counts once."""
        filled = [folder for folder in folders if not _is_empty(folder)]
        if not filled:
            return 0
        argv = ["du", "-s", "-c", unit, "--", *filled]
        with subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as measuring:
            self.pids = (measuring.pid,)
            output, _ = measuring.communicate()
        self.pids = ()
        try:
            return int(output.splitlines()[-1].split()[0])
        except (ValueError, IndexError):
            return 0


def unnamed_bytes(pids: Collection[int]) -> tuple[int, int]:
    """Bytes of the files without a name that these processes hold open or have mapped: on disks, and in memory."""
    sizes: dict[FileKey, tuple[bool, int]] = {}
    for pid in pids:
        for key, name, size_bytes in (*_open_files(pid), *_mapped_files(pid)):
            before = sizes.get(key, (False, 0))[1]
            sizes[key] = name.startswith(_IN_MEMORY), max(before, size_bytes)
    on_disk = sum(size for is_in_memory, size in sizes.values() if not is_in_memory)
    return on_disk, sum(size for is_in_memory, size in sizes.values() if is_in_memory)


def _open_files(pid: int) -> Iterator[tuple[FileKey, str, int]]:
    with suppress(OSError):
        for number in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                name = os.readlink(f"/proc/{pid}/fd/{number}")
                if name.endswith(_DELETED):
                    status = os.stat(f"/proc/{pid}/fd/{number}")
                    yield (status.st_dev, status.st_ino), name, status.st_blocks * _BLOCK_BYTES


def _mapped_files(pid: int) -> Iterator[tuple[FileKey, str, int]]:
    """Mapped files without a name. Only root may look at a whole one: of others the mapped part counts."""
    try:
        text = Path(f"/proc/{pid}/maps").read_text(errors="replace")
    except OSError:
        return
    if _DELETED not in text:
        return
    for begin_hex, end_hex, major, minor, inode, name in _MAPPING.findall(text):
        begin, end = int(begin_hex, 16), int(end_hex, 16)
        try:
            status = os.stat(f"/proc/{pid}/map_files/{begin:x}-{end:x}")
        except OSError:
            yield (os.makedev(int(major, 16), int(minor, 16)), int(inode)), name, end - begin
        else:
            yield (status.st_dev, status.st_ino), name, status.st_blocks * _BLOCK_BYTES


def _is_empty(folder: str) -> bool:
    """Whether there is nothing to measure, so that a look at an empty folder starts no program."""
    try:
        with os.scandir(folder) as entries:
            return next(entries, None) is None
    except OSError:
        return False
