"""Sends the folder of a run that was trained without the service. Used by `hora import`.

BadRun      the folder is not that of a run, or a job still trains there; the text says what is wrong
"""

import codecs
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TypeVar

from pydantic import BaseModel, ValidationError

from hora.errors import HoraError, Json
from hora.service import Service
from hora.service.uploads import send_source
from jobs.model.os_errors import in_words
from jobs.model.problems import field_problems
from jobs.model.records import rank_log_name, rank_records_name
from jobs.model.runs import ATTEMPT_FILE, LAUNCHER, MOST_LINE_BYTES, RUN_FILE, ExportedRun, Run, RunAttempt, RunText
from jobs.model.spec import spec_from
from jobs.runtime.files import open_regular
from jobs.runtime.run_folders import FolderInUse, last_written_at, lock

_READ_BYTES = 512 * 1024

Part = TypeVar("Part", bound=BaseModel)


class BadRun(HoraError):
    """The folder cannot be sent as a run."""


@contextmanager
def packed_run(folder: Path, *, project: str | None = None) -> Iterator["PackedRun"]:
    """A run as it is sent, in a temporary file. Its job may belong to another project than its spec says.

    Raises `BadRun`, and `InvalidSpec` for the project.
    """
    with tempfile.TemporaryFile(prefix="hora-run-") as packed:
        _pack(folder, project, packed)
        yield PackedRun(packed)


def send_run(service: Service, run: "PackedRun", on_progress: Callable[[int], None] = lambda _: None) -> Json:
    """Send a run and return its job. `on_progress` gets how many bytes the service has."""
    return service.import_run(send_source(service, run, on_progress, purpose="run")["id"])


def _pack(folder: Path, project: str | None, target: BinaryIO) -> None:
    """Write what is sent: the run on the first line, then what its ranks wrote."""
    run = _read(folder / RUN_FILE, Run)
    if project is not None:
        run = run.model_copy(update={"spec": spec_from({**run.spec.model_dump(mode="json"), "project": project})})
    attempts = _ended_attempts(folder)
    try:
        exported = ExportedRun(run=run, attempts=attempts)
    except ValidationError as error:
        raise BadRun(f"{folder} cannot be imported: {_sentence(error, ExportedRun)}.") from None
    target.write(exported.model_dump_json().encode() + b"\n")
    for attempt in attempts:
        texts = _texts(_attempt_folder(folder, attempt.number), attempt)
        target.writelines(text.model_dump_json().encode() + b"\n" for text in texts)


def _ended_attempts(folder: Path) -> list[RunAttempt]:
    """The attempts. If no job trains in the folder, one that could not write its end has ended too."""
    attempts = list(_attempts(folder))
    if all(attempt.ended_at is not None for attempt in attempts):
        return attempts
    with _locked(folder):
        return [_ended(attempt, folder) for attempt in _attempts(folder)]


def _ended(attempt: RunAttempt, folder: Path) -> RunAttempt:
    if attempt.ended_at is not None:
        return attempt
    records = _attempt_folder(folder, attempt.number) / "records"
    try:
        return attempt.lost(last_written_at(records))
    except OSError as error:
        raise BadRun(f"{records} cannot be read: {in_words(error)}.") from None


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep jobs from training in the folder. Raises `BadRun` if one does."""
    try:
        descriptor = lock(folder)
    except FileNotFoundError:  # a copy without it
        yield
        return
    except FolderInUse as refusal:
        raise BadRun(f"The last attempt has not ended: {refusal}.") from None
    except OSError as error:
        raise BadRun(f"The last attempt has not ended, and {folder} cannot be locked: {in_words(error)}.") from None
    try:
        yield
    finally:
        os.close(descriptor)


def _attempts(folder: Path) -> Iterator[RunAttempt]:
    number = 1
    while os.path.lexists(file := _attempt_folder(folder, number) / ATTEMPT_FILE):
        yield _read(file, RunAttempt)
        number += 1


def _attempt_folder(folder: Path, number: int) -> Path:
    return folder / f"attempt-{number}"


def _texts(folder: Path, attempt: RunAttempt) -> Iterator[RunText]:
    number = attempt.number
    for rank in range(attempt.ranks):
        for text in _text_of(folder / "records" / rank_records_name(rank)):
            yield RunText(attempt=number, kind="records", rank=rank, text=text)
        for text in _text_of(folder / "logs" / rank_log_name(rank)):
            yield RunText(attempt=number, kind="log", rank=rank, text=text)
    for text in _text_of(folder / "logs" / "launcher.log"):
        yield RunText(attempt=number, kind="log", rank=LAUNCHER, text=text)


def _text_of(file: Path) -> Iterator[str]:
    """What a file has, in pieces. A rank that did not start has none."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    if not os.path.lexists(file):
        return
    with _opened(file) as content:
        while piece := content.read(_READ_BYTES):
            yield decoder.decode(piece)
        if rest := decoder.decode(b"", final=True):
            yield rest


def _read(file: Path, model: type[Part]) -> Part:
    with _opened(file) as content:
        text = content.read(MOST_LINE_BYTES + 1)
    if len(text) > MOST_LINE_BYTES:
        raise BadRun(f"{file} is larger than {MOST_LINE_BYTES} bytes.")
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        raise BadRun(f"{file} is damaged: {_sentence(error, model)}.") from None


def _opened(file: Path) -> BinaryIO:
    """The file. Links are not followed: they might lead to files that are not of the run."""
    try:
        if file.name != RUN_FILE and file.parent.is_symlink():
            raise BadRun(f"{file.parent} is a link, and no folder of the run.")
        return os.fdopen(open_regular(file, follow=False), "rb")
    except OSError as error:
        raise BadRun(f"{file} cannot be read: {in_words(error)}.") from None


def _sentence(error: ValidationError, model: type[BaseModel]) -> str:
    first = field_problems(error, model)[0]
    return f"{first.field}: {first.message}" if first.field else first.message


class PackedRun:
    """A packed run as the source of an upload. Equal runs have equal names, so a broken upload is resumed."""

    def __init__(self, packed: BinaryIO) -> None:
        self._packed = packed
        self.size_bytes = packed.seek(0, os.SEEK_END)
        packed.seek(0)
        sha256 = hashlib.sha256()
        while piece := packed.read(_READ_BYTES):
            sha256.update(piece)
        self.filename = f"{sha256.hexdigest()[:32]}-run.jsonl"

    def read(self, offset: int, size: int) -> bytes:
        """See `UploadSource.read`."""
        return os.pread(self._packed.fileno(), size, offset)
