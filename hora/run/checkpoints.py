"""Checkpoints of a script: complete folders, or none, whenever its process ends."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from hora.run.channel import send
from hora.run.checks import count
from hora.run.given import is_inside, rank, values

_saved: dict[str, Path] = {}


@contextlib.contextmanager
def checkpoint(step: int) -> Iterator[Path]:
    """Give a folder to write the checkpoint of a step into. It is kept when the block ends without an exception.

    It is complete or not there at all, whenever the process ends. Only that of rank 0 is kept. Raises `OSError`.
    """
    number = count("step", step)
    if rank != 0:
        with tempfile.TemporaryDirectory(prefix="checkpoint-") as name:
            yield Path(name)
        return
    began = time.perf_counter()
    folder = Path(values.get("checkpoints", "checkpoints")).absolute()
    place, unfinished = folder / f"step-{number:010d}", folder / f".unfinished-{number:010d}-{os.getpid()}"
    unfinished.mkdir(parents=True)
    try:
        yield unfinished
        _sync_below(unfinished)
        replaced = _put_in_place(unfinished, place)
        _sync(folder)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    if replaced is not None:
        with contextlib.suppress(RecursionError):  # what stays is removed when the job's next attempt starts
            shutil.rmtree(replaced, ignore_errors=True)
    _saved["newest"] = place
    duration_s = time.perf_counter() - began
    send({"kind": "checkpoint", "at": time.time(), "step": number, "duration_s": duration_s})


def _put_in_place(unfinished: Path, place: Path) -> Path | None:
    """Give a finished folder its name. Returns the new, hidden path of an earlier folder of the same step.

    A reader finds a whole folder or none under the name. After a crash between the two renames there is none. The older
    checkpoints are still there, unless the job keeps only one.
    """
    if not place.exists():
        os.rename(unfinished, place)
        return None
    replaced = unfinished.with_name(f"{unfinished.name}-{time.time_ns()}")  # if an earlier one could not be removed
    os.rename(place, replaced)
    try:
        os.rename(unfinished, place)
    except BaseException:
        with contextlib.suppress(OSError):  # the new one may have its name already
            os.rename(replaced, place)
        raise
    return replaced


def latest_checkpoint() -> Path | None:
    """The folder of the newest complete checkpoint of the job, of earlier attempts too; None if there is none.

    Ranks on other hosts than rank 0 get None: load on rank 0 and broadcast.
    """
    if "newest" in _saved:
        return _saved["newest"]
    if not is_inside:
        folders = sorted(Path("checkpoints").absolute().glob("step-" + "[0-9]" * 10))
        return folders[-1] if folders else None
    newest = values.get("latest_checkpoint")
    if newest is None:
        return None
    send({"kind": "resumed", "at": time.time(), "step": int(Path(newest).name.rpartition("-")[2])})
    return Path(newest)


def _sync_below(folder: Path) -> None:
    for path, _, names in os.walk(folder):
        for name in names:
            file = os.path.join(path, name)
            if not os.path.islink(file):
                _sync(Path(file))
        _sync(Path(path))


def _sync(path: Path) -> None:
    opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
