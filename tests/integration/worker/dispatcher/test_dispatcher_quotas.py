"""How a pass of the dispatcher respects the quotas of projects."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import func, insert

from jobs.data import artifacts
from jobs.db.engine import Sessions
from jobs.db.tables import ProjectUsage
from jobs.lifecycle import retention, store
from jobs.model.states import Status
from jobs.people import projects
from tests.integration.jobs import job_rows
from tests.integration.jobs.writing import change, write
from tests.integration.worker.dispatcher.live_attempts import placed_jobs, standing
from worker import dispatcher as dispatcher_module
from worker.dispatcher import Dispatcher


def a_project(sessions: Sessions, name: str = "vision", **values: Any) -> None:
    write(sessions, projects.create, name, **values)


def storage_gb(sessions: Sessions) -> float:
    """What the jobs of the project keep."""
    with sessions() as session:
        return projects.state_of(session, "vision").usage.storage_gb


def add_usage(sessions: Sessions, project: str, *, hours: float, last_month: bool = False) -> None:
    month = datetime.now(UTC).date().replace(day=1)
    if last_month:
        month = (month - timedelta(days=1)).replace(day=1)
    change(sessions, insert(ProjectUsage).values(project=project, month=month, slot_seconds=3600 * hours))


def test_a_project_that_keeps_too_much_waits_until_files_go(sessions: Sessions, dispatcher: Dispatcher) -> None:
    a_project(sessions, max_storage_gb=3)
    job_rows.a_host(sessions, slots=8)
    small, large = (job_rows.a_job(sessions, gpus=1, project="vision") for _ in range(2))
    with sessions.begin() as session:
        for job_id, size_bytes in ((small, 1_000_000_000), (large, 2_000_000_000)):
            for step in (Status.LAUNCHING, Status.RUNNING, Status.SUCCEEDED):
                store.transition(session, job_id, step)
            sizes = {"checkpoint_bytes": size_bytes // 2, "artifact_bytes": size_bytes // 2}
            store.touch(session, job_id, ended_at=func.now(), **sizes)
    waiting, other = job_rows.a_job(sessions, gpus=1, project="vision"), job_rows.a_job(sessions, gpus=1)
    assert dispatcher.run() == 1
    assert placed_jobs(sessions) == [other]
    assert storage_gb(sessions) == 3
    kept = f"its project vision keeps 3 of 3 GB, the most by job {large} (2 GB)"
    assert standing(sessions, waiting).reason == f"{kept}; it continues when files of jobs are removed"
    write(sessions, artifacts.remove_artifacts, large)
    assert dispatcher.run() == 1
    assert placed_jobs(sessions) == [other, waiting]
    assert storage_gb(sessions) == 1
    with sessions() as session:
        assert retention.ended_long_ago(session, [small, large], keep_days=30) == {large}


def test_a_job_that_keeps_files_goes_on_in_a_full_project(sessions: Sessions, dispatcher: Dispatcher) -> None:
    """Nobody can remove its files before it ends: if it waited too, the project would be blocked for ever."""
    a_project(sessions, max_storage_gb=3, max_slots=1)
    job_rows.a_host(sessions)
    waiting = job_rows.a_job(sessions, gpus=1, project="vision", priority=90)
    preempted, later = (job_rows.a_job(sessions, gpus=1, project="vision") for _ in range(2))
    with sessions.begin() as session:
        for job_id in (preempted, later):
            store.touch(session, job_id, checkpoint_bytes=4_000_000_000)
    reasons = [standing(sessions, job_id).reason for job_id in (waiting, preempted, later)]
    assert reasons[0].startswith("its project vision keeps 8 of 3 GB, all by jobs that have not ended;")
    assert reasons[1] == "is next"
    assert reasons[2] == "its project vision has 0 of 1 slots in use, and other jobs of the project come first"
    assert dispatcher.run() == 1
    assert placed_jobs(sessions) == [preempted]


def test_used_up_gpu_hours_hold_back_only_new_attempts(sessions: Sessions, dispatcher: Dispatcher) -> None:
    a_project(sessions, max_gpu_hours=10)
    job_rows.a_host(sessions, slots=8)
    add_usage(sessions, "vision", hours=1000, last_month=True)
    first = job_rows.a_job(sessions, project="vision")
    assert dispatcher.run() == 1
    add_usage(sessions, "vision", hours=10)
    job_rows.a_job(sessions, project="vision")
    unlimited_job = job_rows.a_job(sessions)
    assert dispatcher.run() == 1
    assert placed_jobs(sessions) == [first, unlimited_job]


def test_a_long_queue_of_one_project_does_not_block_jobs_of_another(
    sessions: Sessions, dispatcher: Dispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pass looks behind the jobs that wait for a quota, however many there are."""
    monkeypatch.setattr(dispatcher_module, "_MOST_LOOKED_AT", 6)
    a_project(sessions, max_slots=1)
    a_project(sessions, "small", max_slots=1)
    job_rows.a_host(sessions, slots=8)
    first = [job_rows.a_job(sessions, gpus=1, project="vision", priority=90) for _ in range(12)]
    for _ in range(12):
        job_rows.a_job(sessions, gpus=2, project="small", priority=80)  # none of them ever fits
    last = job_rows.a_job(sessions, gpus=1, priority=10)
    assert dispatcher.run() == 2
    assert placed_jobs(sessions) == [first[0], last]
