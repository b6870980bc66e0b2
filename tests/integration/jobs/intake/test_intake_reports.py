"""What the reports of a script change in the database, and the last and the best of every metric of a job."""

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from sqlalchemy import select

from jobs.db.engine import Sessions
from jobs.db.tables import JobEvent, LogLine, MetricPoint
from jobs.intake.intake import Intake
from jobs.lifecycle.store import Lease, get_job
from jobs.model.records import CheckpointSaved, EpochEnded, Planned, ProgressMade, ScriptSummary, Summarized
from jobs.model.states import EndReason, EventKind
from jobs.telemetry import ingest, series
from tests.integration import script_runs
from tests.integration.jobs import code_rows, job_rows
from tests.integration.jobs.intake.rank_files import (
    PLAN,
    SUMMARY,
    an_attempt_with,
    next_attempt,
    paths_for,
    progress,
    rank_started,
    write,
)
from worker.attempt.paths import AttemptPaths

reported = partial(script_runs.reported, 1.0)


@pytest.fixture
def lease(sessions: Sessions) -> Lease:
    """An attempt of a script on two ranks."""
    digest = code_rows.an_archive(sessions, b"of two files")
    script = {"code": digest, "command": ["python", "train.py"], "dataset": "digits"}
    return job_rows.a_claimed_attempt(sessions, **script, epochs=20)


def curve(sessions: Sessions, lease: Lease, name: str, rank: int) -> list[tuple[float, float | None]]:
    with sessions() as session:
        found = series.metrics(session, get_job(session, lease.job_id), names=[name], ranks=[rank], max_points=10**6)
    return [point for one in found for point in zip(one.x, one.y, strict=True)]


def metrics(sessions: Sessions, lease: Lease) -> dict[str, Any]:
    return job_rows.the_job(sessions, lease.job_id).metrics


def of(values: Sequence[float], *, last: float | None, best: float, best_epoch: int | None) -> dict[str, Any]:
    """What a job says of a metric with these values."""
    own = {"last": last, "best": best, "best_epoch": best_epoch}
    return own | {"low": min(values), "high": max(values), "mean": pytest.approx(fmean(values))}


def restarted(sessions: Sessions, lease: Lease, folder: Path) -> tuple[Lease, AttemptPaths, Intake]:
    """The next attempt of the same job, with its intake."""
    job_rows.end_attempt(sessions, lease, EndReason.RANK_FAILED)
    second = next_attempt(sessions, lease)
    paths = paths_for(second, folder)
    return second, paths, Intake(sessions, second, paths, ranks=2)


def test_steps_become_curves_of_their_ranks_and_progress(
    sessions: Sessions, lease: Lease, paths: AttemptPaths, intake: Intake
) -> None:
    write(paths, 0, rank_started(0), Planned(at=1.0, plan=PLAN.model_copy(update={"epochs": 20})))
    write(paths, 0, *(reported(step=step, mae=1.0 / step, step_time_s=0.5) for step in range(1, 31)))
    write(paths, 1, *(reported(step=step, mae=2.0, samples_per_s=9.0) for step in range(1, 4)))
    intake.store_new()
    assert curve(sessions, lease, "mae", 0)[-1] == (30, 1 / 30)
    assert curve(sessions, lease, "step_time_s", 0) == [(step, 0.5) for step in range(1, 31)]
    assert curve(sessions, lease, "samples_per_s", 1) == [(1, 9.0), (2, 9.0), (3, 9.0)]
    stored = progress(sessions, lease)
    assert (stored["step"], stored["steps"], stored["eta_s"]) == (30, 200, 85.0)
    kinds = job_rows.kinds(sessions, lease.job_id)
    assert kinds.count(EventKind.FIRST_STEP) == 1
    assert metrics(sessions, lease) == {
        "mae": of([1 / step for step in range(1, 31)], last=1 / 30, best=1 / 30, best_epoch=None)
    }
    assert intake.steps_seen == 33
    write(paths, 0, *(reported(step=step, mae=9.0) for step in range(25, 33)))
    Intake(sessions, lease, paths, ranks=2).store_new()  # another reader
    assert curve(sessions, lease, "mae", 0)[-3:] == [(30, 1 / 30), (31, 9.0), (32, 9.0)]


