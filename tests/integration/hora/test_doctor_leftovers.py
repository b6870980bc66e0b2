"""`hora doctor` names processes that ended attempts left on this machine."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hora.doctor.machine import leftovers
from jobs.runtime.processes import MARK, ProcessId
from tests.waiting import until


def test_a_leftover_supervisor_is_named_by_its_log_file(tmp_path: Path) -> None:
    log = tmp_path / "runs" / "0abc" / "attempt-3" / "supervisor.log"
    log.parent.mkdir(parents=True)
    variables = {**os.environ, "HORA_HOME": str(tmp_path)}
    argv = [sys.executable, "-c", "input()", "worker.supervisor"]
    with log.open("wb") as file, subprocess.Popen(argv, env=variables, stdin=subprocess.PIPE, stderr=file) as process:
        until(lambda: leftovers(tmp_path, lambda *_: False).level == "warn")
        assert f"of 0abc.3: {process.pid}" in leftovers(tmp_path, lambda *_: False).found
        assert leftovers(tmp_path, lambda job_id, number: (job_id, number) == ("0abc", 3)).level == "ok"
        process.kill()


@pytest.fixture
def marked(tmp_path: Path) -> Iterator[ProcessId]:
    """A process of the second attempt of a job."""
    variables = {**os.environ, "HORA_HOME": str(tmp_path), MARK: "0abc.2"}
    with subprocess.Popen([sys.executable, "-c", "input()"], env=variables, stdin=subprocess.PIPE) as process:
        yield until(lambda: ProcessId.of(process.pid))
        process.kill()


def test_a_leftover_process_of_an_ended_attempt_is_named(tmp_path: Path, marked: ProcessId) -> None:
    asked: list[tuple[str, int]] = []
    until(lambda: leftovers(tmp_path, lambda job_id, number: bool(asked.append((job_id, number)))).level == "warn")
    assert set(asked) == {("0abc", 2)}
    assert f"of 0abc.2: {marked.pid}" in leftovers(tmp_path, lambda *_: False).found
    assert leftovers(tmp_path, lambda *_: True).level == "ok"
    assert leftovers(tmp_path / "elsewhere", lambda *_: False).level == "ok"
