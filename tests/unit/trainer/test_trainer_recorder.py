"""Records in the file: whole lines, in order, without a long delay."""

from pathlib import Path

import pytest

import trainer.recorder
from jobs.model.records import PhaseEnded
from trainer.recorder import NullRecorder, Recorder


def record(number: int) -> PhaseEnded:
    return PhaseEnded(at=number, name="data", duration_s=0.5)


def numbers(path: Path) -> list[float]:
    text = path.read_text()
    assert text == "" or text.endswith("\n")
    return [PhaseEnded.model_validate_json(line).at for line in text.splitlines()]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "records" / "rank-0.jsonl"


def test_buffered_records_are_written_before_one_that_is_written_at_once(path: Path) -> None:
    recorder = Recorder(path)
    recorder.buffer(record(1))
    recorder.buffer(record(2))
    assert numbers(path) == []
    recorder.write(record(3))
    assert numbers(path) == [1, 2, 3]


def test_buffered_records_are_written_after_the_flush_interval(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(path)
    recorder.buffer(record(1))
    monkeypatch.setattr(trainer.recorder, "FLUSH_EVERY_S", 0)
    recorder.buffer(record(2))
    assert numbers(path) == [1, 2]


def test_flush_writes_what_is_buffered(path: Path) -> None:
    recorder = Recorder(path)
    recorder.buffer(record(1))
    recorder.flush()
    assert numbers(path) == [1]


def test_a_second_attempt_appends_to_the_records(path: Path) -> None:
    for number in (1, 2):
        Recorder(path).write(record(number))
    assert numbers(path) == [1, 2]


def test_nothing_is_written_after_close(path: Path) -> None:
    recorder = Recorder(path)
    recorder.buffer(record(1))
    recorder.close(record(2).model_dump_json())
    recorder.write(record(3))
    recorder.close(record(4).model_dump_json())
    assert numbers(path) == [1, 2]


def test_a_null_recorder_takes_everything() -> None:
    recorder = NullRecorder()
    recorder.write(record(1))
    recorder.buffer(record(2))
    recorder.flush()
