"""How an attempt without the service ends, and what it prints. A small program is in the place of the ranks."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jobs.model.plan import resolve_plan
from jobs.model.records import (
    EpochEnded,
    Planned,
    RankExited,
    RankNote,
    RankStarted,
    Record,
    rank_note_name,
    rank_records_name,
)
from jobs.model.runs import Run
from jobs.model.spec import spec_from
from jobs.runtime.settings import Settings
from tests.runs import BEGAN, RUN_ID, SPEC
from worker.alone import progress, training
from worker.alone.nodes import Allocation, layout_on
from worker.alone.progress import Progress
from worker.alone.training import Training
from worker.attempt.ending import Ending
from worker.attempt.paths import AttemptPaths

_SCRIPT = """
import os, sys, time
def write(rank, line):
    with open(f"records/rank-{rank}.jsonl", "a") as file:
        file.write(line + "\\n")
def start(rank):
    write(rank, '{"kind": "rank_started", "at": 1, "rank": %d, "local_rank": 0, "host": "n", "pid": 1}' % rank)
def leave(rank, reason):
    write(rank, '{"kind": "exit", "at": 1, "reason": "%s"}' % reason)
"""


@pytest.fixture
def attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Ending, list[str]]]:
    """Trains with a program in place of horovodrun; returns the ending and what was printed."""
    monkeypatch.setattr(training, "_PERIOD_S", 0.01)

    def train(program: str, *, leave_signals: Any = (), **limits: float) -> tuple[Ending, list[str]]:
        argv = [sys.executable, "-S", "-c", _SCRIPT + program]
        monkeypatch.setattr(training, "horovodrun_argv", lambda layout, *, launch_dir: argv)
        spec, layout = spec_from(SPEC | limits), layout_on(Allocation(7, "n1", 2, 1), {"n1": []}, device="cpu")
        run = Run(id=RUN_ID, version="0", created_at=BEGAN, spec=spec)
        settings = Settings(home=tmp_path / "home", save_grace_s=20, stop_file_grace_s=0.1)
        one = Training(run, spec, layout, AttemptPaths(tmp_path / "run", 1), settings)
        one.prepare()
        said: list[str] = []
        return one.train(leave_signals, said.append), said

    return train


def test_a_signal_lets_the_ranks_save_first(attempt: Any, tmp_path: Path) -> None:
    program = """
start(0), start(1)
while not os.path.exists("stop"):
    time.sleep(0.01)
leave(0, "stop_requested"), leave(1, "stop_requested"), open("saved", "w")
"""
    ending, said = attempt(program, leave_signals=[signal.SIGUSR2])
    assert (ending.reason, ending.error) == ("preempted", "Slurm takes its nodes back")
    assert said == ["stopping: Slurm takes its nodes back"]
    assert (tmp_path / "run" / "attempt-1" / "saved").exists()


COMPLETES = "start(0), start(1), leave(0, 'completed'), leave(1, 'completed')"


@pytest.mark.parametrize("leave_signals", [[], [signal.SIGTERM]])
def test_a_run_completes_when_all_ranks_do_also_at_a_signal(attempt: Any, leave_signals: list[int]) -> None:
    assert attempt(COMPLETES, leave_signals=leave_signals)[0] == Ending("completed")


@pytest.mark.parametrize(
    ("program", "fields", "reason", "error"),
    [
        (
            "start(0), start(1), time.sleep(600)",
            {"time_limit_s": 0.3},
            "time_limit",
            "still running after its time limi",
        ),
        ("start(0), start(1), time.sleep(600)", {"stall_timeout_s": 0.3}, "stalled", "no step from any rank for 0.3 s"),
        ("start(0), start(1), sys.exit(1)", {}, "no_space", "no space is left for the folder of the run"),
        ("print('no such node'); sys.exit(1)", {}, "launch_failed", "no rank started; the launcher said: no such node"),
    ],
)
def test_a_run_that_does_not_complete_says_why(
    attempt: Any, monkeypatch: pytest.MonkeyPatch, program: str, fields: dict[str, float], reason: str, error: str
) -> None:
    if reason == "no_space":
        monkeypatch.setattr(training, "can_write", lambda folder: False)
    ending, _ = attempt(program, **fields)
    assert (ending.reason, ending.error[: len(error)]) == (reason, error)


def test_ranks_that_wait_for_space_do_not_stall(attempt: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock moves only while the attempt waits. Then a rank says that it goes on, and so it does for long."""
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        folder = tmp_path / "run" / "attempt-1"
        note = RankNote(records=len(waits), held_back_bytes=9, why="the disk is full")
        (folder / "records" / "rank-1.note").write_text(note.model_dump_json())
        if len(waits) == 100:
            (folder / "has-space").touch()

    clock = SimpleNamespace(monotonic=lambda: float(len(waits)), sleep=wait)
    monkeypatch.setattr(training, "time", clock)
    monkeypatch.setattr(progress, "time", clock)
    program = f"""
while not os.path.exists("has-space"):
    time.sleep(0.01)
{COMPLETES}
"""
    assert attempt(f"start(0), start(1)\n{program}", stall_timeout_s=10) == (Ending("completed"), [])


