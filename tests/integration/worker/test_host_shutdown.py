"""A worker that stops with its jobs takes its host off the list, if no other container will have that name."""

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from jobs.db.engine import Sessions
from jobs.scheduling import draining, hosts
from tests.commands import environment
from tests.waiting import until


@pytest.mark.parametrize(
    ("host_name", "is_drained", "stays"),
    [(None, False, False), (None, True, True), ("ha", False, True)],
    ids=["named by its machine", "drained", "with a name of its own"],
)
def test_only_a_host_that_is_named_by_its_machine_and_not_drained_leaves_the_list(
    sessions: Sessions, database: str, broker: str, tmp_path: Path, host_name: str | None, is_drained: bool, stays: bool
) -> None:
    log = tmp_path / "worker.log"
    settings = {
        "HORA_DATABASE_URL": database, "HORA_BROKER_URL": broker, "HORA_STOP_JOBS_WITH_WORKER": "1",
        "HORA_HOST_NAME": host_name or "",
    }  # fmt: skip
    name = host_name or socket.gethostname()
    with log.open("wb") as output:
        worker = subprocess.Popen(
            [sys.executable, "-m", "worker"], env=environment(tmp_path / "home", **settings), stdout=output,
            stderr=output,
        )  # fmt: skip
    try:
        until(lambda: "worker ready" in log.read_text() and _listed(sessions) == [name], what="the worker")
        if is_drained:
            with sessions.begin() as session:
                draining.drain(session, name)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(120) == 0
    finally:
        worker.kill()
        worker.wait()
    assert _listed(sessions) == ([name] if stays else []), log.read_text()


def _listed(sessions: Sessions) -> list[str]:
    with sessions() as session:
        return [host.name for host in hosts.hosts(session, host_timeout_s=30, limit=9).items]
