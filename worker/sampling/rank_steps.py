"""Reads the newest step of each rank of this host from the end of its own records. Used by the sampler.

A job's stored progress is late by the time that storing lines takes; the file is late by a quarter of a second. User
code may put something else in the file's place (a pipe, a link, garbage). That does no harm and counts as no step.
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
    Reported,
    StepEnded,
    parse_record,
    rank_records_name,
)
from worker.attempt.paths import paths_of

_END_BYTES = 4096  # holds the newest steps: a line of one takes some 300


class Step(NamedTuple):
    """The progress of a rank, in steps and epochs of the whole job."""

    step: int | None = None
    epoch: int | None = None


NO_STEP = Step()


@dataclass(frozen=True)
class RankOnHost:
    """A rank of an attempt with a slot on this host."""

    job_id: str
    attempt: int
    rank: int
    is_led_here: bool


class RankSteps:
    """Reads the files repeatedly. A file that has not grown is not read."""

    def __init__(self, runs_dir: Path, *, host: str) -> None:
        self._runs_dir = runs_dir
        self._host = host
        self._paths: dict[RankOnHost, Path] = {}
        self._seen: dict[RankOnHost, tuple[int, Step]] = {}  # the size of the file, and the newest step in it

    def read(self, ranks: Sequence[RankOnHost]) -> dict[RankOnHost, Step]:
        """The newest step of each rank; `NO_STEP` for a rank without one."""
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
            # Opening a pipe would wait, and a link may lead anywhere.
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
    """The step in the last complete line that has one. None without such a line. The first line may lack its start."""
    for line in reversed(end.split(b"\n")[:-1]):
        match parse_record(line):
            case StepEnded() | RankEpochEnded() | EpochEnded() | CheckpointSaved() as record:
                return Step(record.step, record.epoch)
            case Reported(step=int()) as record:
                return Step(record.step, record.epoch)
            case Planned() as record:
                return Step(record.start_step, record.start_epoch)
    return None
