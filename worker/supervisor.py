"""The process that owns one attempt: `python -m worker.supervisor ATTEMPT`, its order on standard input.

It starts `horovodrun` with its first breath and imports what it needs to watch it once the ranks are up, while they
import TensorFlow: SQLAlchemy alone takes longer to import than `horovodrun` to start, and on a small host the two would
share the cores. The attempt was claimed by the worker that started this process, so nothing has to be asked before.
"""

import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from worker.attempt.members import Members

_HEAD_START_S = 3.0
_SAY_WHY = ("-c", "import sys; sys.exit(sys.argv[1])")  # to standard error, with exit code 1


def start_members(order: dict[str, Any]) -> "Members | None":
    """Make the other hosts ready for their ranks, where there are any.

    Where one cannot be, the order's command becomes one that says so: a launcher that started no rank, whose last
    words are stored like any other's.
    """
    if not order["members"]:
        return None
    from worker.attempt.members import MemberFailed, Members, MembersOrder

    try:
        return Members.start(MembersOrder(**order["members"]))
    except MemberFailed as error:
        order["argv"] = [sys.executable, *_SAY_WHY, str(error)]
        return None


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
    asked_to_leave: list[int] = []  # from the first moment on: the ranks are to be stopped in order
    signal.signal(signal.SIGTERM, lambda number, _: asked_to_leave.append(number))
    order = json.load(sys.stdin)
    from worker.attempt.processes import adopt_orphans

    adopt_orphans()  # before there can be one: what cleared its environment and was orphaned sooner is never found
    members = start_members(order)
    launcher = start_horovodrun(order)
    wait_for_a_rank(order, launcher)

    from worker.attempt.launcher import SupervisorOrder
    from worker.attempt.supervision import supervise

    return supervise(SupervisorOrder(**order), launcher, members, asked_to_leave=asked_to_leave)


if __name__ == "__main__":
    sys.exit(main())