def test_the_end_of_an_epoch_is_a_point_over_all_ranks_and_one_event(
    sessions: Sessions, lease: Lease, paths: AttemptPaths, intake: Intake
) -> None:
    write(paths, 0, reported(step=10, mae=1.0), reported(epoch=1, wall_s=2.0, val_mae=0.7), reported(epoch=1, r2=0.1))
    write(paths, 0, reported(epoch=2, val_mae=math.nan))
    write(paths, 1, reported(epoch=1, seen=5.0))
    intake.store_new()
    assert curve(sessions, lease, "val_mae", -1) == [(10, 0.7), (11, None)]
    assert curve(sessions, lease, "epoch_s", -1) == [(10, 2.0)]
    assert curve(sessions, lease, "seen", 1) == [(1, 5.0)]
    with sessions() as session:
        query = select(JobEvent.data).where(JobEvent.kind == EventKind.EPOCH_ENDED).order_by(JobEvent.id)
        events = session.scalars(query).all()
    assert events == [
        {"epoch": 1, "step": 10, "val_mae": 0.7, "epoch_s": 2.0}, {"epoch": 2, "step": 11, "val_mae": None},
    ]  # fmt: skip
    assert progress(sessions, lease)["metrics"] == {"val_mae": None}
    assert progress(sessions, lease)["epoch"] == 2
    write(paths, 0, reported(step=20, mae=1.0), reported(epoch=3, val_mae=0.8))
    Intake(sessions, lease, paths, ranks=2).store_new()  # another reader
    assert metrics(sessions, lease)["val_mae"] == of([0.7, 0.8], last=0.8, best=0.7, best_epoch=1)
    assert "seen" not in metrics(sessions, lease), "of another rank"


def test_how_far_a_script_goes_is_unknown_if_its_spec_says_no_epochs(
    sessions: Sessions, lease: Lease, paths: AttemptPaths
) -> None:
    with sessions.begin() as session:
        job = get_job(session, lease.job_id)
        job.spec = job.spec | {"epochs": 30}  # the default
    write(paths, 0, rank_started(0), Planned(at=1.0, plan=PLAN), reported(step=1, epoch=1, mae=1.0, step_time_s=0.5))
    Intake(sessions, lease, paths, ranks=2).store_new()
    stored = progress(sessions, lease)
    assert (stored["epoch"], stored["step"]) == (1, 1)
    assert (stored["epochs"], stored["steps"], stored["eta_s"]) == (None, None, None)


def test_progress_in_own_units_has_an_end_time(
    sessions: Sessions, lease: Lease, paths: AttemptPaths, intake: Intake
) -> None:
    write(paths, 0, ProgressMade(at=10.0, done=0.0, total=8.0), ProgressMade(at=20.0, done=2.0, total=8.0))
    write(paths, 0, reported(step=1, mae=1.0, step_time_s=100.0))
    write(paths, 1, ProgressMade(at=30.0, done=7.0, total=8.0))
    intake.store_new()
    stored = progress(sessions, lease)
    assert (stored["done"], stored["total"], stored["eta_s"]) == (2.0, 8.0, 30.0)
    assert EventKind.FIRST_STEP in job_rows.kinds(sessions, lease.job_id)


def test_a_restart_makes_later_values_void_and_keeps_the_best_before_it(
    sessions: Sessions, lease: Lease, paths: AttemptPaths, intake: Intake, tmp_path: Path
) -> None:
    write(paths, 0, rank_started(0), Planned(at=1.0, plan=PLAN))
    for epoch, mae in enumerate([0.5, 0.3, 0.1], start=1):
        write(paths, 0, reported(step=10 * epoch, loss=mae), reported(epoch=epoch, val_mae=mae))
    write(paths, 0, CheckpointSaved(at=5.0, epoch=2, step=20, path="/x", duration_s=0.1))
    intake.store_new()
    assert intake.has_saved
    assert metrics(sessions, lease)["val_mae"] == of([0.5, 0.3, 0.1], last=0.1, best=0.1, best_epoch=3)

    second, its_paths, its_intake = restarted(sessions, lease, tmp_path / "second")
    assert not its_intake.has_saved
    write(its_paths, 0, rank_started(0), Planned(at=6.0, plan=PLAN, start_epoch=2, start_step=20))
    its_intake.store_new()
    assert metrics(sessions, second)["val_mae"] == of([0.5, 0.3], last=0.3, best=0.3, best_epoch=2)
    assert metrics(sessions, second)["loss"] == of([0.5, 0.3], last=0.3, best=0.3, best_epoch=None)
    write(its_paths, 0, reported(step=30, loss=0.4), reported(epoch=3, val_mae=0.4))
    its_intake.store_new()
    assert metrics(sessions, second)["val_mae"] == of([0.5, 0.3, 0.4], last=0.4, best=0.3, best_epoch=2)
    assert curve(sessions, second, "val_mae", -1) == [(10, 0.5), (20, 0.3), (30, 0.4)]


