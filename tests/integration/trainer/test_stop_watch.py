"""The stop watch runs in a process of its own: it changes the signal mask and can end the process."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.waiting import slowdown, until
from trainer.stopping import POLL_S, LeaseFile
from worker.attempt import stop_file
from worker.attempt.lease_file import extend, read_until

PROGRAM = """
import os, signal, sys, time
from pathlib import Path
from trainer.stopping import Stage, StopWatch

watch = StopWatch(Path(sys.argv[1]), on_leave=lambda why: (print(why, flush=True), os._exit(7)))
watch.stage = Stage[sys.argv[2]]
watch.start()
print("watching", flush=True)
print("requested" if watch.requested.wait(120) else "nothing", watch.asked_by_file, watch.finishes, flush=True)
signal.sigtimedwait({signal.SIGUSR1}, 0.5 if sys.argv[2] == "TRAINING" else 20)
"""


@pytest.mark.parametrize(
    ("stage", "wish", "code"),
    [
        ("SETTING_UP", "file", 7),
        ("SETTING_UP", "signal", 7),
        ("TRAINING", "file", 0),
        ("TRAINING", "finish", 0),
        ("TRAINING", "signal", 0),
        ("FINISHING", "signal", 7),
    ],
)
def test_a_request_to_stop_is_obeyed_at_every_stage(tmp_path: Path, stage: str, wish: str, code: int) -> None:
    stop_path = tmp_path / "stop"
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(stop_path), stage], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "watching\n"
        if wish == "signal":
            process.send_signal(signal.SIGTERM)
        else:
            stop_file.make(stop_path, finish=wish == "finish")
        said, _ = process.communicate(timeout=120)
    assert process.returncode == code
    if code == 7:
        assert ("the stop file" if wish != "signal" else f"SIGTERM from process {os.getpid()}") in said
    else:
        assert said == f"requested {wish != 'signal'} {wish == 'finish'}\n"


# Its lease begins when all is imported; it has been read before the process stops itself.
LEASED = """
import os, signal, sys, time
from pathlib import Path
from trainer.stopping import LeaseFile, StopWatch
from worker.attempt import stop_file
from worker.attempt.lease_file import extend

path = Path(sys.argv[1])
lease = LeaseFile(path)
watch = StopWatch(
    Path("no-such-file"), on_leave=lambda why: os._exit(1), lease=lease, on_lease_over=lambda: os._exit(7)
)
extend(path, time.monotonic() + 1.0)
assert not lease.is_over()
watch.start()
os.kill(os.getpid(), signal.SIGSTOP)
watch.join()
"""


def runs_on(process: "subprocess.Popen[bytes]") -> bool:
    """Whether the process still runs after the watch has looked a few times."""
    time.sleep(5 * POLL_S * slowdown())
    return process.poll() is None


@pytest.mark.parametrize("extended", [True, False])
def test_a_rank_that_wakes_after_its_lease_continues_only_if_it_was_extended(tmp_path: Path, extended: bool) -> None:
    lease = tmp_path / "lease"
    with subprocess.Popen([sys.executable, "-c", LEASED, str(lease)]) as process:
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        over_at = read_until(lease)
        assert over_at is not None
        until(lambda: time.monotonic() > over_at, what="the end of the lease")
        if extended:
            extend(lease, time.monotonic() + 60)
        process.send_signal(signal.SIGCONT)
        if extended:
            assert runs_on(process)
            process.kill()
        else:
            assert process.wait(120) == 7


@pytest.mark.parametrize("content", [None, "", "soon"], ids=["missing", "empty", "no number"])
def test_unreadable_lease_file_counts_as_expired(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "lease").write_text(content)
    assert LeaseFile(tmp_path / "lease").is_over()
    assert not LeaseFile(None).is_over()  # without a file there is no lease
