"""The process that owns one attempt: `python -m worker.supervisor ATTEMPT`, its order on standard input.

It starts `horovodrun` with its first breath and imports what it needs to watch it once the ranks are up, while they
import TensorFlow: SQLAlchemy alone takes longer to import than `horovodrun` to start, and on a small host the two would
share the cores. The attempt was claimed by the worker that started this process, so nothing has to be asked before.
"""

import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from typing import Any

_HEAD_START_S = 3.0
_POLITENESS = 10


def start_horovodrun(order: dict[str, Any]) -> "subprocess.Popen[bytes]":
    """Start the launcher in a session of its own, with nothing of this process's environment."""
    with open(order["launcher_log"], "ab") as log:
        return subprocess.Popen(
            order["argv"],
            env=order["environment"],
            cwd=os.path.dirname(os.path.dirname(order["launcher_log"])),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def be_polite() -> None:
    """Let the ranks go first, which this process shares the cores with.

    Where the kernel groups processes by session, niceness counts within the group alone, and the group has its own.
    """
    os.nice(_POLITENESS)
    with suppress(OSError), open("/proc/self/autogroup", "w") as autogroup:
        autogroup.write(str(_POLITENESS))


def wait_for_a_rank(order: dict[str, Any], launcher: "subprocess.Popen[bytes]") -> None:
    """Leave the cores to the launcher until a rank writes its first line, or for a few seconds."""
    give_up_at = time.monotonic() + _HEAD_START_S
    logs = os.path.dirname(order["launcher_log"])
    while launcher.poll() is None and time.monotonic() < give_up_at:
        if any(name.startswith("rank-") for name in os.listdir(logs)):
            return
        time.sleep(0.02)


def main() -> int:
    """Start the launcher, then watch it to its end."""
    order = json.load(sys.stdin)
    launcher = start_horovodrun(order)
    be_polite()  # after the start: the ranks inherit it otherwise
    wait_for_a_rank(order, launcher)

    from worker.launcher import SupervisorOrder
    from worker.supervision import supervise

    return supervise(SupervisorOrder(**order), launcher)


if __name__ == "__main__":
    sys.exit(main())
