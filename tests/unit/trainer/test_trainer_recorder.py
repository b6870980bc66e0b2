"""Records in the file: whole lines, in order, without a long delay."""

from pathlib import Path

import pytest

import trainer.recorder
from jobs.model.records import PhaseEnded
from trainer.recorder import Recorder


def record(number: int) -> PhaseEnded:
    return PhaseEnded(at=number, name="data", duration_s=0.5)


def numbers(path: Path) -> list[float]:
    text = path.read_text()
    assert text == "" or text.endswith("\n")
    return [PhaseEnded.model_validate_json(line).at for line in text.splitlines()]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "records" / "rank-0.jsonl"


def test_buffered_records_are_written_with_one_at_once_by_a_flush_or_after_an_interval(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder(path)
    recorder.buffer(record(1))
    recorder.buffer(record(2))
    assert numbers(path) == []
    recorder.write(record(3))
    assert numbers(path) == [1, 2, 3]
    recorder.buffer(record(4))
    recorder.flush()
    assert numbers(path) == [1, 2, 3, 4]
    recorder.buffer(record(5))
    monkeypatch.setattr(trainer.recorder, "FLUSH_EVERY_S", 0)
    recorder.buffer(record(6))
    assert numbers(path) == [1, 2, 3, 4, 5, 6]


def test_nothing_is_written_after_close_and_a_second_attempt_appends(path: Path) -> None:
    recorder = Recorder(path)
    recorder.buffer(record(1))
    recorder.close(record(2).model_dump_json())
    recorder.write(record(3))
    recorder.close(record(4).model_dump_json())
    assert numbers(path) == [1, 2]
    Recorder(path).write(record(5))
    assert numbers(path) == [1, 2, 5]
