"""An attempt is ended in order: asked by a file, then by SIGTERM, then killed; each within its limit."""

import signal
import time
from pathlib import Path

import psutil
import pytest

from jobs.runtime.processes import ProcessId
from tests.integration.worker.conftest import Start, pid_in
from tests.waiting import slowdown, until
from worker.attempt.processes import pids_with_mark
from worker.attempt.stopping import Graces, LocalProcesses, stop

# Writes what reaches it, in the order it does; `sleep 0.05 &` and `wait` let a trap run at once.
RANK = """
trap 'echo term >> {rank_log}; {on_term}' TERM
echo up >> {rank_log}
while [ ! -e {stop} ]; do sleep 0.05 & wait; done
echo file >> {rank_log}
{on_file}
while true; do sleep 0.05 & wait; done
"""


@pytest.fixture
def rank_log(tmp_path: Path) -> Path:
    return tmp_path / "rank_log"


@pytest.fixture
def stop_file(tmp_path: Path) -> Path:
    return tmp_path / "stop"


class OtherHost:
    """Processes on another host, invisible from here. They leave at the signal `goes_at`."""

    def __init__(self, goes_at: int | None) -> None:
        self.goes_at = goes_at
        self.requests: list[str | int] = []

    def ask_to_stop(self, *, finish: bool) -> None:
        self.requests.append("file")

    def signal(self, number: int) -> None:
        self.requests.append(number)

    def are_gone(self) -> bool:
        return self.goes_at is None or self.goes_at in self.requests


def local_processes(mark: str, stop_file: Path, *, child: int = 0) -> LocalProcesses:
    """The descendants of this process, except those that other fixtures started."""
    spared = [one.pid for one in psutil.Process().children() if one.pid not in pids_with_mark(mark)]
    return LocalProcesses(mark, stop_file, child, lambda: spared)


def start_rank(
    start: Start, mark: str, rank_log: Path, stop_file: Path, *, on_file: str = "", on_term: str = ""
) -> int:
    """Start a rank that runs `on_file` at the stop file and `on_term` at SIGTERM."""
    child = start(RANK.format(rank_log=rank_log, stop=stop_file, on_file=on_file, on_term=on_term))
    until(lambda: rank_log.exists() and "up" in rank_log.read_text())
    assert child.pid in pids_with_mark(mark)
    return child.pid


def stop_attempt(
    mark: str, stop_file: Path, *, file_s: float | None = 5, term_s: float = 5, hurry: bool = False, child: int = 0
) -> tuple[bool, int]:
    """Stop the attempt; says whether it is clean, and how often the time was used for something else."""
    looks = 0

    def meanwhile() -> bool:
        nonlocal looks
        looks += 1
        stop_file.with_name("looked").touch()
        return hurry

    factor = slowdown()  # on a busy machine a rank reacts that much later
    graces = Graces(
        stop_file_s=None if file_s is None else file_s * factor,
        hurried_s=0.3 * factor,
        sigterm_s=term_s * factor,
        sigkill_s=5 * factor,
    )
    clean = stop([local_processes(mark, stop_file, child=child)], graces, meanwhile=meanwhile)
    assert pids_with_mark(mark) == []
    return clean, looks


def test_a_rank_that_ends_at_the_stop_file_gets_no_signal(
    mark: str, start: Start, rank_log: Path, stop_file: Path
) -> None:
    saving = f"until [ -e {stop_file.with_name('looked')} ]; do sleep 0.05; done; exit 0"
    pid = start_rank(start, mark, rank_log, stop_file, on_file=saving)
    clean, looks = stop_attempt(mark, stop_file, file_s=30, child=pid)
    assert clean
    assert looks > 0
    assert rank_log.read_text().split() == ["up", "file"]


def test_a_rank_that_ignores_the_stop_file_and_sigterm_is_killed(
    mark: str, start: Start, rank_log: Path, stop_file: Path
) -> None:
    start_rank(start, mark, rank_log, stop_file)
    assert stop_attempt(mark, stop_file, file_s=0.5, term_s=0.5)[0]
    assert rank_log.read_text().split() == ["up", "file", "term"]


def test_ranks_are_terminated_at_once_without_a_stop_file(
    mark: str, start: Start, rank_log: Path, stop_file: Path
) -> None:
    start_rank(start, mark, rank_log, stop_file, on_term="exit 0")
    assert stop_attempt(mark, stop_file, file_s=None)[0]
    assert rank_log.read_text().split() == ["up", "term"]
    assert not stop_file.exists()


def test_a_hurried_stop_shortens_the_time_for_saving(mark: str, start: Start, rank_log: Path, stop_file: Path) -> None:
    start_rank(start, mark, rank_log, stop_file, on_term="exit 0")
    began = time.monotonic()
    assert stop_attempt(mark, stop_file, file_s=60, hurry=True)[0]
    assert time.monotonic() - began < 10 * slowdown()
    assert rank_log.read_text().split() == ["up", "file", "term"]


def test_an_attempt_without_processes_is_not_waited_for(mark: str, stop_file: Path) -> None:
    assert stop_attempt(mark, stop_file) == (True, 0)


def test_a_child_without_mark_and_session_is_ended_with_its_parent(
    mark: str, start: Start, tmp_path: Path, stop_file: Path
) -> None:
    hidden = tmp_path / "hidden"
    start(f"env -i setsid sh -c 'echo $$ > {hidden}; exec sleep 60' & exec sleep 60")
    pid = pid_in(hidden)
    assert pid not in pids_with_mark(mark)
    assert stop_attempt(mark, stop_file, file_s=None, term_s=0)[0]
    assert ProcessId.of(pid) is None


def test_only_adopted_zombies_are_collected(mark: str, start: Start, stop_file: Path) -> None:
    adopted = start("exit 4")
    until(lambda: psutil.Process(adopted.pid).status() == psutil.STATUS_ZOMBIE)
    spared = [one.pid for one in psutil.Process().children() if one.pid != adopted.pid]
    LocalProcesses(mark, stop_file, 0, lambda: spared).reap()
    assert not psutil.pid_exists(adopted.pid)
    ours = start("exit 3")
    until(lambda: psutil.Process(ours.pid).status() == psutil.STATUS_ZOMBIE)
    LocalProcesses(mark, stop_file, ours.pid, lambda: spared).reap()
    assert ours.wait(10) == 3


@pytest.mark.parametrize(
    ("goes_at", "requests"),
    [
        ("file", ["file"]),
        (signal.SIGTERM, ["file", signal.SIGTERM]),
        (signal.SIGKILL, ["file", signal.SIGTERM, signal.SIGKILL]),
    ],
)
def test_other_hosts_are_asked_in_the_same_order(goes_at: int, requests: list[str | int]) -> None:
    there = OtherHost(goes_at)
    graces = Graces(stop_file_s=0.1, hurried_s=0.1, sigterm_s=0.1, sigkill_s=5)
    assert stop([OtherHost(None), there], graces, meanwhile=lambda: False)
    assert there.requests[: len(requests)] == requests


def test_processes_that_cannot_be_killed_are_reported() -> None:
    graces = Graces(stop_file_s=None, hurried_s=0.1, sigterm_s=0.0, sigkill_s=0.2)
    assert not stop([OtherHost(signal.SIGUSR1)], graces, meanwhile=lambda: False)