def test_ranks_that_hang_without_a_peer_are_ended(attempt: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "_LEAVE_GRACE_S", 0.3)
    began = time.monotonic()
    ending, said = attempt("start(0), start(1), leave(1, 'bad_data'), time.sleep(600)")
    assert (ending.reason, time.monotonic() - began < 300) == ("bad_data", True)
    assert said == ["rank 1 left: bad_data"]


def test_outside_of_slurm_it_says_what_to_do_and_it_starts_without_database_and_broker(tmp_path: Path) -> None:
    variables = {name: value for name, value in os.environ.items() if not name.startswith("SLURM")}
    program = (
        "import atexit, runpy, sys\n"
        "heavy = ('sqlalchemy', 'psycopg', 'celery', 'tensorflow')\n"
        "atexit.register(lambda: print([name for name in heavy if name in sys.modules]))\n"
        "runpy.run_module('worker.alone', run_name='__main__')"
    )
    argv = [sys.executable, "-c", program, str(tmp_path / "run")]
    done = subprocess.run(argv, env=variables, input="{}", capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "hora: this is no job of Slurm: hand the script to sbatch\n")
    assert done.stdout == "[]\n"
    assert not (tmp_path / "run").exists()


PLAN = resolve_plan(spec_from({"dataset": "digits", "gpus": 2, "epochs": 3, "steps_per_epoch": 5}), None)


class Ranks:
    """The records of two ranks, and what was printed of them."""

    def __init__(self, folder: Path) -> None:
        self.paths = AttemptPaths(folder, 1)
        self.paths.create()
        self.lines: list[str] = []
        self.progress = Progress(self.paths, ranks=2, say=self.lines.append)

    def write(self, rank: int, *records: Record | str) -> None:
        with (self.paths.records / rank_records_name(rank)).open("a") as file:
            file.writelines(f"{one if isinstance(one, str) else one.model_dump_json()}\n" for one in records)


@pytest.fixture
def ranks(tmp_path: Path) -> Ranks:
    return Ranks(tmp_path)


def epoch(number: int) -> EpochEnded:
    metrics = {"loss": 0.41256, "val_accuracy": 0.875}
    return EpochEnded(
        at=1, epoch=number, step=5 * number, wall_s=2.14, samples_per_s=12345, learning_rate=1, metrics=metrics
    )


def test_each_epoch_of_rank_0_has_a_line(ranks: Ranks) -> None:
    ranks.write(0, RankStarted(at=1, rank=0, local_rank=0, host="n1", pid=1), Planned(at=1, plan=PLAN), epoch(1))
    ranks.write(1, RankStarted(at=1, rank=1, local_rank=0, host="n2", pid=1), Planned(at=1, plan=PLAN), epoch(1))
    assert ranks.progress.read()
    assert not ranks.progress.read()
    assert ranks.lines == [
        "begins: a global batch of 64, 5 steps an epoch, a learning rate of 0.001",
        "epoch 1 of 3: loss 0.4126, val_accuracy 0.875; 2.1 s, 12,345 samples/s",
    ]
    assert ranks.progress.started == {0, 1}
    ranks.write(0, Planned(at=1, plan=PLAN, start_epoch=1, start_step=5))  # of a later attempt
    ranks.progress.read()
    assert ranks.lines[2].startswith("goes on after step 5: ")


def test_a_rank_that_leaves_early_is_named_and_others_are_not(ranks: Ranks) -> None:
    ranks.write(0, "no record", RankExited(at=1, reason="completed"))
    ranks.write(1, RankExited(at=1, reason="bad_data", message="there is no image"))
    ranks.progress.read_rest()
    assert ranks.lines == ["rank 1 left: bad_data: there is no image"]
    assert sorted(ranks.progress.exits) == [0, 1]


def test_ranks_go_on_while_their_notes_say_so(ranks: Ranks) -> None:
    def moves(**note: object) -> bool:
        (ranks.paths.records / rank_note_name(1)).write_text(RankNote(**note).model_dump_json())  # type: ignore[arg-type]
        before = ranks.progress.moved_at
        assert not ranks.progress.read()
        return ranks.progress.moved_at > before

    assert moves(records=3, held_back_bytes=100, why="the disk is full")
    assert not moves(records=3, held_back_bytes=100, why="the disk is full")
    assert moves(records=4, held_back_bytes=200, why="the disk is full")
    assert moves(records=4, held_back_bytes=200, why="the disk is full", waited_s=1)
    assert not moves(records=4)
