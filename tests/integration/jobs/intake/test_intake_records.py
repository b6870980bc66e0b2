"""What each kind of record of a rank changes in the database."""

import math
from pathlib import Path
from typing import Any

from sqlalchemy import select

from jobs.db.engine import Sessions
from jobs.db.tables import JobEvent, MetricPoint
from jobs.intake.intake import Intake
from jobs.lifecycle.store import Lease, get_job
from jobs.model.records import (
    CheckpointSaved,
    DataOpened,
    EpochEnded,
    PhaseEnded,
    Planned,
    ProbeEnded,
    ProbeFindings,
    ProbeMeasured,
    ProbePoint,
    ProbeStepped,
    RankEpochEnded,
    RankExited,
    Summarized,
)
from jobs.model.states import EndReason, EventKind, Status
from jobs.telemetry import series
from tests.integration.jobs import job_rows
from tests.integration.jobs.intake.rank_files import (
    PLAN,
    SUMMARY,
    an_attempt_with,
    progress,
    rank_started,
    step_ended,
    write,
)
from worker.attempt.paths import AttemptPaths


def test_start_plan_phases_and_progress_follow_rank_zero_even_with_a_new_reader(
    sessions: Sessions, lease: Lease, paths: AttemptPaths, intake: Intake
) -> None:
    assert job_rows.the_job(sessions, lease.job_id).plan["steps_per_epoch"] is None
    assert job_rows.the_attempt(sessions, lease).setup == {}
    write(paths, 0, rank_started(0))
    assert intake.store_new()
    assert job_rows.the_job(sessions, lease.job_id).status is Status.RUNNING
    write(paths, 0, PhaseEnded(at=1.0, name="import", duration_s=2.5), PhaseEnded(at=2.0, name="data", duration_s=1.0))
    write(paths, 0, Planned(at=1.0, plan=PLAN, start_epoch=2, start_step=20))
    write(paths, 0, *(step_ended(number) for number in range(1, 4)))
    write(paths, 1, rank_started(1), PhaseEnded(at=1.0, name="import", duration_s=9.9), step_ended(9))
    intake.store_new()
    assert intake.pids == {0: 100, 1: 101}
    assert job_rows.kinds(sessions, lease.job_id).count(EventKind.RANK_STARTED) == 2
    assert job_rows.the_job(sessions, lease.job_id).plan == PLAN.model_dump(mode="json")
    expected = {"epoch": 1, "epochs": 30, "step": 3, "steps": 300, "samples_per_s": 256.0, "eta_s": 148.5}
    assert progress(sessions, lease) == expected
    write(paths, 0, step_ended(4), PhaseEnded(at=3.0, name="first_step", duration_s=0.5))
    Intake(sessions, lease, paths, ranks=2).store_new()
    assert progress(sessions, lease) == expected | {"step": 4, "eta_s": 148.0}
    attempt = job_rows.the_attempt(sessions, lease)
    assert (attempt.resumed_step, attempt.setup) == (20, {"import": 2.5, "data": 1.0, "first_step": 0.5})


def test_an_epoch_is_stored_as_points_over_all_ranks_and_an_event_with_the_waits_of_every_rank(
    sessions: Sessions, lease: Lease, paths: AttemptPaths, intake: Intake
) -> None:
    metrics = {"loss": 0.5, "val_loss": math.inf}
    epoch = EpochEnded(
        at=5.0, epoch=1, step=10, wall_s=2.0, samples_per_s=640.0, learning_rate=0.001, metrics=metrics,
        data_wait_s=0.3, allreduce_s=0.4,
    )  # fmt: skip
    write(paths, 0, epoch, CheckpointSaved(at=6.0, epoch=1, step=10, path="/x", duration_s=0.2))
    waits = {"step_time_p50_s": 0.1, "step_time_p95_s": 0.2, "data_wait_s": 0.3, "allreduce_s": 0.4}
    for rank in (0, 1):
        write(paths, rank, step_ended(10), RankEpochEnded(at=5.0, epoch=1, step=10, **waits | {"data_wait_s": rank}))
    intake.store_new()
    with sessions() as session:
        points = session.scalars(select(MetricPoint).order_by(MetricPoint.rank)).all()
        events = {event.kind: event for event in session.scalars(select(JobEvent))}
        by_epoch = series.metrics(session, job_rows.the_job(sessions, lease.job_id), axis="epoch", ranks=[0, 1])
    about_speed = {"samples_per_s": 640.0, "epoch_s": 2.0, "data_wait_s": 0.3, "allreduce_s": 0.4}
    assert {point.name: point.value for point in points if point.rank == -1} == (
        metrics | {"learning_rate": 0.001} | about_speed
    )
    assert [(point.rank, point.step, point.value) for point in points if point.name == "allreduce_s"][1:] == [
        (0, 10, 0.2), (1, 10, 0.2),
    ]  # fmt: skip
    assert {(one.name, one.rank): (one.x, one.y) for one in by_epoch} == {
        (name, rank): ([1], [value])
        for rank in (0, 1)
        for name, value in (
            ("step_time_p50_s", 0.1), ("step_time_p95_s", 0.2), ("epoch_data_wait_s", rank), ("epoch_allreduce_s", 0.4)
        )
    }  # fmt: skip
    assert events[EventKind.EPOCH_ENDED].data["val_loss"] is None
    assert events[EventKind.EPOCH_ENDED].at.timestamp() == 5.0
    assert events[EventKind.CHECKPOINT_SAVED].data == {"epoch": 1, "step": 10, "duration_s": 0.2}
    assert progress(sessions, lease)["metrics"] == {"loss": 0.5, "val_loss": None}


