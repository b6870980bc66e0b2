"""The folder of a run: what it trains, its attempts, and the lock that keeps a second job of Slurm out of it.

run.json               what it trains
attempt-1/             attempt.json, launch files, records and logs, as `worker.attempt.paths` names them
checkpoints/           from which the next attempt goes on
artifacts/             what it leaves
"""

import os
import secrets
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from jobs.copies.local_files import write_whole
from jobs.model.runs import ATTEMPT_FILE, RUN_FILE, Run, RunAttempt
from jobs.model.spec import Spec
from jobs.runtime import run_folders
from jobs.runtime.files import make_private
from jobs.runtime.run_folders import last_written_at
from worker.attempt.paths import AttemptPaths

Content = TypeVar("Content", bound=BaseModel)


class FolderRefused(Exception):
    """The folder cannot be used for this run. The text says why."""


class RunFolder:
    """The folder of a run, which this process holds."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def lock(self) -> int:
        """Make the folder, and lock it until this process ends. Raises `FolderInUse`, `FolderRefused`, `OSError`."""
        make_private(self.path)
        _check_own(self.path)
        return run_folders.lock(self.path, makes_file=True)

    def open_run(self, spec: Spec) -> Run:
        """The run of this folder, which begins if the folder is new. Raises `FolderRefused`, `OSError`.

        A later attempt may have another number of ranks: Slurm decides it.
        """
        file = self.path / RUN_FILE
        if not file.exists():
            run = Run(id=secrets.token_hex(8), version=version("hora"), created_at=datetime.now(UTC), spec=spec)
            _write(file, run)
            return run
        run = _read(file, Run)
        if run.spec.model_copy(update={"gpus": spec.gpus}) != spec:
            raise FolderRefused(
                f"{self.path} has the run of another spec: export this one again, for a folder of its own"
            )
        return run

    def attempts(self) -> list[RunAttempt]:
        """The attempts so far, the first one first. Raises `FolderRefused`, `OSError`."""
        found = list[RunAttempt]()
        while (file := self.paths(len(found) + 1).root / ATTEMPT_FILE).exists():
            found.append(_read(file, RunAttempt))
        return found

    def paths(self, number: int) -> AttemptPaths:
        """The paths of an attempt."""
        return AttemptPaths(self.path, number)

    def store(self, attempt: RunAttempt) -> None:
        """Write what is known of an attempt."""
        _write(self.paths(attempt.number).root / ATTEMPT_FILE, attempt)

    def end_lost(self, attempt: RunAttempt) -> RunAttempt:
        """Write the end of an attempt that could not write it itself, and return the attempt with it."""
        lost = attempt.lost(last_written_at(self.paths(attempt.number).records))
        self.store(lost)
        return lost


def _check_own(folder: Path) -> None:
    """Whoever may write there could let this process write elsewhere. Raises `FolderRefused`."""
    status = folder.stat()
    if status.st_uid != os.geteuid():
        raise FolderRefused(f"{folder} belongs to another user")
    if status.st_mode & 0o022:
        raise FolderRefused(f"other users may write in {folder}: take that from them first, with chmod go-w")


def _read(file: Path, model: type[Content]) -> Content:
    try:
        return model.model_validate_json(file.read_bytes())
    except ValidationError as error:
        raise FolderRefused(f"{file} is damaged: {error.errors()[0]['msg']}") from None


def _write(file: Path, content: BaseModel) -> None:
    write_whole(file, lambda target: target.write(content.model_dump_json(indent=2).encode()))
