"""What a run says of its costs: the processor time of all that tests start, however it ends."""

import subprocess
import sys
from pathlib import Path

import pytest

from jobs.runtime.processes import command_line, pids
from tests.costs import Meter
from tests.waiting import until

BUSY_S = 0.4
BUSY = f"""
import os, sys, time
while time.process_time() < {BUSY_S}:
    pass
while not os.path.exists(sys.argv[1]):
    time.sleep(0.02)
"""
IMPORTS = "import signal, subprocess, sys, time\nargv = [sys.executable, '-c', *sys.argv[1:]]\n"
LEAVES_IT = "subprocess.Popen(argv, start_new_session=True)"


@pytest.mark.parametrize(
    "parent",
    ["subprocess.run(argv)", LEAVES_IT, f"signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n{LEAVES_IT}\ntime.sleep(600)"],
    ids=["reaped by its parent", "left by its parent", "reaped by the kernel"],
)
def test_the_time_of_every_process_counts_once(parent: str, tmp_path: Path) -> None:
    may_end = tmp_path / "may end"
    meter = Meter()
    meter.start()
    before_s = meter.cpu_s()
    process = subprocess.Popen([sys.executable, "-c", IMPORTS + parent, BUSY, str(may_end)])
    try:
        until(lambda: meter.cpu_s() - before_s >= BUSY_S, what="the time of the process")
        may_end.touch()
        until(lambda: not any(command_line(pid)[2:3] == [BUSY.encode()] for pid in pids()), what="its end")
    finally:
        process.kill()
        process.wait()
    assert BUSY_S <= meter.cpu_s() - before_s < 4 * BUSY_S  # Python itself takes some of it
