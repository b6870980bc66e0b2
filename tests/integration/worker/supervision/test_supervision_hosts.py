"""A supervisor with other hosts in its attempt: it asks them to stop too, and ends the attempt when one is lost."""

import signal
import time
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from jobs.db.engine import Sessions
from jobs.lifecycle.store import Lease
from jobs.model.states import EndReason, Status
from jobs.runtime.processes import mark_of
from jobs.runtime.settings import Settings
from tests.integration.jobs import job_rows
from tests.integration.worker.agents import claimed_over, files_of
from tests.integration.worker.conftest import Start
from tests.integration.worker.samples import stored_samples
from tests.waiting import until
from worker.attempt import supervision
from worker.attempt.members import Members, NodeSample
from worker.attempt.processes import pids_with_mark
from worker.attempt.supervision import Supervision
from worker.attempt.supervisor_task import SupervisorTask


class OtherHosts(Members):
    """Hosts `hb` and `hc`, whose ranks end when asked, and `hb` then reports that it is clean.

    With that report comes the last sample, as from nodes of Slurm.
    """

    def __init__(self, *, spared: Sequence[int], lost_at: float) -> None:
        super().__init__()
        self._spared = spared
        self._lost_at = lost_at
        self._unsent = [NodeSample("hb", time.time(), {1: {"cpu_percent": 50.0}})]
        self._sent: list[NodeSample] = []
        self.requests: list[str | int] = []
        self.extended: list[float] = []

    @property
    def hosts(self) -> Sequence[str]:
        return ["hb", "hc"]

    def pids(self) -> Sequence[int]:
        return self._spared

    def extend(self, seconds: float) -> None:
        self.extended.append(seconds)

    def why_lost(self) -> str | None:
        return "host hc: the connection broke" if time.monotonic() > self._lost_at else None

    def ask_to_stop(self, *, finish: bool) -> None:
        self.requests.append("file")

    def signal(self, number: int) -> None:
        self.requests.append(number)

    def are_gone(self) -> bool:
        return bool(self.requests)

    def clean_hosts(self) -> Sequence[str]:
        if not self.requests:
            return []
        self._sent, self._unsent = [*self._sent, *self._unsent], []
        return ["hb"]

    def take_samples(self) -> list[NodeSample]:
        taken, self._sent = self._sent, []
        return taken


@pytest.fixture(autouse=True)
def _this_process_keeps_its_priority(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "be_polite", lambda: None)


@pytest.fixture
def config(tmp_path: Path, database: str) -> Settings:
    return Settings(
        home=tmp_path, database_url=database, host_name="ha", orders_period_s=0.1, lease_renewal_s=0.1,
        stop_file_grace_s=0.3, save_grace_s=240, sigterm_grace_s=30, sigkill_grace_s=2,
    )  # fmt: skip


@pytest.fixture
def lease(sessions: Sessions, config: Settings) -> Lease:
    """An attempt of three ranks, one on each host, claimed by `ha`."""
    lease = claimed_over(sessions, "ha", "hb", "hc")
    files_of(config, lease)
    return lease


def supervised(
    start: Start, sessions: Sessions, config: Settings, lease: Lease, *, lost_after_s: float = float("inf")
) -> OtherHosts:
    """Supervise a launcher that only sleeps and has to be terminated. Returns what the other hosts received."""
    spared = [child.pid for child in psutil.Process().children()]
    mark = mark_of(lease.job_id, lease.number)
    launcher = start("exec sleep 60", HORA_ATTEMPT=mark)
    until(lambda: pids_with_mark(mark))
    members = OtherHosts(spared=spared, lost_at=time.monotonic() + lost_after_s)
    nothing = {"argv": [], "environment": {}, "launcher_log": "", "lease_file": ""}
    task = SupervisorTask(lease.attempt_id, lease.token, lease.job_id, lease.number, **nothing)
    Supervision(task, launcher, members, sessions, config).run()
    assert launcher.poll() is not None
    return members


def test_a_lost_host_ends_the_attempt_by_name(start: Start, sessions: Sessions, config: Settings, lease: Lease) -> None:
    began = time.monotonic()
    members = supervised(start, sessions, config, lease, lost_after_s=1)
    assert time.monotonic() - began < config.save_grace_s / 2  # no time to save: the others wait for the lost host
    attempt = job_rows.the_attempt(sessions, lease)
    assert (attempt.end_reason, attempt.error) == (EndReason.HOST_LOST, "host hc: the connection broke")
    assert job_rows.the_job(sessions, lease.job_id).status is Status.QUEUED
    assert members.extended
    assert all(0 < seconds <= config.ranks_lease_s for seconds in members.extended)


def test_every_host_is_asked_to_stop_and_slots_and_last_samples_of_clean_hosts_are_taken(
    start: Start, sessions: Sessions, config: Settings, lease: Lease
) -> None:
    job_rows.cancel(sessions, lease.job_id)
    members = supervised(start, sessions, config, lease)
    assert members.requests == ["file", signal.SIGTERM]
    assert job_rows.the_attempt(sessions, lease).end_reason is EndReason.CANCELLED
    held = [job_rows.holders(sessions, host)[0] for host in ("ha", "hb", "hc")]
    assert held == [None, None, lease.attempt_id]  # the agent of `hc` looks for itself
    (sample,) = stored_samples(sessions)
    assert (sample.host, sample.rank, sample.cpu_percent) == ("hb", 1, 50.0)
