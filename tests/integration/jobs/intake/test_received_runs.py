"""Runs as they are sent: how much of one is read, and what memory a hostile one takes."""

import json
import tracemalloc
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from hora.service.sending_runs import packed_run
from jobs.intake import checked_records, received_runs
from jobs.intake.received_runs import ReceivedRun, receive
from jobs.model.problems import FieldProblem, InvalidSpec
from jobs.model.records import StepEnded
from tests.runs import run_folder, seconds_after

RANK_1 = "attempt-1/records/rank-1.jsonl"
STEP = StepEnded(
    at=seconds_after(1), step=1, epoch=1, step_time_s=1, data_wait_s=1, allreduce_s=1, samples_per_s=1, metrics={}
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return run_folder(tmp_path / "run")


def received(folder: Path, tmp_path: Path) -> ReceivedRun:
    with packed_run(folder) as run:
        return receive(BytesIO(run.read(0, run.size_bytes)), tmp_path / "received")


def problems_of(sent: bytes, tmp_path: Path) -> list[FieldProblem]:
    with pytest.raises(InvalidSpec) as caught:
        receive(BytesIO(sent), tmp_path / "received")
    return caught.value.problems


def with_attempts(folder: Path, attempts: list[Any], **run: Any) -> bytes:
    with packed_run(folder) as packed:
        head = json.loads(packed.read(0, packed.size_bytes).splitlines()[0])
    return json.dumps({"run": head["run"] | run, "attempts": attempts}, separators=(",", ":")).encode() + b"\n"


HOSTILE: Mapping[str, tuple[list[Any], dict[str, Any]]] = {
    "nodes": ([{"nodes": [1] * 4000}] * 200, {}),
    "unknown fields": ([{f"f{number}": 1 for number in range(100_000)}], {}),
    "unknown fields of a node": ([{"nodes": [{f"f{number}": 1 for number in range(100_000)}]}], {}),
    "a spec": ([], {"spec": {"labels": [1] * 500_000}}),
    "labels": ([], {"spec": {"labels": {f"f{number}": 1 for number in range(100_000)}}}),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_first_line_takes_little_memory(tmp_path: Path, folder: Path, case: str) -> None:
    attempts, run = HOSTILE[case]
    sent = with_attempts(folder, attempts, **run)
    tracemalloc.start()
    try:
        problems = problems_of(sent, tmp_path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 1 <= len(problems) <= 20
    assert peak < 64e6


def test_a_hostile_further_line_takes_little_memory(tmp_path: Path, folder: Path) -> None:
    with packed_run(folder) as run:
        head = run.read(0, run.size_bytes).splitlines(keepends=True)[0]
    line = json.dumps({f"f{number}": 1 for number in range(100_000)}).encode()
    (problem,) = problems_of(head + line + b"\n", tmp_path)
    assert (problem.field, problem.message.startswith("an object may have at most")) == ("line 2", True)


def test_the_first_line_is_smaller_than_others(tmp_path: Path) -> None:
    (problem,) = problems_of(b'{"run": "' + b"x" * 2_100_000, tmp_path)
    assert (problem.field, problem.message) == ("line 1", "this line may have at most 2097152 bytes")


def test_only_the_first_wrong_node_and_the_first_wrong_attempt_are_named(tmp_path: Path, folder: Path) -> None:
    problems = problems_of(with_attempts(folder, [{"nodes": [1] * 10}]), tmp_path)
    assert [one.field for one in problems if "nodes" in one.field] == ["attempts.0.nodes.0"]
    problems = problems_of(with_attempts(folder, [{}, {}]), tmp_path)
    assert {problem.field.rpartition(".")[0] for problem in problems} == {"attempts.0"}


def test_lines_of_logs_are_counted(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(received_runs, "MOST_LINES", 10)
    received(folder, tmp_path / "small")
    (folder / "attempt-1" / "logs" / "rank-0.log").write_text("\n" * 11)
    with pytest.raises(InvalidSpec, match="line 3: a run may have at most 10 lines of logs, and this one has 11 here"):
        received(folder, tmp_path)


EPOCH = {
    "kind": "epoch", "at": seconds_after(1), "epoch": 1, "step": 1, "wall_s": 1, "samples_per_s": 1,
    "learning_rate": 1, "metrics": {"loss": 1},
}  # fmt: skip
RANK_EPOCH = {
    "kind": "rank_epoch", "at": seconds_after(1), "epoch": 1, "step": 1, "step_time_p50_s": 1, "step_time_p95_s": 1,
    "data_wait_s": 1, "allreduce_s": 1,
}  # fmt: skip
SKIPPED = {"kind": "checkpoint_skipped", "at": seconds_after(1), "epoch": 1, "step": 1, "why": ""}
BOUNDS: Mapping[str, tuple[dict[str, Any], str]] = {
    "MOST_EVENTS": (SKIPPED, "records that become events"),
    "MOST_VALUES": (EPOCH, "values of epochs"),
    "MOST_VALUES_OF_RANKS": (RANK_EPOCH, "values of epochs of single ranks"),
    "MOST_LEFT_OUT": ({"kind": "new"}, "lines that are no records"),
}


@pytest.mark.parametrize("bound", BOUNDS)
def test_records_that_become_rows_are_counted(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    record, what = BOUNDS[bound]
    monkeypatch.setattr(checked_records, bound, 50)
    received(folder, tmp_path / "small")
    with (folder / RANK_1).open("a") as file:
        file.writelines(json.dumps(record) + "\n" for _ in range(51))
    with pytest.raises(InvalidSpec, match=rf"{RANK_1} line \d+: a run may have at most 50 {what}"):
        received(folder, tmp_path)


def test_steps_that_do_not_ascend_are_counted(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checked_records, "MOST_VALUES", 50)
    with (folder / RANK_1).open("a") as file:
        file.writelines(STEP.model_dump_json() + "\n" for _ in range(11))
    with pytest.raises(InvalidSpec, match="values of epochs and of steps that do not ascend"):
        received(folder, tmp_path)


def test_a_long_record_is_read_whatever_the_number_of_ranks(tmp_path: Path, folder: Path) -> None:
    path = folder / "attempt-1" / "attempt.json"
    attempt = json.loads(path.read_text())
    attempt["nodes"][0]["ranks"] = 4000
    path.write_text(json.dumps(attempt))
    record = {
        "kind": "data", "at": seconds_after(1), "format": "csv", "shape": [1], "classes": ["c" * 90] * 10_000,
        "train": 1, "validation": 1, "test": 1, "damaged": 0, "damaged_files": [],
        "warnings": [],
    }  # fmt: skip
    with (folder / RANK_1).open("a") as file:
        file.write(json.dumps(record) + "\n")
    received(folder, tmp_path)
