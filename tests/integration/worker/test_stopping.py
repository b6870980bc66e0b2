"""An attempt is ended in order: asked by a file, then by SIGTERM, then killed. All of its processes are found.

`supervision/test_supervision.py` stops real ranks: some save, some are deaf, some hide their children.
"""

import os
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from jobs.runtime.processes import ProcessId, environment
from tests.integration.worker.conftest import Start
from tests.waiting import until
from worker.attempt.processes import pids_with_mark, signal_marked, sweep
from worker.attempt.stopping import Graces, LocalProcesses, stop


# Writes what reaches it, in the order it does; `sleep 0.05 &` and `wait` let a trap run at once.
class OtherHost:
    """Processes on another host, invisible from here. They leave at the signal `goes_at`."""

    def __init__(self, goes_at: str | int | None) -> None:
        self.goes_at = goes_at
        self.requests: list[str | int] = []

    def ask_to_stop(self, *, finish: bool) -> None:
        self.requests.append("file")

    def signal(self, number: int) -> None:
        self.requests.append(number)

    def are_gone(self) -> bool:
        return self.goes_at is None or self.goes_at in self.requests


def graces(stop_file_s: float | None, *, sigterm_s: float = 0.1, sigkill_s: float = 5) -> Graces:
    return Graces(stop_file_s=stop_file_s, hurried_s=0.1, sigterm_s=sigterm_s, sigkill_s=sigkill_s)


def test_without_a_stop_file_ranks_are_terminated_at_once(mark: str, start: Start, tmp_path: Path) -> None:
    stop_file, limits = tmp_path / "stop", graces(None, sigterm_s=60)
    rank = start(f"trap 'exit 4' TERM; touch {tmp_path}/up; while true; do sleep 0.05 & wait; done")
    until((tmp_path / "up").exists)
    spared = [one.pid for one in psutil.Process().children() if one.pid != rank.pid]
    processes = LocalProcesses(mark, stop_file, rank.pid, lambda: spared)
    assert stop([processes], limits, meanwhile=lambda: False)
    assert (rank.wait(10), pids_with_mark(mark), stop_file.exists()) == (4, [], False)

    def is_waited_for() -> bool:
        raise AssertionError("it was")

    assert stop([processes], limits, meanwhile=is_waited_for)


def test_only_adopted_zombies_are_collected(mark: str, start: Start, tmp_path: Path) -> None:
    spared = [one.pid for one in psutil.Process().children()]
    for is_adopted in (True, False):
        child = start("exit 3")
        until(lambda child=child: psutil.Process(child.pid).status() == psutil.STATUS_ZOMBIE)
        LocalProcesses(mark, tmp_path / "stop", 0 if is_adopted else child.pid, lambda: spared).reap()
        assert psutil.pid_exists(child.pid) != is_adopted


@pytest.mark.parametrize("last", [0, 1, 2])
def test_other_hosts_are_asked_in_the_same_order(last: int) -> None:
    requests = ["file", signal.SIGTERM, signal.SIGKILL]
    there = OtherHost(requests[last])
    assert stop([OtherHost(None), there], graces(0.1), meanwhile=lambda: False)
    assert there.requests[: last + 1] == requests[: last + 1]


def test_processes_that_cannot_be_killed_are_reported() -> None:
    assert not stop([OtherHost(signal.SIGUSR1)], graces(None, sigterm_s=0.0, sigkill_s=0.2), meanwhile=lambda: False)


def test_only_processes_with_the_mark_are_found(mark: str, start: Start) -> None:
    child = start("exec sleep 60")
    longer = start("exec sleep 60", HORA_ATTEMPT=f"{mark}0")
    until(lambda: pids_with_mark(f"{mark}0"))
    assert pids_with_mark(mark) == [child.pid]
    assert pids_with_mark(mark[:-1]) == []
    assert pids_with_mark(f"{mark}0") == [longer.pid]
    longer.kill()


def test_grandchildren_whose_parent_is_gone_are_found_and_ended_in_any_session(mark: str, start: Start) -> None:
    parent = start("sleep 60 & setsid sleep 60 & exit 0")
    parent.wait(10)
    until(lambda: len({os.getsid(pid) for pid in pids_with_mark(mark)}) == 2, what="two orphans, two sessions")
    orphans = pids_with_mark(mark)
    assert parent.pid not in orphans
    assert sweep(mark)
    assert not any(ProcessId.of(pid) for pid in orphans)
    assert signal_marked(mark, signal.SIGKILL) == 0


def test_a_process_that_ignores_sigterm_is_ended(mark: str, start: Start, tmp_path: Path) -> None:
    child = start(f"trap '' TERM; touch {tmp_path}/deaf; exec sleep 60")
    until((tmp_path / "deaf").exists)
    assert signal_marked(mark, signal.SIGTERM) == 1
    assert child.poll() is None
    assert sweep(mark)
    assert child.wait(10) == -signal.SIGKILL


def test_processes_that_are_started_while_others_are_killed_are_ended_too(mark: str, start: Start) -> None:
    start("while true; do sleep 60 & sleep 0.01; done")
    until(lambda: len(pids_with_mark(mark)) > 5)
    assert sweep(mark)
    assert pids_with_mark(mark) == []


def test_a_process_that_cleared_its_environment_ends_with_the_one_that_started_it(
    mark: str, start: Start, tmp_path: Path
) -> None:
    start(f"env -i sh -c 'echo $$ > {tmp_path}/pid; mv {tmp_path}/pid {tmp_path}/hidden; exec sleep 60' & wait")
    until((tmp_path / "hidden").exists)
    hidden = ProcessId.of(int((tmp_path / "hidden").read_text()))
    assert hidden is not None
    assert hidden.pid not in pids_with_mark(mark)
    assert sweep(mark)
    until(lambda: not hidden.is_alive, within_s=10, what="its end")


def test_a_process_in_the_middle_of_an_exec_is_not_missed(mark: str, start: Start, tmp_path: Path) -> None:
    restless = tmp_path / "restless"
    restless.write_text('#!/bin/sh\nexec "$0"\n')
    restless.chmod(0o755)
    start([str(restless)])
    until(lambda: pids_with_mark(mark))
    assert [look for look in range(300) if not pids_with_mark(mark)] == []


def test_a_zombie_does_not_count_and_a_reused_pid_is_not_the_earlier_process(mark: str, start: Start) -> None:
    child = start("exec sleep 60")
    until(lambda: pids_with_mark(mark))
    process = ProcessId.of(child.pid)
    assert process is not None
    others = [ProcessId(child.pid, process.started + seconds) for seconds in (-1, 1)]
    assert [one.is_alive for one in (process, *others)] == [True, False, False]
    child.kill()
    until(lambda: psutil.Process(child.pid).status() == psutil.STATUS_ZOMBIE)
    assert pids_with_mark(mark) == []
    assert sweep(mark, timeout_s=0)
    assert ProcessId.of(child.pid) is None
    assert not process.is_alive


def test_an_empty_environment_and_that_of_no_process_are_read_as_empty() -> None:
    with subprocess.Popen(["sleep", "60"], env={}) as child:
        until(lambda: Path(f"/proc/{child.pid}/cmdline").read_bytes().startswith(b"sleep"))
        assert environment(child.pid) == frozenset()
        child.kill()
    assert environment(child.pid) == frozenset()
    assert not ProcessId(child.pid, 0).is_alive
