"""The process that owns one attempt: `python -m worker.supervisor ATTEMPT`, a `SupervisorTask` on its standard input.

Or the nursery forks it, with everything imported (`worker.nursery`). Then a stem, a process that was forked with it,
becomes `horovodrun`.

It starts `horovodrun` first. It imports what it needs for the supervision after the ranks have started, while they
import TensorFlow: importing SQLAlchemy alone takes longer than starting `horovodrun`, and on a small host the two would
share the cores. The worker that started this process has claimed the attempt, so no query is needed before that.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from worker.attempt.members import Members
    from worker.nursery.becoming import Forked
    from worker.nursery.stem import Stem

_HEAD_START_S = 3.0
_SAY_WHY = ("-c", "import sys; sys.exit(sys.argv[1])")  # to standard error, with exit code 1


def start_members(task: dict[str, Any]) -> "Members | None":
    """Make the other hosts ready for their ranks, if there are any.

    If one cannot be made ready, the task's command is replaced by one that prints the reason and fails. So the reason
    is stored like the last lines of any launcher that started no rank. A node of Slurm on which no member came up is
    lost: the nodes were taken back, or Slurm is away.
    """
    if not task["members"]:
        return None
    from worker.attempt.member_connection import MemberFailed
    from worker.attempt.members import Members, MembersLaunch

    try:
        return Members.start(MembersLaunch(**task["members"]))
    except MemberFailed as error:
        task["argv"] = [sys.executable, *_SAY_WHY, str(error)]
        return Members(failure=error) if task["leaving_file"] else None


def made_ready(task: dict[str, Any], leave_signals: list[int]) -> dict[str, Any]:
    """The task, once all that the attempt starts from is here. If that cannot be had, this process ends."""
    from worker.attempt.supervisor_task import SupervisorTask
    from worker.copies.start import make_ready

    return make_ready(SupervisorTask(**task), leave_signals).__dict__


def lease_is_over(task: dict[str, Any]) -> bool:
    """Whether this process, or the worker that started it, stood still for longer than the lease.

    The slots may belong to another attempt by now. The agent ends this one.
    """
    from worker.attempt.lease_file import read_until

    until = read_until(Path(task["lease_file"]))
    return until is not None and time.monotonic() >= until


def start_horovodrun(task: dict[str, Any], stem: "Stem | None") -> "subprocess.Popen[bytes] | Forked":
    """Start the launcher in a session of its own, without this process's environment."""
    from worker.attempt.log_file import opened_to_append

    argv, environment = task["argv"], task["environment"]
    folder = os.path.dirname(os.path.dirname(task["launcher_log"]))
    with opened_to_append(Path(task["launcher_log"])) as log:
        if stem is not None and stem.can_run(argv, environment):
            return stem.become_horovodrun(argv, environment, folder=folder, log=log.fileno(), ranks=task["ranks_here"])
        if stem is not None:
            stem.close()
        return subprocess.Popen(
            argv,
            env=environment,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def wait_for_a_rank(task: dict[str, Any], launcher: "subprocess.Popen[bytes] | Forked") -> None:
    """Leave the cores to the launcher until a rank writes its first line, or for a few seconds."""
    give_up_at = time.monotonic() + _HEAD_START_S
    logs = os.path.dirname(task["launcher_log"])
    while launcher.poll() is None and time.monotonic() < give_up_at:
        if any(name.startswith("rank-") for name in os.listdir(logs)):
            return
        time.sleep(0.02)


def main(task: dict[str, Any] | None = None, stem: "Stem | None" = None) -> int:
    """Start the launcher, then watch it to its end. A process that was forked for it has got its task and a stem."""
    os.umask(0o077)  # PRIVATE_UMASK of `jobs.runtime.files`, without an import of `jobs` before the ranks start
    leave_signals: list[int] = []  # handled from the start, so that the ranks are stopped properly
    signal.signal(signal.SIGTERM, lambda number, _: leave_signals.append(number))
    if task is None:
        task = json.load(sys.stdin)
        assert task is not None
    from jobs.runtime.processes import adopt_orphans

    adopt_orphans()  # before there can be an orphan: one with an empty environment would never be found
    if task["waits_for_data"] or task["fetches"]:
        task = made_ready(task, leave_signals)
    members = start_members(task)
    if lease_is_over(task):
        sys.exit("the lease was over before the launch: nothing was started")
    launcher = start_horovodrun(task, stem)
    if stem is None:
        wait_for_a_rank(task, launcher)  # its imports would take cores from the ranks'

    from worker.attempt.supervision import supervise
    from worker.attempt.supervisor_task import SupervisorTask

    return supervise(SupervisorTask(**task), launcher, members, leave_signals=leave_signals)


if __name__ == "__main__":
    sys.exit(main())
