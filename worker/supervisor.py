"""The process that owns one attempt: `python -m worker.supervisor ATTEMPT`, its order on standard input.

It starts `horovodrun` with its first breath and imports what it needs to watch it while the ranks come up:
SQLAlchemy alone takes longer to import than `horovodrun` to start. The attempt was claimed by the worker that
started this process, so nothing has to be asked before.
"""

import json
import os
import subprocess
import sys
from typing import Any


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


def main() -> int:
    """Start the launcher, then watch it to its end."""
    order = json.load(sys.stdin)
    launcher = start_horovodrun(order)

    from worker.launcher import SupervisorOrder
    from worker.supervision import supervise

    return supervise(SupervisorOrder(**order), launcher)


if __name__ == "__main__":
    sys.exit(main())
