"""The paths of an attempt's files on each of its hosts. Used by everything that writes or reads them."""

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from jobs.runtime import script_user, shared_memory
from jobs.runtime.files import make_private
from worker.attempt import notes, stop_file


@dataclass(frozen=True)
class AttemptPaths:
    """The paths of an attempt, below `HORA_HOME/runs/JOB`. A job's attempts share checkpoints and artifacts."""

    job_dir: Path
    number: int
    member: str | None = None  # the host, if it is not the lead

    @property
    def root(self) -> Path:
        return self.job_dir / f"attempt-{self.number}"

    @property
    def host_dir(self) -> Path:
        """The folder that the ranks of one host write and read. On the lead it is the attempt's own folder."""
        return self.root if self.member is None else self.root / "members" / self.member

    @property
    def launch_dir(self) -> Path:
        return self.root / "launch"

    @property
    def records(self) -> Path:
        return self.host_dir / "records"

    @property
    def logs(self) -> Path:
        return self.host_dir / "logs"

    @property
    def launcher_log(self) -> Path:
        return self.root / "logs" / "launcher.log"

    @property
    def supervisor_log(self) -> Path:
        return self.root / "supervisor.log"

    @property
    def stop_file(self) -> Path:
        return self.host_dir / "stop"

    @property
    def lease_file(self) -> Path:
        return self.host_dir / "lease"

    @property
    def scratch(self) -> Path:
        return self.root / "tmp"

    @property
    def code_archive(self) -> Path:
        """The archive of a script, until it is unpacked on all hosts."""
        return self.host_dir / "code.archive"

    @property
    def code(self) -> Path:
        """The copy of a script's code that the ranks of one host run in. It is removed at the end."""
        return self.host_dir / "code"

    @property
    def lib(self) -> Path:
        """The folder that is put on the path of a script's Python, for `hora.run`."""
        return self.host_dir / "lib"

    @property
    def own_checkpoints(self) -> Path:
        """Those that this attempt saves."""
        return self.checkpoints / f"attempt-{self.number}"

    @property
    def checkpoints(self) -> Path:
        return self.job_dir / "checkpoints"

    @property
    def artifacts(self) -> Path:
        return self.job_dir / "artifacts"

    def tidy(self, code_user: str | None) -> None:
        """Remove what nobody needs after the attempt: temporary files, and a script's code. Own what a script left.

        `code_user` is the user that ran the script. Call it when no process of the attempt is left.
        """
        if self.code.exists():
            script_user.take_back([self.artifacts, self.checkpoints], code_user)
        script_user.remove([self.scratch, self.code, self.lib, *self._shared_memory()], code_user)
        shared_memory.remove_unused(code_user)

    def _shared_memory(self) -> list[Path]:
        """The folders in memory that the scripts of a host share, as the launch files name them."""
        folders = []
        for file in self.launch_dir.glob("*.json"):
            with suppress(OSError, ValueError):
                script = json.loads(file.read_bytes())["script"]
                folders += [] if script is None else [Path(script["shared_memory"])]
        return folders

    def of_member(self, host: str) -> "AttemptPaths":
        """The same attempt on one of its other hosts."""
        return AttemptPaths(self.job_dir, self.number, host)

    def create(self, ranks: Iterable[int] = ()) -> None:
        """Make every folder, closed to other users, and the files that must be writable when the disk is full.

        `ranks` are those of the lead. Raises `OSError`.
        """
        for folder in (self.launch_dir, self.records, self.logs, self.scratch, self.checkpoints, self.artifacts):
            make_private(folder)
        stop_file.prepare(self.stop_file)
        notes.prepare(self.records, ranks)


def paths_of(runs_dir: Path, job_id: str, number: int) -> AttemptPaths:
    """The paths of attempt `number` of a job."""
    return AttemptPaths(runs_dir / job_id, number)
