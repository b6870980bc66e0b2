"""Agents, and the rows, files and processes that they check. For the tests of the agent."""

import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jobs.db.engine import Sessions
from jobs.lifecycle import leases
from jobs.lifecycle.store import Lease
from jobs.model.records import Record, rank_records_name
from jobs.runtime.hints import Hints
from jobs.runtime.processes import ProcessId
from jobs.runtime.settings import Settings
from jobs.scheduling import placing
from jobs.scheduling.decisions import Placement, Share
from tests.integration.jobs import job_rows
from tests.integration.jobs.writing import write
from worker.agent import Agent
from worker.attempt.launcher import Launcher
from worker.attempt.paths import AttemptPaths, paths_of
from worker.dispatcher import Dispatcher
from worker.host.devices import Answer, Devices, Usable, offer_of
from worker.host.gpus import Gpu

MakeAgent = Callable[..., Agent]


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
    write(sessions, leases.record_supervisor, lease, process)


def supervised_by(sessions: Sessions, process: ProcessId) -> Lease:
    """A running attempt of host `ha` with this supervisor."""
    lease = job_rows.a_running_attempt(sessions)
    set_supervisor(sessions, lease, process)
    return lease


def claimed(sessions: Sessions, lease: Lease) -> Lease:
    """The same, claimed."""
    with sessions.begin() as session:
        assert leases.claim(session, lease.attempt_id, lease_s=60) == lease
    return lease


def claimed_elsewhere(sessions: Sessions) -> Lease:
    """A claimed attempt of host `hb`, which has no agent here."""
    job_rows.a_host(sessions, "hb")
    return claimed(sessions, job_rows.an_attempt(sessions, job_rows.a_job(sessions), host="hb"))


def claimed_over(sessions: Sessions, *names: str) -> Lease:
    """A claimed attempt with a slot on each of these hosts, which the first one leads."""
    for name in names:
        job_rows.a_host(sessions, name, slots=1)
    placement = Placement(job_rows.a_job(sessions, gpus=len(names)), tuple(Share(name, (0,)) for name in names))
    (lease,) = write(sessions, placing.place, [placement], lease_s=60)
    return claimed(sessions, lease)


def files_of(settings: Settings, lease: Lease, records: Mapping[int, Sequence[Record]] | None = None) -> AttemptPaths:
    """The folders of an attempt, with these records of its ranks."""
    paths = paths_of(settings.runs_dir, lease.job_id, lease.number)
    paths.create()
    for rank, of_rank in (records or {}).items():
        lines = [record.model_dump_json() + "\n" for record in of_rank]
        (paths.records / rank_records_name(rank)).write_text("".join(lines))
    return paths


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
