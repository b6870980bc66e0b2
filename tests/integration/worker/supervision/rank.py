"""A launcher that is its own only rank, of the standard library: `rank.py ROOT MOOD SAVE_S`.

It makes a step every 50 ms. At the stop file it takes `SAVE_S` to save, then ends. `MOOD` selects how it behaves.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT, MOOD, SAVE_S = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
FULL = "No space left on device"
records = (ROOT / "records/rank-0.jsonl").open("a", buffering=1)  # a line at a time


def say(kind: str, **fields: Any) -> None:
    """Add a record."""
    print(json.dumps({"kind": kind, "at": time.time(), **fields}), file=records)


def note(**fields: Any) -> None:
    """Replace the rank's note."""
    with (ROOT / "records/rank-0.note").open("r+") as file:
        file.write(json.dumps(fields).ljust(1023))


def hide_a_child() -> None:
    """Start a process that has neither the mark nor the session of the rank, and writes its pid."""
    script = f"env -i setsid sh -c 'echo $$ > {ROOT / 'hidden'}; exec sleep 600' &"
    subprocess.run(["sh", "-c", script], stdout=subprocess.DEVNULL, check=True)


def train(steps: int | None) -> None:
    """Make so many steps, or without end."""
    step = 0
    while step != steps and (MOOD == "deaf" or not (ROOT / "stop").exists()):
        step += 1
        times = {"step_time_s": 0.05, "data_wait_s": 0, "allreduce_s": 0, "samples_per_s": 1}
        say("step", step=step, epoch=1, **times, metrics={"loss": 1})
        time.sleep(0.05)


def save() -> None:
    """Take some time, which a signal of the supervisor ends."""
    end = time.time() + SAVE_S
    while time.time() < end:
        time.sleep(0.05)
    (ROOT / "saved").touch()


(ROOT / "logs/rank-0.log").write_text("here I am\n")
say("rank_started", rank=0, local_rank=0, host="ha", pid=os.getpid())
match MOOD:
    case "without space":
        for count in range(25):
            note(records=count, why=FULL)
            time.sleep(0.2)
        note(records=25, why=FULL, exit={"kind": "exit", "at": 1.0, "reason": "no_space"})
        sys.exit(1)
    case "waits for space":
        for waited_s in range(1, 20):
            note(why=FULL, waited_s=waited_s)
            time.sleep(0.2)
        say("exit", reason="completed")
    case "without a device":
        say("exit", reason="no_device", message="local rank 0 on host ha has no GPU")
        sys.exit(1)
    case "script fails" | "script saves and fails":
        say("report", step=1, metrics={"mae": 1})
        if MOOD == "script saves and fails":
            say("checkpoint", epoch=1, step=1, path="/x", duration_s=0.1)
        say("exit", reason="script_failed", message="the script exited with 1: ValueError: no such column")
        sys.exit(1)
    case "script fails when stopped":
        say("report", step=1, metrics={"mae": 1})
        while not (ROOT / "stop").exists():
            time.sleep(0.02)
        say("exit", reason="script_failed", message="the script exited with 1: KeyboardInterrupt")
        sys.exit(1)
    case "script without reports":
        time.sleep(3)
        say("exit", reason="completed")
    case "script stalls":
        say("report", step=1, metrics={"mae": 1})
        time.sleep(600)
    case "one epoch":
        say("epoch", epoch=1, step=1, wall_s=1, samples_per_s=1, learning_rate=0.1, metrics={"val_accuracy": 0.5})
        train(None)
        say("exit", reason="pruned" if (ROOT / "stop-finish").exists() else "stop_requested")
    case "brief":
        train(5)
        say("exit", reason="completed")
    case "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        hide_a_child()
        train(None)
    case "obedient":
        train(None)
        save()
        say("exit", reason="stop_requested")
