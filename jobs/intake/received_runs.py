"""Reads the run that `hora import` sent: one JSON object on each line, the run itself on the first one.

What ranks wrote goes into files of their own in a new folder, for the intake. Their names are made here from numbers.
Every record is checked: what no rank of Hora's own loop writes is refused, with its place. Called by the api.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO, TypeVar

from pydantic import BaseModel, ValidationError

from jobs.intake.imported import ReceivedFiles, bytes_at_once
from jobs.model.problems import FieldProblem, InvalidSpec, field_problems
from jobs.model.records import (
    EpochEnded,
    ProbeEnded,
    ProbeMeasured,
    ProbeStepped,
    ProgressMade,
    Reported,
    StepEnded,
    Summarized,
    parse_record,
    rank_log_name,
    rank_records_name,
)
from jobs.model.runs import LAUNCHER, MOST_LINE_BYTES, ExportedRun, RunAttempt, RunText
from jobs.runtime.files import make_private

_MOST_METRICS = 1000  # names in one run
_OF_OTHER_PROGRAMS = (Reported, ProgressMade, ProbeStepped, ProbeMeasured, ProbeEnded)
_OLDEST = datetime(2000, 1, 1, tzinfo=UTC)
_CLOCKS_DIFFER = timedelta(hours=1)

Part = TypeVar("Part", bound=BaseModel)


class ReceivedRun:
    """A run, and the folder into which the files of its attempts were written."""

    def __init__(self, exported: ExportedRun, folder: Path) -> None:
        self.exported = exported
        self._folder = folder

    def files_of(self, attempt: int) -> ReceivedFiles:
        """The files of an attempt."""
        return ReceivedFiles(self._folder / f"attempt-{attempt}")


def receive(sent: BinaryIO, folder: Path) -> ReceivedRun:
    """Read a run, and write what its ranks wrote below `folder`. Raises `InvalidSpec` with the wrong fields."""
    lines = _lines(sent)
    run = ReceivedRun(_read(ExportedRun, next(lines, b"")), folder)
    _check_times(run.exported)
    for attempt in run.exported.attempts:
        files = run.files_of(attempt.number)
        make_private(files.records)
        make_private(files.logs)
    for number, line in enumerate(lines, 2):
        _write(run, _read(RunText, line, f"line {number}"), f"line {number}")
    _check_records(run)
    return run


def _lines(sent: BinaryIO) -> Iterator[bytes]:
    number = 0
    while line := sent.readline(MOST_LINE_BYTES + 1):
        number += 1
        if len(line) > MOST_LINE_BYTES:
            raise _wrong(f"line {number}", f"a line may have at most {MOST_LINE_BYTES} bytes")
        yield line


def _read(model: type[Part], line: bytes, place: str = "") -> Part:
    try:
        return model.model_validate_json(line)
    except ValidationError as error:
        problems = field_problems(error, model)
        named = [FieldProblem(f"{place}.{one.field}".strip("."), one.message, one.received) for one in problems]
        raise InvalidSpec(named) from None


def _check_times(exported: ExportedRun) -> None:
    """The database sorts by these times, and what is removed later depends on them."""
    last = exported.attempts[-1].ended_at
    if not _OLDEST <= exported.run.created_at <= exported.attempts[0].started_at:
        raise _wrong("run.created_at", "must be after the year 1999 and before the first attempt started")
    if last is not None and last > datetime.now(UTC) + _CLOCKS_DIFFER:
        raise _wrong(f"attempts.{len(exported.attempts) - 1}.ended_at", "is in the future")


def _write(run: ReceivedRun, text: RunText, place: str) -> None:
    if text.attempt > len(run.exported.attempts):
        raise _wrong(place, f"the run has no attempt {text.attempt}")
    attempt, files = run.exported.attempts[text.attempt - 1], run.files_of(text.attempt)
    if text.rank >= attempt.ranks or (text.rank == LAUNCHER and text.kind == "records"):
        raise _wrong(place, f"attempt {text.attempt} has no {text.kind} of rank {text.rank}")
    file = files.records / rank_records_name(text.rank) if text.kind == "records" else _log_of(files, text.rank)
    with file.open("ab") as target:
        target.write(text.text.encode("utf-8", "replace"))


def _log_of(files: ReceivedFiles, rank: int) -> Path:
    return files.launcher_log if rank == LAUNCHER else files.logs / rank_log_name(rank)


def _check_records(run: ReceivedRun) -> None:
    names = set[str]()
    for attempt in run.exported.attempts:
        for rank in range(attempt.ranks):
            has_results = _check_records_of(run, attempt, rank, names)
            if rank == 0 and attempt.is_complete and not has_results:
                raise _wrong(_place(attempt, rank), "there are no results, but the attempt trained to the end")


def _check_records_of(run: ReceivedRun, attempt: RunAttempt, rank: int, names: set[str]) -> bool:
    """Check what a rank recorded, and add the names of its metrics. Returns whether it has results."""
    file, most_bytes = run.files_of(attempt.number).records / rank_records_name(rank), bytes_at_once(attempt.ranks)
    if not file.exists():
        return False
    has_results = False
    with file.open("rb") as content:
        for number, line in enumerate(iter(lambda: content.readline(most_bytes + 1), b""), 1):
            place = f"{_place(attempt, rank)} line {number}"
            if len(line) > most_bytes:
                raise _wrong(place, f"a record may have at most {most_bytes} bytes")
            record = parse_record(line)
            if record is None:
                if not line.endswith(b"\n"):
                    break  # the rank was killed while it wrote this
                raise _wrong(place, "is no record that this service knows")
            if isinstance(record, _OF_OTHER_PROGRAMS):
                raise _wrong(place, f"{record.kind} is no record of a rank that trains in Hora's own loop")
            if isinstance(record, StepEnded | EpochEnded):
                _add_names(names, record.metrics, place)
            has_results |= isinstance(record, Summarized)
    return has_results


def _add_names(names: set[str], metrics: Iterable[str], place: str) -> None:
    names.update(metrics)
    if len(names) > _MOST_METRICS:
        raise _wrong(place, f"a run may have at most {_MOST_METRICS} metrics")


def _place(attempt: RunAttempt, rank: int) -> str:
    """Where something is, as in the folder of the run."""
    return f"attempt-{attempt.number}/records/{rank_records_name(rank)}"


def _wrong(field: str, message: str) -> InvalidSpec:
    return InvalidSpec([FieldProblem(field, message)])
