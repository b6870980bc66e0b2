"""The census reports forbidden processes and nothing else; tested with real processes."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jobs.runtime.processes import MARK
from tests.chaos.census import Census, processes_of
from tests.waiting import until

pytestmark = pytest.mark.long("faults")

Start = Callable[[str, int], "subprocess.Popen[bytes]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a process that looks like a rank of an attempt and only waits."""
    (tmp_path / "trainer").write_text("read -r line\n")
    started = []

    def start(mark: str, rank: int) -> "subprocess.Popen[bytes]":
        # bash has an option -m, too.
        process = subprocess.Popen(
            ["python", "-m", "trainer"], executable="/bin/bash", cwd=tmp_path, stdin=subprocess.PIPE,
            env={"HORA_HOME": str(tmp_path), MARK: mark, "HOROVOD_RANK": str(rank)},
        )  # fmt: skip
        started.append(process)
        until(lambda: any(each.process_id.pid == process.pid for each in processes_of(tmp_path)))
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        assert process.stdin is not None
        process.stdin.close()


def _census(home: Path, *shares: tuple[str, int, int]) -> Census:
    """A census of attempts `(job, number, slot)`."""
    return Census([home], lambda: {(job, number): frozenset({("here", slot)}) for job, number, slot in shares})


def test_only_ranks_of_the_given_home_are_found(tmp_path: Path, start: Start) -> None:
    rank = start("job.3", 1)
    (process,) = processes_of(tmp_path)
    assert (process.process_id.pid, process.role, process.rank) == (rank.pid, "rank", 1)
    assert (process.job_id, process.attempt) == ("job", 3)
    assert processes_of(tmp_path / "another") == []


def test_two_attempts_of_a_job_are_noted_when_both_train_but_not_while_one_is_stopped(
    tmp_path: Path, start: Start
) -> None:
    census = _census(tmp_path, ("job", 1, 0), ("job", 2, 1))
    first, _second, _of_another_job = start("job.1", 0), start("job.2", 0), start("other.1", 0)
    os.kill(first.pid, signal.SIGSTOP)
    until(lambda: any(process.is_stopped for process in processes_of(tmp_path)))
    census.look()
    assert not census.violations
    os.kill(first.pid, signal.SIGCONT)

    def noted() -> bool:
        census.look()
        return bool(census.violations)

    until(noted, what="the note, once it is awake for long enough")
    assert ["two attempts of one job train at once" in what for what in census.violations] == [True]


def test_two_attempts_on_one_slot_are_noted_even_when_one_is_stopped(tmp_path: Path, start: Start) -> None:
    census = _census(tmp_path, ("one", 1, 0), ("other", 1, 0), ("third", 1, 1))
    first, _, _ = start("one.1", 0), start("other.1", 0), start("third.1", 0)
    os.kill(first.pid, signal.SIGSTOP)
    census.look()
    assert ["two attempts are on one slot at once" in what for what in census.violations] == [True]
