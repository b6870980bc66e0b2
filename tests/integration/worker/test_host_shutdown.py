"""A worker that stops with its jobs takes its host off the list, if no other container will have that name."""

import signal
import socket
import subprocess
import sys
from pathlib import Path

from jobs.db.engine import Sessions
from jobs.runtime.settings import Settings
from jobs.scheduling import draining, hosts
from tests.commands import environment
from tests.integration.jobs import job_rows
from tests.waiting import until
from worker.host_shutdown import leave_list


def test_a_host_named_by_its_machine_leaves(sessions: Sessions, database: str, broker: str, tmp_path: Path) -> None:
    log = tmp_path / "worker.log"
    settings = {"HORA_DATABASE_URL": database, "HORA_BROKER_URL": broker, "HORA_STOP_JOBS_WITH_WORKER": "1"}
    with log.open("wb") as output:
        worker = subprocess.Popen(
            [sys.executable, "-m", "worker"], stdout=output, stderr=output,
            env=environment(tmp_path / "home", **settings, HORA_HOST_NAME=""),
        )  # fmt: skip
    try:
        name = [socket.gethostname()]
        until(lambda: "worker ready" in log.read_text() and _listed(sessions) == name, what="the worker")
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(120) == 0
    finally:
        worker.kill()
        worker.wait()
    assert _listed(sessions) == [], log.read_text()


def test_a_host_with_a_name_of_its_own_and_a_drained_one_stay_in_the_list(sessions: Sessions) -> None:
    named, by_machine = Settings(host_name="ha"), Settings()
    for settings in (named, by_machine):
        job_rows.a_host(sessions, settings.host)
        job_rows.host_went_silent(sessions, settings.host)
    job_rows.drain_host(sessions, by_machine.host)
    for settings in (named, by_machine):
        leave_list(sessions, settings)
    assert sorted(_listed(sessions)) == sorted(["ha", by_machine.host])
    with sessions.begin() as session:
        draining.undrain(session, by_machine.host)
    leave_list(sessions, by_machine)
    assert _listed(sessions) == ["ha"]


def _listed(sessions: Sessions) -> list[str]:
    with sessions() as session:
        return [host.name for host in hosts.hosts(session, host_timeout_s=30, limit=9).items]