def test_the_mean_is_of_all_steps_after_another_reader_and_after_a_failed_commit(
    sessions: Sessions, lease: Lease, paths: AttemptPaths, intake: Intake, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = [float(step % 7) + step / 3000 for step in range(1, 3001)]  # more than a chart shows
    write(paths, 0, rank_started(0), *(reported(step=step, mae=value) for step, value in enumerate(values, start=1)))
    while intake.store_new():
        pass
    assert metrics(sessions, lease)["mae"] == of(values, last=values[-1], best=min(values), best_epoch=None)
    reader = Intake(sessions, lease, paths, ranks=2)
    for step, is_lost in ((3001, False), (3002, True)):
        write(paths, 0, reported(step=step, mae=100.0))
        values.append(100.0)
        if is_lost:
            with monkeypatch.context() as patch:
                patch.setattr(ingest, "store_logs", lambda *_: 1 / 0)
                with pytest.raises(ZeroDivisionError):
                    reader.store_new()
        reader.store_new()
        assert metrics(sessions, lease)["mae"] == of(values, last=100.0, best=min(values), best_epoch=None)


def test_a_summary_gets_every_metric_and_the_best_epoch_of_the_goal(
    sessions: Sessions, lease: Lease, paths: AttemptPaths, intake: Intake
) -> None:
    for epoch, (accuracy, mae) in enumerate([(0.5, 3.0), (0.9, 2.0), (0.8, 1.0)], start=1):
        write(paths, 0, reported(epoch=epoch, val_accuracy=accuracy, val_mae=mae))
    intake.store_new()
    write(paths, 0, reported(test_accuracy=0.7), Summarized(at=9.0, summary=ScriptSummary(wall_s=1.0, setup_s=2.0)))
    intake.store_new()
    summary = job_rows.the_job(sessions, lease.job_id).summary or {}
    assert (summary["best_epoch"], summary["val_accuracy"], summary["test_accuracy"]) == (2, 0.9, 0.7)
    assert (summary["wall_s"], summary["val_loss"]) == (1.0, None)
    assert summary["metrics"]["val_mae"] == {"last": 1.0, "best": 1.0, "best_epoch": 3}
    stored = metrics(sessions, lease)
    assert summary["metrics"] == {
        name: {part: values[part] for part in ("last", "best", "best_epoch")} for name, values in stored.items()
    }
    assert stored["val_accuracy"] == of([0.5, 0.9, 0.8], last=0.8, best=0.9, best_epoch=2)


def test_jobs_of_hora_s_own_loop_have_the_metrics_too(sessions: Sessions, tmp_path: Path) -> None:
    lease, paths = an_attempt_with(sessions, tmp_path)
    intake = Intake(sessions, lease, paths, ranks=2)
    for epoch, loss in enumerate([0.5, 0.25, 0.75], start=1):
        times = {"wall_s": 2.0, "samples_per_s": 640.0, "learning_rate": 0.001}
        write(paths, 0, EpochEnded(at=5.0, epoch=epoch, step=10 * epoch, metrics={"val_loss": loss}, **times))
    tested = SUMMARY.model_copy(update={"test_accuracy": 0.8, "test_loss": None})
    write(paths, 0, Summarized(at=6.0, summary=tested))
    intake.store_new()
    assert progress(sessions, lease)["metrics_epoch"] == 3
    assert metrics(sessions, lease) == {
        "test_accuracy": of([0.8], last=0.8, best=0.8, best_epoch=None),
        "val_loss": of([0.5, 0.25, 0.75], last=0.75, best=0.25, best_epoch=2),
    }
    summary = job_rows.the_job(sessions, lease.job_id).summary or {}
    assert summary["metrics"]["val_loss"] == {"last": 0.75, "best": 0.25, "best_epoch": 2}
    assert summary["best_epoch"] == SUMMARY.best_epoch


def test_a_flood_of_reports_is_stored_in_batches_and_its_excess_is_left_out(
    sessions: Sessions, lease: Lease, paths: AttemptPaths, intake: Intake
) -> None:
    names = [f"m{number}" for number in range(1200)]
    write(paths, 0, *(reported(step=step, mae=1.0) for step in range(1, 40_001)))
    write(paths, 0, *(reported(step=40_001, **dict.fromkeys(names[at : at + 100], 1.0)) for at in range(0, 1200, 100)))
    batches = 0
    while intake.store_new():
        batches += 1
    assert batches > 1
    with sessions() as session:
        lines = session.scalars(select(LogLine.text).where(LogLine.text.like("hora:%"))).all()
        stored_names = session.scalars(select(MetricPoint.name).distinct()).all()
    assert len(curve(sessions, lease, "mae", 0)) == 40_000
    assert len(metrics(sessions, lease)) == 1000
    assert len(set(stored_names) - {"mae"}) == 999
    assert len(lines) == 1
