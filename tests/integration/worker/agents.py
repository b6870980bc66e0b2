"""Agents, and the rows and processes that they check. For the tests of the agent."""

import subprocess
from collections.abc import Sequence
from typing import Any

from jobs.db.engine import Sessions
from jobs.lifecycle import leases
from jobs.lifecycle.store import Lease
from jobs.runtime.hints import Hints
from jobs.runtime.processes import ProcessId
from jobs.runtime.settings import Settings
from worker.agent import Agent
from worker.attempt.launcher import Launcher
from worker.dispatcher import Dispatcher
from worker.host.devices import Answer, Devices, Usable, offer_of
from worker.host.gpus import Gpu


def agent_of(
    sessions: Sessions,
    settings: Settings,
    hints: Hints,
    *,
    launcher: Launcher | None = None,
    gpus: Sequence[Gpu] = (),
    **values: Any,
) -> Agent:
    settings = settings.model_copy(update=values)
    devices = Devices(settings, gpus)
    if gpus:  # as if TensorFlow could use them all
        devices.offer = offer_of(settings, gpus, Usable(Answer("2.18.1", cuda=True, gpus=len(gpus), nccl=True)))
    return Agent(
        sessions,
        settings,
        launcher=launcher or Launcher(sessions, settings),
        dispatcher=Dispatcher(sessions, hints, settings),
        gpus=gpus,
        devices=devices,
    )


def set_supervisor(sessions: Sessions, lease: Lease, process: ProcessId) -> None:
    with sessions.begin() as session:
        leases.record_supervisor(session, lease, process)


def live_process(pid: int) -> ProcessId:
    """The process that has this pid."""
    process = ProcessId.of(pid)
    assert process is not None
    return process


def dead_process() -> ProcessId:
    """A process that has ended."""
    with subprocess.Popen(["sleep", "60"]) as child:
        process = live_process(child.pid)
        child.kill()
    return process
