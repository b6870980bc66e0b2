"""The lease file: until when the ranks of a host may run. Their supervisor or member rewrites it regularly.

Ranks exit at that time without asking: their supervisor may be stopped, dead or cut off, and their job may already run
on another host. The supervisor writes it on the lead host, the member on every other host. `trainer.stopping` reads it.
The time is that of CLOCK_MONOTONIC, which is the same in all processes of a host and cannot be set.

The file is made once and then overwritten in place, with a text of the same length. So a lease can be extended on a
full disk too: a file beside it would need a block and an inode. A reader may see half of a new text, so each has a
checksum.
"""

import os
import zlib
from pathlib import Path


def extend(path: Path, until: float) -> None:
    """Let the ranks run until `until`, a value of `time.monotonic()`."""
    text = _text_of(until)
    try:
        file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        unfinished = path.with_suffix(".new")
        unfinished.write_bytes(text)
        os.replace(unfinished, path)
        return
    try:
        os.pwrite(file, text, 0)
    finally:
        os.close(file)


def read_until(path: Path) -> float | None:
    """Until when the ranks may run. None if there is no such file yet, or if it was read in the middle of a write."""
    try:
        words = path.read_bytes().split()
        until = float(words[0])
    except (FileNotFoundError, ValueError, IndexError):
        return None
    # Older versions wrote the time alone.
    return until if len(words) == 1 or _text_of(until).split() == words else None


def _text_of(until: float) -> bytes:
    time_text = f"{until:020.6f}"
    return f"{time_text} {zlib.crc32(time_text.encode()):08x}\n".encode()
