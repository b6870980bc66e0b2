"""The stop watch. In a process of its own: it changes the signal mask, and leaving ends the process."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import os, signal, sys, time
from pathlib import Path
from trainer.stopping import Stage, StopWatch

watch = StopWatch(Path(sys.argv[1]), on_leave=lambda why: (print(why, flush=True), os._exit(7)))
watch.stage = Stage[sys.argv[2]]
watch.start()
print("watching", flush=True)
print("requested" if watch.requested.wait(20) else "nothing", watch.asked_by_file, flush=True)
signal.sigtimedwait({signal.SIGUSR1}, 1 if sys.argv[2] == "TRAINING" else 20)
"""


@pytest.mark.parametrize(
    ("stage", "wish", "code"),
    [
        ("SETTING_UP", "file", 7),
        ("SETTING_UP", "signal", 7),
        ("TRAINING", "file", 0),
        ("TRAINING", "signal", 0),
        ("FINISHING", "signal", 7),
    ],
)
def test_what_a_wish_to_stop_does(tmp_path: Path, stage: str, wish: str, code: int) -> None:
    stop_path = tmp_path / "stop"
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(stop_path), stage], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "watching\n"
        stop_path.touch() if wish == "file" else process.send_signal(signal.SIGTERM)
        said, _ = process.communicate(timeout=30)
    assert process.returncode == code
    if code == 7:
        assert ("the stop file" if wish == "file" else f"SIGTERM from process {os.getpid()}") in said
    else:
        assert said == f"requested {wish == 'file'}\n"
