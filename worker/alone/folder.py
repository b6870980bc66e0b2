"""The folder of a run: what it trains, its attempts, and the lock that keeps a second job of Slurm out of it.

run.json               what it trains
attempt-1/             attempt.json, launch files, records and logs, as `worker.attempt.paths` names them
checkpoints/           from which the next attempt goes on
artifacts/             what it leaves
"""

import fcntl
import os
import secrets
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from jobs.model.runs import ATTEMPT_FILE, RUN_FILE, Run, RunAttempt
from jobs.model.spec import Spec
from jobs.model.states import EndReason
from jobs.runtime.files import make_private
from worker.attempt.paths import AttemptPaths

Content = TypeVar("Content", bound=BaseModel)


class FolderRefused(Exception):
    """The folder cannot be used for this run. The text says why."""


class RunFolder:
    """The folder of a run, which this process holds."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def lock(self) -> int:
        """Make the folder, and lock it until this process ends. Raises `FolderRefused`, `OSError`."""
        make_private(self.path)
        descriptor = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise FolderRefused(f"another job trains in {self.path}") from None
        return descriptor

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

    def end_lost(self, attempt: RunAttempt) -> None:
        """Write the end of an attempt that could not write it itself: it ended with its last record."""
        records = self.paths(attempt.number).records
        written_at = [file.stat().st_mtime for file in records.iterdir()] if records.is_dir() else []
        last = datetime.fromtimestamp(max(written_at), UTC) if written_at else attempt.started_at
        lost = {"reason": EndReason.HOST_LOST, "error": "Slurm ended the job at once: it could not write how it ended"}
        self.store(attempt.model_copy(update={**lost, "ended_at": max(last, attempt.started_at)}))


def _read(file: Path, model: type[Content]) -> Content:
    try:
        return model.model_validate_json(file.read_bytes())
    except ValidationError as error:
        raise FolderRefused(f"{file} is damaged: {error.errors()[0]['msg']}") from None


def _write(file: Path, content: BaseModel) -> None:
    unfinished = file.with_suffix(".new")
    unfinished.write_text(content.model_dump_json(indent=2), "utf-8")
    os.replace(unfinished, file)