def test_facts_of_the_data_the_summary_and_the_exits_are_read(
    sessions: Sessions, lease: Lease, paths: AttemptPaths, intake: Intake
) -> None:
    opened = DataOpened(
        at=1.0, format="parquet", shape=[21], classes=["a\x00", "b"], train=90, validation=10, test=0, damaged=1,
        damaged_files=["x.parquet: row 7\x00"],
    )  # fmt: skip
    long = RankExited(at=9.0, reason=EndReason.BAD_DATA, message="x" * 100_000)
    completed = RankExited(at=9.0, reason=EndReason.COMPLETED)
    write(paths, 0, opened, opened.model_copy(update={"damaged": 2}), Summarized(at=8.0, summary=SUMMARY), completed)
    write(paths, 1, long)
    intake.drain()
    with sessions() as session:
        job = get_job(session, lease.job_id)
        assert job.classes == ["a\ufffd", "b"]
        assert job.dataset == {
            "format": "parquet", "shape": [21], "task": "classification", "targets": 0, "train": 90, "validation": 10,
            "test": 0, "damaged": 2, "damaged_files": ["x.parquet: row 7\ufffd"],
            "warnings": [],
        }  # fmt: skip
        assert job.summary == SUMMARY.model_dump() | {"val_loss": None}
    assert intake.exits == {0: completed, 1: long}


def batch_measured(batch: int, *, fits: bool = True) -> ProbeMeasured:
    figures = {"steps": 9, "step_time_s": 0.1, "samples_per_s": 20.0 * batch, "memory_bytes": 10**8} if fits else {}
    measured = ProbePoint(per_gpu_batch=batch, global_batch=2 * batch, fits=fits, **figures)
    return ProbeMeasured(at=1.0, point=measured)


def tried_batches(sessions: Sessions, lease: Lease) -> tuple[list[int], Any]:
    """The batches that a job's probe has tried, and why it ended."""
    probe = job_rows.the_job(sessions, lease.job_id).probe or {}
    return [point["per_gpu_batch"] for point in probe["points"]], probe["ended_by"]


def test_a_probe_is_stored_batch_by_batch_and_a_next_attempt_starts_over(sessions: Sessions, tmp_path: Path) -> None:
    lease, paths = an_attempt_with(sessions, tmp_path, probe={"smallest": 8, "largest": 64})
    intake = Intake(sessions, lease, paths, ranks=2)
    write(paths, 0, rank_started(0), Planned(at=1.0, plan=PLAN))
    intake.store_new()
    assert intake.steps_seen == 0
    write(paths, 0, ProbeStepped(at=2.0, per_gpu_batch=8, steps=0), batch_measured(8))
    intake.store_new()
    assert intake.steps_seen == 2
    assert job_rows.kinds(sessions, lease.job_id).count(EventKind.FIRST_STEP) == 1
    working = {"epochs": None, "step": 1, "steps": 4, "per_gpu_batch": 8, "samples_per_s": 160.0}
    assert progress(sessions, lease) == working
    assert tried_batches(sessions, lease) == ([8], None)

    successor = Intake(sessions, lease, paths, ranks=2)  # the first one was killed
    ended = ProbeFindings(
        points=[batch_measured(8).point, batch_measured(16, fits=False).point], ended_by="memory", batch_size=8
    )
    write(paths, 0, batch_measured(16, fits=False))
    successor.store_new()
    assert tried_batches(sessions, lease) == ([8, 16], None)
    write(paths, 0, ProbeEnded(at=3.0, findings=ended))
    successor.store_new()
    assert job_rows.the_job(sessions, lease.job_id).probe == ended.model_dump(mode="json")
    assert progress(sessions, lease) == working | {"step": 2, "per_gpu_batch": None}

    write(paths, 0, Planned(at=4.0, plan=PLAN))  # as the ranks of a next attempt begin
    successor.store_new()
    assert tried_batches(sessions, lease) == ([], None)
    assert progress(sessions, lease)["step"] == 0


def test_a_training_job_ignores_records_of_a_probe(
    sessions: Sessions, lease: Lease, paths: AttemptPaths, intake: Intake
) -> None:
    write(paths, 0, batch_measured(8))
    intake.store_new()
    assert intake.steps_seen == 0
    assert job_rows.the_job(sessions, lease.job_id).probe is None
