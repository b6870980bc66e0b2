"""`hora doctor` names processes that ended attempts left on this machine."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hora.doctor.machine import leftovers
from jobs.runtime.processes import MARK
from tests.waiting import until


@pytest.mark.parametrize(
    ("program", "variables"), [("worker.supervisor", {}), ("", {MARK: "0abc.3"})], ids=["log file", "mark"]
)
def test_a_leftover_process_of_an_ended_attempt_is_named(
    tmp_path: Path, program: str, variables: dict[str, str]
) -> None:
    """A supervisor is known by its log file, and a rank by its mark."""
    log = tmp_path / "runs" / "0abc" / "attempt-3" / "supervisor.log"
    log.parent.mkdir(parents=True)
    environment = {**os.environ, "HORA_HOME": str(tmp_path), **variables}
    argv = [sys.executable, "-c", "input()", program]
    with log.open("wb") as file, subprocess.Popen(argv, env=environment, stdin=subprocess.PIPE, stderr=file) as process:
        until(lambda: leftovers(tmp_path, lambda *_: False).level == "warn")
        assert f"of 0abc.3: {process.pid}" in leftovers(tmp_path, lambda *_: False).found
        assert leftovers(tmp_path, lambda job_id, number: (job_id, number) == ("0abc", 3)).level == "ok"
        assert leftovers(tmp_path / "elsewhere", lambda *_: False).level == "ok"
        process.kill()
