"""Watches what the processes of a script use of the host: memory, and space in the folders that it may write.

Called by the rank that watches over the script, a few times a second. Standard library only.
"""

from collections.abc import Sequence
from pathlib import Path


class Limits:
    """The limits of one rank's script. `pid` is its first process; all below it count too."""

    def __init__(
        self, pid: int, *, memory_bytes: int | None, storage_bytes: int | None, folders: Sequence[Path]
    ) -> None:
        self._pid = pid

    def exceeded(self) -> tuple[str, str] | None:
        """(end reason, sentence for people) if the script uses more than it may: it must be killed. Else None."""
        return None

    def kill(self) -> None:
        """Kill every process of the script."""
