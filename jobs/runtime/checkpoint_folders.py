"""Where a host has the checkpoints of a job, and how they are named. Standard library only.

    checkpoints/attempt-2/checkpoint-0000000123.npz    of Hora's own loop
    checkpoints/attempt-2/step-0000000123/             of a script: a folder
    checkpoints/attempt-0/                             of another job, from which this one continues
    checkpoints/script.json                            what its rank 0 knew of the run at each of them

A checkpoint is complete when it has this name. Used by ranks, which make them, and by what copies and fetches them.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SCRIPT_STATES = "script.json"
OTHER_JOB = 0  # in place of the number of an attempt
_ATTEMPT = re.compile(r"attempt-([0-9]{1,9})")
_STEP = re.compile(r"step-([0-9]{10,18})")
_FILE = re.compile(r"checkpoint-([0-9]{10,18})\.npz")


@dataclass(frozen=True)
class LocalCheckpoint:
    """A complete checkpoint on this host: a file of Hora's own loop, or a folder of a script."""

    attempt: int
    step: int
    path: Path


def attempt_folder(root: Path, attempt: int) -> Path:
    """Where an attempt saves its checkpoints."""
    return root / f"attempt-{attempt}"


def checkpoint_file(folder: Path, step: int) -> Path:
    """The checkpoint of a step that Hora's own loop saves in the folder of its attempt."""
    return folder / f"checkpoint-{step:010d}.npz"


def checkpoint_folder(folder: Path, step: int) -> Path:
    """The checkpoint of a step that a script saves in the folder of its attempt."""
    return folder / f"step-{step:010d}"


def attempt_folders(root: Path) -> list[tuple[int, Path]]:
    """The folders of attempts with their numbers. Links are left out."""
    try:
        with os.scandir(root) as entries:
            matches = [(_ATTEMPT.fullmatch(entry.name), entry) for entry in entries]
            return [(int(m[1]), Path(e.path)) for m, e in matches if m and e.is_dir(follow_symlinks=False)]
    except (FileNotFoundError, NotADirectoryError):
        return []


def complete_in(attempt: int, folder: Path, *, of_script: bool) -> list[LocalCheckpoint]:
    """The complete checkpoints in the folder of an attempt, the newest first."""
    return sorted(_complete_in(attempt, folder, of_script), key=lambda checkpoint: checkpoint.step, reverse=True)


def complete_below(root: Path, *, of_script: bool) -> list[LocalCheckpoint]:
    """The complete checkpoints of all attempts, the newest first."""
    found = [one for number, folder in attempt_folders(root) for one in _complete_in(number, folder, of_script)]
    return sorted(found, key=lambda checkpoint: (checkpoint.step, checkpoint.attempt), reverse=True)


def _complete_in(attempt: int, folder: Path, of_script: bool) -> Iterator[LocalCheckpoint]:
    pattern = _STEP if of_script else _FILE
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                match = pattern.fullmatch(entry.name)
                is_right_kind = (
                    entry.is_dir(follow_symlinks=False) if of_script else entry.is_file(follow_symlinks=False)
                )
                if match and is_right_kind:
                    yield LocalCheckpoint(attempt, int(match[1]), Path(entry.path))
    except (FileNotFoundError, NotADirectoryError):
        return
