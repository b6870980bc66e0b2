"""Every process of an attempt is found and ended, whatever its parent is, and no other process."""

import os
import signal
import subprocess
from pathlib import Path

import psutil

from jobs.runtime.processes import ProcessId, environment
from tests.integration.worker.conftest import Start
from tests.waiting import until
from worker.attempt.processes import pids_with_mark, signal_marked, sweep


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


def test_an_empty_environment_and_that_of_no_process_are_read_as_empty() -> None:
    with subprocess.Popen(["sleep", "60"], env={}) as child:
        until(lambda: Path(f"/proc/{child.pid}/cmdline").read_bytes().startswith(b"sleep"))
        assert environment(child.pid) == frozenset()
        child.kill()
    assert environment(child.pid) == frozenset()
    assert not ProcessId(child.pid, 0).is_alive
