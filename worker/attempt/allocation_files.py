"""The files of a Slurm pool, through which its worker, its supervisors and the scripts on the nodes talk to each other.

Used by `worker.slurm`, and by supervisors.
"""

import fcntl
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from jobs.runtime.files import make_private
from jobs.runtime.settings import Settings


@dataclass(frozen=True)
class AllocationFiles:
    """The files of the allocations of a pool, below `HORA_HOME`, which the nodes see too."""

    root: Path

    @property
    def alive(self) -> Path:
        """The worker of the pool touches it again and again."""
        return self.root / "alive"

    def folder(self, name: str) -> Path:
        """The folder of an allocation."""
        return self.root / name

    def leaving(self, name: str) -> Path:
        """The file that its script makes when Slurm is about to take the nodes back."""
        return self.folder(name) / "leaving"

    def lock(self) -> int | None:
        """Lock the pool for this process; returns the locked file. None: another worker has it. Raises `OSError`."""
        make_private(self.root)
        descriptor = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            if isinstance(error, BlockingIOError):
                return None
            raise
        return descriptor

    def touch(self) -> None:
        """Show that the worker of the pool is there."""
        self.alive.touch()

    def prepare(self, name: str) -> None:
        """Make the folder of an allocation, without what an earlier one of the same attempt left."""
        self.remove(name)
        make_private(self.folder(name))

    def finish(self, name: str) -> None:
        """Tell the script to end. Its folder may be gone."""
        with suppress(OSError):
            (self.folder(name) / "over").touch()

    def is_finishing(self, name: str) -> bool:
        """Whether the script was told to end."""
        return (self.folder(name) / "over").exists()

    def remove(self, name: str) -> None:
        """Remove the folder of an allocation that is over."""
        folder = self.folder(name)
        with suppress(OSError):
            for path in folder.iterdir():
                path.unlink()
            folder.rmdir()


def files_of(settings: Settings) -> AllocationFiles:
    """The files of the pool of this worker."""
    return AllocationFiles(settings.home / "slurm" / settings.host.partition(":")[2])
