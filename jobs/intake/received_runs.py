"""Reads the run that `hora import` sent: one JSON object on each line, the run itself on the first one.

What ranks wrote goes into files of their own in a new folder, for the intake. Their names are made here from numbers.
Each line is read as plain JSON first: a wrong model costs some KiB for each wrong item. Called by the api.
"""

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from jobs.intake.checked_records import CLOCKS_DIFFER, RecordCheck
from jobs.intake.import_bounds import MOST_LINES, Bound, wrong
from jobs.intake.imported import ReceivedFiles
from jobs.model.problems import FieldProblem, InvalidSpec, field_problems
from jobs.model.records import rank_log_name, rank_records_name
from jobs.model.runs import (
    LAUNCHER,
    MOST_ATTEMPTS,
    MOST_HEAD_BYTES,
    MOST_LINE_BYTES,
    ExportedRun,
    Run,
    RunAttempt,
    RunText,
)
from jobs.model.spec import MAX_GPUS
from jobs.runtime.files import make_private

_MOST_FIELDS = 1000  # of an object
_MOST_PROBLEMS = 20  # that are named
_OLDEST = datetime(2000, 1, 1, tzinfo=UTC)

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
    run = ReceivedRun(_head(_line(sent, 1, MOST_HEAD_BYTES)), folder)
    _check_times(run.exported)
    for attempt in run.exported.attempts:
        files = run.files_of(attempt.number)
        make_private(files.records)
        make_private(files.logs)
    log_lines = Bound("lines of logs", MOST_LINES)
    for place, line in _further_lines(sent):
        text = _checked(RunText, _json(line, place), place)
        _write(run, text, place)
        if text.kind == "log":
            log_lines.add(text.text.count("\n"), place)
    _check_records(run)
    return run


def _further_lines(sent: BinaryIO) -> Iterator[tuple[str, bytes]]:
    number = 2
    while line := _line(sent, number, MOST_LINE_BYTES):
        yield f"line {number}", line
        number += 1


def _line(sent: BinaryIO, number: int, most_bytes: int) -> bytes:
    line = sent.readline(most_bytes + 1)
    if len(line) > most_bytes:
        raise wrong(f"line {number}", f"this line may have at most {most_bytes} bytes")
    return line


def _head(line: bytes) -> ExportedRun:
    """The run and its attempts. The first of them that is wrong is named, without those after it."""
    document = _json(line, "")
    attempts = document.get("attempts") if isinstance(document, dict) else None
    if not isinstance(attempts, list) or len(attempts) > MOST_ATTEMPTS or document.keys() != {"run", "attempts"}:
        raise wrong("", f"must be an object with a run and at most {MOST_ATTEMPTS} attempts")
    parts = {
        "run": _checked(Run, document["run"], "run"),
        "attempts": [_checked(RunAttempt, one, f"attempts.{index}") for index, one in enumerate(attempts)],
    }
    return _checked(ExportedRun, parts, "")


def _json(line: bytes, place: str) -> Any:
    try:
        document = from_json(line)
    except ValueError as error:
        raise wrong(place, f"Invalid JSON: {error}") from None
    if _is_wide(document):
        raise wrong(place, f"an object may have at most {_MOST_FIELDS} fields, and a list {MAX_GPUS} items")
    return document


def _is_wide(value: Any) -> bool:
    """Whether an object or a list in this JSON is longer than any part of a run."""
    if isinstance(value, dict):
        return len(value) > _MOST_FIELDS or any(map(_is_wide, value.values()))
    return isinstance(value, list) and (len(value) > MAX_GPUS or any(map(_is_wide, value)))


def _checked(model: type[Part], document: object, place: str) -> Part:
    try:
        return model.model_validate(document)
    except ValidationError as error:
        problems = field_problems(error, model)[:_MOST_PROBLEMS]
        named = [FieldProblem(f"{place}.{one.field}".strip("."), one.message, one.received) for one in problems]
        raise InvalidSpec(named) from None


def _check_times(exported: ExportedRun) -> None:
    """The database sorts by these times, and what is removed later depends on them."""
    last = exported.attempts[-1].ended_at
    if not _OLDEST <= exported.run.created_at <= exported.attempts[0].started_at:
        raise wrong("run.created_at", "must be after the year 1999 and before the first attempt started")
    if last is not None and last > datetime.now(UTC) + CLOCKS_DIFFER:
        raise wrong(f"attempts.{len(exported.attempts) - 1}.ended_at", "is in the future")


def _write(run: ReceivedRun, text: RunText, place: str) -> None:
    if text.attempt > len(run.exported.attempts):
        raise wrong(place, f"the run has no attempt {text.attempt}")
    attempt, files = run.exported.attempts[text.attempt - 1], run.files_of(text.attempt)
    if text.rank >= attempt.ranks or (text.rank == LAUNCHER and text.kind == "records"):
        raise wrong(place, f"attempt {text.attempt} has no {text.kind} of rank {text.rank}")
    file = files.records / rank_records_name(text.rank) if text.kind == "records" else _log_of(files, text.rank)
    with file.open("ab") as target:
        target.write(text.text.encode("utf-8", "replace"))


def _log_of(files: ReceivedFiles, rank: int) -> Path:
    return files.launcher_log if rank == LAUNCHER else files.logs / rank_log_name(rank)


def _check_records(run: ReceivedRun) -> None:
    records = RecordCheck()
    for attempt in run.exported.attempts:
        files = run.files_of(attempt.number)
        for rank in range(attempt.ranks):
            name = rank_records_name(rank)
            place = f"attempt-{attempt.number}/records/{name}"  # as in the folder of the run
            found = records.check(files.records / name, attempt, place)
            if rank == 0 and attempt.is_complete and not found.has_results:
                raise wrong(place, "there are no results, but the attempt trained to the end")
            if found.left_out:
                _say(_log_of(files, rank), f"hora: {found.left_out} lines of {place} are no records: they are left out")


def _say(log: Path, sentence: str) -> None:
    """Add a line to a log. The line before it may have no end."""
    with log.open("a+b") as file:
        if file.tell() and not _ends_a_line(file):
            file.write(b"\n")
        file.write(sentence.encode() + b"\n")


def _ends_a_line(file: BinaryIO) -> bool:
    file.seek(-1, os.SEEK_END)
    return file.read() == b"\n"
