"""The newest step of each rank of this host, from the end of the records that it writes itself. Used by the sampler.

A job's own progress lags behind by the time that lines take to be stored; the file does so by a quarter of a second.
What user code may have put in the file's place (a pipe, a link, garbage) stops nothing and is no step.
"""

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from jobs.model.records import (
    CheckpointSaved,
    EpochEnded,
    Planned,
    RankEpochEnded,
    StepEnded,
    parse_record,
    rank_records_name,
)
from worker.attempt.paths import paths_of

_END_BYTES = 4096  # holds the newest steps: a line of one takes some 300


class Step(NamedTuple):
    """How far a rank is, in steps and epochs of the whole job."""

    step: int | None = None
    epoch: int | None = None


NO_STEP = Step()


@dataclass(frozen=True)
class RankOnHost:
    """A rank of an attempt that has a slot of this host."""

    job_id: str
    attempt: int
    rank: int
    is_led_here: bool


class RankSteps:
    """Looks at the files again and again; a file that has not grown is not read."""

    def __init__(self, runs_dir: Path, *, host: str) -> None:
        self._runs_dir = runs_dir
        self._host = host
        self._paths: dict[RankOnHost, Path] = {}
        self._seen: dict[RankOnHost, tuple[int, Step]] = {}  # the size of the file, and the newest step in it

    def read(self, ranks: Sequence[RankOnHost]) -> dict[RankOnHost, Step]:
        """The newest step of each of the ranks; `NO_STEP` of one that has made none."""
        self._paths = {rank: self._paths.get(rank) or self._path(rank) for rank in ranks}
        self._seen = {rank: self._newest(rank) for rank in ranks}
        return {rank: step for rank, (_, step) in self._seen.items()}

    def _path(self, rank: RankOnHost) -> Path:
        paths = paths_of(self._runs_dir, rank.job_id, rank.attempt)
        own = paths if rank.is_led_here else paths.of_member(self._host)
        return own.records / rank_records_name(rank.rank)

    def _newest(self, rank: RankOnHost) -> tuple[int, Step]:
        size, step = self._seen.get(rank, (0, NO_STEP))
        try:
            # A pipe would be waited for, and a link may lead anywhere.
            file = os.open(self._paths[rank], os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return size, step
        try:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode) or status.st_size == size:
                return size, step
            end = os.pread(file, _END_BYTES, max(0, status.st_size - _END_BYTES))
        except OSError:
            return size, step
        finally:
            os.close(file)
        return status.st_size, newest_step(end) or step


def newest_step(end: bytes) -> Step | None:
    """The step of the last whole line that tells of one; None where none does. The first line may lack its start."""
    for line in reversed(end.split(b"\n")[:-1]):
        match parse_record(line):
            case StepEnded() | RankEpochEnded() | EpochEnded() | CheckpointSaved() as record:
                return Step(record.step, record.epoch)
            case Planned() as record:
                return Step(record.start_step, record.start_epoch)
    return None
