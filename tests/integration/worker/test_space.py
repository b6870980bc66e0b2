"""A host without space takes no job, says why, and takes jobs again when there is space."""

from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import rmtree

import pytest

from jobs.db.engine import Sessions
from jobs.model.states import Status
from jobs.runtime.hints import Hints
from jobs.runtime.settings import Settings
from jobs.runtime.space import can_write, problem_of, shortage
from jobs.scheduling.hosts import host
from jobs.scheduling.queue import standings
from tests.full_disks import fill_up, make_read_only, small_disk, use_up_files
from tests.integration.jobs import job_rows
from worker.agent import Agent
from worker.attempt.launcher import Launcher
from worker.dispatcher import Dispatcher
from worker.host.devices import Devices
from worker.host.space_watch import SpaceWatch


@pytest.fixture
def runs(settings: Settings) -> Iterator[Path]:
    """The folder of runs, on a small disk of its own."""
    with small_disk(settings.runs_dir) as folder:
        yield folder


class Host:
    """An agent, and the measurement of its folders."""

    def __init__(self, sessions: Sessions, settings: Settings, hints: Hints) -> None:
        self.watch = SpaceWatch(settings)
        launcher, dispatcher = Launcher(sessions, settings), Dispatcher(sessions, hints, settings)
        self._agent = Agent(
            sessions, settings, launcher=launcher, dispatcher=dispatcher, gpus=[], devices=Devices(settings, []),
            space=self.watch,
        )  # fmt: skip

    def beat(self) -> None:
        self.watch.once()
        self._agent.reconcile()


@pytest.mark.parametrize(
    ("use_up", "problem"), [(fill_up, "runs has 0.0 MB free, less than"), (use_up_files, "runs has room for 0 more")]
)
def test_a_host_without_space_gets_no_job_until_there_is_space(
    sessions: Sessions,
    settings: Settings,
    hints: Hints,
    runs: Path,
    use_up: Callable[[Path], Path],
    problem: str,
) -> None:
    here = Host(sessions, settings.model_copy(update={"heartbeat_period_s": 3600.0}), hints)
    here.beat()
    used_up = use_up(runs)
    here.beat()  # the change is stored before the next heartbeat is due
    job_id = job_rows.a_job(sessions)
    here.beat()
    with sessions() as session:
        now = host(session, "ha", host_timeout_s=30)
        reason = standings(session, [job_id], host_timeout_s=30)[job_id].reason
    assert now.no_space is not None
    assert now.no_space.startswith(problem)
    assert reason == (
        f"needs 2 slots; no host with such slots has space; ha takes no jobs until there is space: {now.no_space}"
    )
    assert job_rows.the_job(sessions, job_id).status is Status.QUEUED
    (folder,) = [folder for folder in now.folders if folder["folders"] == ["runs"]]
    assert 0 in (folder["free_bytes"], folder["free_files"])
    rmtree(used_up) if used_up.is_dir() else used_up.unlink()
    here.beat()
    with sessions() as session:
        assert host(session, "ha", host_timeout_s=30).no_space is None
    assert job_rows.the_job(sessions, job_id).status is Status.LAUNCHING


@pytest.mark.parametrize(
    ("own_floor", "floor_bytes", "again_bytes"),
    [
        ({}, 840_000, 1_020_000),  # of 16.8 MB: 5 %, and a fifth more
        ({"min_free_gb": 0.015}, 15_000_000, 15_200_000),  # a fifth more would be more than the whole disk
    ],
)
def test_a_host_at_its_floor_does_not_change_all_the_time(
    settings: Settings, runs: Path, own_floor: dict[str, float], floor_bytes: int, again_bytes: int
) -> None:
    watch = SpaceWatch(settings.model_copy(update=own_floor))
    changes = []

    def has_space(free_bytes: int) -> bool:
        (runs / ".fill").unlink(missing_ok=True)
        fill_up(runs, but_bytes=free_bytes)
        watch.once()
        return problem_of(space for space in watch.latest or () if "runs" in space.folders) is None

    watch.on_change = lambda: changes.append(watch.latest)
    above, below = floor_bytes + 80_000, floor_bytes - 80_000
    assert has_space(above)
    assert [has_space(free) for free in (below, above, below, above)] == [False] * 4
    assert has_space(again_bytes)
    assert has_space(above)
    assert len(changes) == 2


def test_a_disk_that_was_made_read_only_cannot_be_written(settings: Settings, runs: Path) -> None:
    assert can_write(runs)
    make_read_only(runs)
    assert not can_write(runs)
    assert shortage(settings, "runs") == "runs cannot be written"


@pytest.mark.parametrize("use_up", [fill_up, use_up_files])
def test_a_launch_on_a_full_disk_uses_up_no_restart_and_leaves_nothing(
    sessions: Sessions, settings: Settings, runs: Path, use_up: Callable[[Path], Path]
) -> None:
    """The job was placed before the host reported that its disk is full."""
    job_rows.a_host(sessions)
    without_floor = settings.model_copy(update={"min_free_gb": 0.0, "min_free_files": 0})
    used_up, job_id = use_up(runs), job_rows.a_job(sessions)
    for losses, config in ((1, settings), (2, without_floor)):
        lease = job_rows.an_attempt(sessions, job_id)
        assert not Launcher(sessions, config).launch(lease.attempt_id)
        job, attempt = job_rows.the_job(sessions, job_id), job_rows.the_attempt(sessions, lease)
        assert (attempt.end_reason, job.status, job.restarts, job.losses) == ("no_space", Status.QUEUED, 0, losses)
        assert attempt.error is not None
        assert str(settings.home) not in attempt.error
    assert not list(runs.glob("*/attempt-*"))
    assert used_up.exists()
