"""Records and lines that ranks write into their files, and the rows that the intake stores. For the intake's tests."""

import math
from pathlib import Path
from typing import Any

from sqlalchemy import select

from jobs.db.engine import Sessions
from jobs.db.tables import LogLine, MetricPoint
from jobs.lifecycle import leases
from jobs.lifecycle.store import Lease
from jobs.model.plan import DatasetSizes, resolve_plan
from jobs.model.records import RankStarted, StepEnded, Summary, rank_log_name, rank_records_name
from jobs.model.spec import spec_from
from tests.integration.jobs import job_rows
from worker.attempt.paths import AttemptPaths, paths_of

PLAN = resolve_plan(spec_from(job_rows.SPEC), DatasetSizes(train=1350, validation=150))  # 30 epochs of 10 steps
SUMMARY = Summary(
    best_epoch=1, epochs_run=2, val_accuracy=0.9, val_loss=math.nan, train_samples_per_s=9.0, wall_s=1.0, setup_s=1.0,
    parameters=10, trainable_parameters=10, model_bytes=40, after_best_share=0.5, stopped_early=False,
)  # fmt: skip


def paths_for(lease: Lease, folder: Path) -> AttemptPaths:
    """The folder of an attempt, made below `folder`."""
    paths = paths_of(folder, lease.job_id, lease.number)
    paths.create()
    return paths


def an_attempt_with(sessions: Sessions, folder: Path, **spec: Any) -> tuple[Lease, AttemptPaths]:
    """A claimed attempt of a job with these fields, and its folder."""
    lease = job_rows.a_claimed_attempt(sessions, **spec)
    return lease, paths_for(lease, folder)


def next_attempt(sessions: Sessions, lease: Lease) -> Lease:
    """The claimed next attempt of the same job."""
    later = job_rows.an_attempt(sessions, lease.job_id)
    with sessions.begin() as session:
        leases.claim(session, later.attempt_id, lease_s=60)
    return later


def write(paths: AttemptPaths, rank: int, *records: Any) -> None:
    with (paths.records / rank_records_name(rank)).open("a") as file:
        file.writelines(record.model_dump_json() + "\n" for record in records)


def write_log(paths: AttemptPaths, rank: int, data: bytes) -> None:
    with (paths.logs / rank_log_name(rank)).open("ab") as file:
        file.write(data)


def rank_started(rank: int) -> RankStarted:
    return RankStarted(at=1.0, rank=rank, local_rank=rank, host="ha", pid=100 + rank)


def step_ended(number: int, loss: float = 1.0) -> StepEnded:
    return StepEnded(
        at=float(number), step=number, epoch=1, step_time_s=0.5, data_wait_s=0.1, allreduce_s=0.2, samples_per_s=256.0,
        metrics={"loss": loss},
    )  # fmt: skip


def stored_losses(sessions: Sessions) -> list[tuple[int, int]]:
    """(rank, step) of every stored loss."""
    point = MetricPoint
    with sessions() as session:
        query = select(point.rank, point.step).where(point.name == "loss").order_by(point.rank, point.step)
        return [(rank, step) for rank, step in session.execute(query)]


def log_lines(sessions: Sessions) -> list[tuple[int, str]]:
    with sessions() as session:
        return [(line.rank, line.text) for line in session.scalars(select(LogLine).order_by(LogLine.id))]


def progress(sessions: Sessions, lease: Lease) -> dict[str, Any]:
    return job_rows.the_job(sessions, lease.job_id).progress or {}
