"""What a run says of its costs: the processor time of all that tests start, however it ends."""

import subprocess
import sys

import pytest

from jobs.runtime.processes import command_line, pids
from tests.costs import Meter
from tests.waiting import until

BUSY_S = 0.4
BUSY = f"import time\nwhile time.process_time() < {BUSY_S}: pass\ntime.sleep(2)"  # long enough to be looked at


IMPORTS = "import signal, subprocess, sys, time\n"
WAITS_FOR_IT = "subprocess.run([sys.executable, '-c', sys.argv[1]])"
LEAVES_IT = "subprocess.Popen([sys.executable, '-c', sys.argv[1]], start_new_session=True)"
IGNORES_ITS_END = f"signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n{LEAVES_IT}\ntime.sleep(600)"


@pytest.mark.parametrize(
    "parent",
    [WAITS_FOR_IT, LEAVES_IT, IGNORES_ITS_END],
    ids=["reaped by its parent", "left by its parent", "reaped by the kernel"],
)
def test_the_time_of_every_process_counts_once(parent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HORA_TESTS_PROCESS", raising=False)  # it is set again
    meter = Meter()
    meter.start()
    before_s = meter.cpu_s()
    process = subprocess.Popen([sys.executable, "-c", IMPORTS + parent, BUSY])
    try:
        until(lambda: meter.cpu_s() - before_s >= BUSY_S, what="the time of the process")
        until(lambda: not any(command_line(pid)[2:3] == [BUSY.encode()] for pid in pids()), what="its end")
    finally:
        process.kill()
        process.wait()
    assert BUSY_S <= meter.cpu_s() - before_s < 4 * BUSY_S  # Python itself takes some of it
