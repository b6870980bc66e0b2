"""Checks the records of a run that is imported: each one, and how many rows all of them become.

What no rank of Hora's own loop writes is refused. A line that is no record is left out, as the intake does: a crash of
shared storage leaves such lines, and a newer Hora writes others. Used by `jobs.intake.received_runs`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from jobs.intake.import_bounds import (
    MOST_EVENTS,
    MOST_LEFT_OUT,
    MOST_METRICS,
    MOST_RECORD_BYTES,
    MOST_VALUES,
    MOST_VALUES_OF_RANKS,
    Bound,
    wrong,
)
from jobs.model.records import (
    Alerted,
    CheckpointSaved,
    CheckpointSkipped,
    EpochEnded,
    ProbeEnded,
    ProbeMeasured,
    ProbeStepped,
    ProgressMade,
    RankEpochEnded,
    RankStarted,
    Record,
    Reported,
    StepEnded,
    Summarized,
    parse_record,
)
from jobs.model.runs import RunAttempt
from jobs.telemetry.ingest import RANK_EPOCH_METRICS

CLOCKS_DIFFER = timedelta(hours=1)

_OF_OTHER_PROGRAMS = (Reported, ProgressMade, Alerted, ProbeStepped, ProbeMeasured, ProbeEnded)
_TIMES = 5  # at most so many values of a step or an epoch are no metrics


@dataclass
class Found:
    """What the records of a rank have."""

    has_results: bool = False
    left_out: int = 0  # lines
    last_step: int = -1


class RecordCheck:
    """Checks the files of a run, one after the other."""

    def __init__(self) -> None:
        self._names = set[str]()
        self._events = Bound("records that become events", MOST_EVENTS)
        self._values = Bound("values of epochs and of steps that do not ascend", MOST_VALUES)
        self._values_of_ranks = Bound("values of epochs of single ranks", MOST_VALUES_OF_RANKS)
        self._left_out = Bound("lines that are no records", MOST_LEFT_OUT)

    def check(self, file: Path, attempt: RunAttempt, place: str) -> Found:
        """Check what a rank of an attempt recorded. Raises `InvalidSpec`."""
        found = Found()
        for number, line in enumerate(_lines(file), 1):
            where = f"{place} line {number}"
            if len(line) > MOST_RECORD_BYTES:
                raise wrong(where, f"a record may have at most {MOST_RECORD_BYTES} bytes")
            record = parse_record(line)
            if record is not None:
                self._take(record, attempt, found, where)
            elif line.endswith(b"\n"):  # else the rank was killed while it wrote this
                found.left_out += 1
                self._left_out.add(1, where)
        return found

    def _take(self, record: Record, attempt: RunAttempt, found: Found, where: str) -> None:
        if isinstance(record, _OF_OTHER_PROGRAMS):
            raise wrong(where, f"{record.kind} is no record of a rank that trains in Hora's own loop")
        _check_time(record.at, attempt, where)
        match record:
            case RankStarted() | CheckpointSaved() | CheckpointSkipped():
                self._events.add(1, where)
            case EpochEnded():
                self._events.add(1, where)
                self._values.add(len(record.metrics) + _TIMES, where)
                self._add_names(record, where)
            case RankEpochEnded():
                self._values_of_ranks.add(len(RANK_EPOCH_METRICS), where)
            case StepEnded():
                self._take_step(record, found, where)
            case Summarized():
                found.has_results = True

    def _take_step(self, record: StepEnded, found: Found, where: str) -> None:
        """Steps that ascend are stored in few rows."""
        if record.step <= found.last_step:
            self._values.add(len(record.metrics) + _TIMES, where)
        found.last_step = record.step
        self._add_names(record, where)

    def _add_names(self, record: StepEnded | EpochEnded, where: str) -> None:
        self._names.update(record.metrics)
        if len(self._names) > MOST_METRICS:
            raise wrong(where, f"a run may have at most {MOST_METRICS} metrics")


def _lines(file: Path) -> Iterator[bytes]:
    """The lines of a file, also of one that is not there. One that is too long is cut."""
    if file.exists():
        with file.open("rb") as content:
            yield from iter(lambda: content.readline(MOST_RECORD_BYTES + 1), b"")


def _check_time(at: float, attempt: RunAttempt, where: str) -> None:
    assert attempt.ended_at is not None
    earliest, latest = attempt.started_at - CLOCKS_DIFFER, attempt.ended_at + CLOCKS_DIFFER
    if not earliest.timestamp() <= at <= latest.timestamp():
        raise wrong(where, f"at is not between the start and the end of attempt {attempt.number}")
