"""Every process of an attempt is found and ended, whatever its parent is, and no other process."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil

from jobs.runtime.processes import ProcessId, environment, mark_of
from tests.integration.worker.conftest import Start
from tests.waiting import until
from worker.attempt.processes import pids_with_mark, signal_marked, sweep


def marked_count(mark: str, count: int) -> list[int]:
    return until(lambda: found if len(found := pids_with_mark(mark)) == count else [], what=f"{count} marked processes")


def test_the_mark_names_the_job_and_the_attempt() -> None:
    assert mark_of("abc", 3) == "abc.3"


def test_only_processes_with_the_mark_are_found(mark: str, start: Start) -> None:
    child = start("exec sleep 60")
    longer = start("exec sleep 60", HORA_ATTEMPT=f"{mark}0")
    until(lambda: pids_with_mark(f"{mark}0"))
    assert pids_with_mark(mark) == [child.pid]
    assert pids_with_mark(mark[:-1]) == []
    assert pids_with_mark(f"{mark}0") == [longer.pid]
    longer.kill()


def test_a_grandchild_whose_parent_is_gone_is_found_and_ended(mark: str, start: Start) -> None:
    parent = start("sleep 60 & sleep 60 & exit 0")
    parent.wait(10)
    orphans = marked_count(mark, 2)
    assert parent.pid not in orphans
    assert sweep(mark)
    assert not any(ProcessId.of(pid) for pid in orphans)


def test_a_process_in_a_session_of_its_own_is_found_and_ended(mark: str, start: Start) -> None:
    parent = start("setsid sleep 60 & exec sleep 60")
    until(lambda: len({os.getsid(pid) for pid in pids_with_mark(mark)}) == 2, what="a second session")
    assert sweep(mark)
    assert pids_with_mark(mark) == []
    assert parent.wait(10) == -signal.SIGKILL


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


def test_a_process_in_the_middle_of_an_exec_is_not_missed(mark: str, start: Start, tmp_path: Path) -> None:
    restless = tmp_path / "restless"
    restless.write_text('#!/bin/sh\nexec "$0"\n')
    restless.chmod(0o755)
    start([str(restless)])
    until(lambda: pids_with_mark(mark))
    assert [look for look in range(300) if not pids_with_mark(mark)] == []


def test_a_zombie_does_not_count(mark: str, start: Start) -> None:
    child = start("exec sleep 60")
    until(lambda: pids_with_mark(mark))
    process = ProcessId.of(child.pid)
    assert process is not None
    assert process.is_alive
    child.kill()
    until(lambda: psutil.Process(child.pid).status() == psutil.STATUS_ZOMBIE)
    assert pids_with_mark(mark) == []
    assert sweep(mark, timeout_s=0)
    assert ProcessId.of(child.pid) is None
    assert not process.is_alive


def test_a_reused_pid_is_not_the_earlier_process(start: Start) -> None:
    child = start("exec sleep 60")
    process = ProcessId.of(child.pid)
    assert process is not None
    assert process.is_alive
    assert not ProcessId(child.pid, process.started - 1).is_alive
    assert not ProcessId(child.pid, process.started + 1).is_alive


def test_a_pid_without_a_process_is_not_alive(start: Start) -> None:
    child = start("exit 0")
    child.wait(10)
    assert ProcessId.of(child.pid) is None
    assert not ProcessId(child.pid, 0).is_alive
    assert environment(child.pid) == frozenset()


def test_an_empty_environment_is_read_as_empty() -> None:
    with subprocess.Popen(["sleep", "60"], env={}) as child:
        until(lambda: Path(f"/proc/{child.pid}/cmdline").read_bytes().startswith(b"sleep"))
        assert environment(child.pid) == frozenset()
        child.kill()


def test_a_sweep_leaves_no_process_with_the_mark(mark: str, start: Start) -> None:
    start([sys.executable, "-S", "-c", "import time; time.sleep(60)"])
    until(lambda: pids_with_mark(mark))
    assert sweep(mark)
    assert signal_marked(mark, signal.SIGKILL) == 0
