"""What is sent of the folder of a run, and which folders are refused. On real folders."""

import json
import os
from collections import defaultdict
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from hora.cli.explain import explain
from hora.service.sending_runs import BadRun, packed_run
from jobs.model.problems import InvalidSpec
from jobs.model.runs import ExportedRun, RunText
from jobs.runtime.run_folders import lock
from tests.runs import BEGAN, run_folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return run_folder(tmp_path / "run")


def sent(folder: Path, **options: Any) -> tuple[ExportedRun, list[RunText]]:
    with packed_run(folder, **options) as run:
        first, *others = run.read(0, run.size_bytes).splitlines()
    return ExportedRun.model_validate_json(first), [RunText.model_validate_json(line) for line in others]


def test_the_texts_are_those_of_the_files(folder: Path) -> None:
    long = "x" + "€" * 400_000  # it is cut between characters
    (folder / "attempt-2" / "logs" / "rank-1.log").write_text(long)
    (folder / "attempt-1" / "records" / "rank-1.jsonl").unlink()  # that rank wrote nothing
    exported, texts = sent(folder)
    assert [attempt.number for attempt in exported.attempts] == [1, 2]
    together = defaultdict[tuple[int, str, int], str](str)
    for one in texts:
        together[one.attempt, one.kind, one.rank] += one.text
    assert len(together) == 2 * (2 * 2 + 1) - 1
    assert len(texts) > len(together)
    for (number, kind, rank), text in together.items():
        name = "launcher.log" if rank < 0 else f"rank-{rank}.jsonl" if kind == "records" else f"rank-{rank}.log"
        file = folder / f"attempt-{number}" / ("records" if kind == "records" else "logs") / name
        assert text == file.read_bytes().decode("utf-8", "replace")


def test_equal_runs_are_sent_under_equal_names(folder: Path) -> None:
    with packed_run(folder) as first, packed_run(folder) as second:
        assert first.filename == second.filename
        assert first.read(5, 10) == first.read(0, 15)[5:]
    with packed_run(folder, project="vision") as other:
        assert other.filename != first.filename
    assert sent(folder, project="vision")[0].run.spec.project == "vision"
    with pytest.raises(InvalidSpec, match="project"):
        sent(folder, project="No Name")


def replace_by_link(path: Path) -> None:
    elsewhere = path.with_name("elsewhere")
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


def replace_by_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def lose_end(folder: Path) -> None:
    """Take the end of the last attempt away, as if Slurm had killed its script."""
    file = folder / "attempt-2" / "attempt.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"ended_at": None, "reason": None}))


@pytest.mark.parametrize("has_lock", [True, False])
def test_an_attempt_that_could_not_write_its_end_is_sent_as_lost(folder: Path, has_lock: bool) -> None:
    lose_end(folder)
    if has_lock:
        (folder / "lock").touch()
    before = (folder / "attempt-2" / "attempt.json").read_bytes()
    wrote_at = BEGAN + timedelta(hours=2, minutes=7)
    for file in (folder / "attempt-2" / "records").iterdir():
        os.utime(file, (wrote_at.timestamp(), wrote_at.timestamp()))
    last = sent(folder)[0].attempts[-1]
    assert (last.reason, last.ended_at) == ("host_lost", wrote_at)
    assert (folder / "attempt-2" / "attempt.json").read_bytes() == before


def test_one_that_trains_is_not_sent(folder: Path) -> None:
    lose_end(folder)
    held = lock(folder, makes_file=True)
    with pytest.raises(BadRun, match=r"The last attempt has not ended: a job trains in .*run\."):
        sent(folder)
    os.close(held)
    sent(folder)
    os.close(lock(folder))  # it was let go


@pytest.mark.parametrize(
    ("path", "spoil", "message"),
    [
        ("run.json", Path.unlink, r"run\.json cannot be read: "),
        ("run.json", lambda path: path.write_text("{"), r"run\.json is damaged: Invalid JSON"),
        ("run.json", lambda path: path.write_text(" " * (8 * 1024 * 1024 + 1)), "is larger than 8388608 bytes"),
        ("attempt-1/attempt.json", Path.unlink, "cannot be imported: attempts: "),
        ("attempt-1/logs/rank-0.log", replace_by_link, r"rank-0\.log cannot be read: .* a link"),
        ("attempt-1/records", replace_by_link, "records is a link, and no folder of the run"),
        ("attempt-1/records/rank-1.jsonl", replace_by_pipe, "cannot be read: .* a named pipe"),
    ],
)
def test_other_folders_are_refused_with_what_is_wrong(
    folder: Path, path: str, spoil: Callable[[Path], object], message: str
) -> None:
    spoil(folder / path)
    with pytest.raises(BadRun, match=message) as refusal:
        sent(folder)
    assert explain(refusal.value)[0] == 2
