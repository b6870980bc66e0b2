"""Folders of runs as `worker.alone` leaves them, without training: for tests of what imports them."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from jobs.model.plan import DatasetSizes, resolve_plan
from jobs.model.records import (
    CheckpointSaved,
    EpochEnded,
    Planned,
    RankExited,
    RankStarted,
    Record,
    StepEnded,
    Summarized,
    Summary,
    rank_log_name,
    rank_records_name,
)
from jobs.model.runs import ATTEMPT_FILE, RUN_FILE, Run, RunAttempt, RunNode
from jobs.model.spec import spec_from
from jobs.model.states import EndReason

BEGAN = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
SPEC = {
    "name": "digits alone", "dataset": "digits", "model": "mlp", "gpus": 2, "batch_size": 64, "learning_rate": 0.001,
    "device": "cpu", "epochs": 3, "early_stopping": None, "labels": {"team": "vision"},
}  # fmt: skip
RUN_ID = "0123456789abcdef"
PLAN = resolve_plan(spec_from(SPEC), DatasetSizes(train=256, validation=100))  # two steps an epoch
SUMMARY = Summary(
    best_epoch=3, epochs_run=3, val_accuracy=0.75, val_loss=0.25, train_samples_per_s=9.0, wall_s=1.0, setup_s=1.0,
    parameters=10, trainable_parameters=10, model_bytes=40, after_best_share=0.0, stopped_early=False,
)  # fmt: skip


def seconds_after(attempt: int) -> float:
    """When an attempt began."""
    return (BEGAN + timedelta(hours=attempt)).timestamp()


def run_folder(folder: Path, *, ended: bool = True, run_id: str = RUN_ID, **changes: Any) -> Path:
    """A run of two attempts on two nodes. The first one was preempted in its second epoch, the second one completed."""
    folder.mkdir(parents=True)
    run = Run(id=run_id, version="0.1.0", created_at=BEGAN, spec=spec_from(SPEC | changes))
    (folder / RUN_FILE).write_text(run.model_dump_json(indent=2))
    _write_attempt(folder, 1, epochs=[1], start_epoch=0, reason=EndReason.PREEMPTED)
    _write_attempt(folder, 2, epochs=[2, 3], start_epoch=1, reason=EndReason.COMPLETED if ended else None)
    return folder


def _write_attempt(
    folder: Path, number: int, *, epochs: Sequence[int], start_epoch: int, reason: EndReason | None
) -> None:
    root, began = folder / f"attempt-{number}", BEGAN + timedelta(hours=number)
    for name in ("records", "logs"):
        (root / name).mkdir(parents=True)
    nodes = [RunNode(name=name, ranks=1) for name in ("n1", "n2")]
    attempt = RunAttempt(
        number=number, slurm_job=40 + number, device="cpu", nodes=nodes,
        started_at=began, ended_at=None if reason is None else began + timedelta(minutes=30), reason=reason,
        error="Slurm takes its nodes back" if reason is EndReason.PREEMPTED else None,
    )  # fmt: skip
    (root / ATTEMPT_FILE).write_text(attempt.model_dump_json(indent=2))
    for rank in (0, 1):
        lines = [one.model_dump_json() for one in _records(number, rank, epochs, start_epoch, reason)]
        (root / "records" / rank_records_name(rank)).write_text("\n".join(lines) + "\n")
        (root / "logs" / rank_log_name(rank)).write_text(f"rank {rank} of attempt {number}: ärmel\nend\n")
    (root / "logs" / "launcher.log").write_bytes(b"horovodrun \xff says\n")


def _records(number: int, rank: int, epochs: Sequence[int], start_epoch: int, reason: EndReason | None) -> list[Record]:
    at = seconds_after(number)
    records: list[Record] = [
        RankStarted(at=at + 1, rank=rank, local_rank=0, host=f"n{rank + 1}", pid=7),
        Planned(at=at + 2, plan=PLAN, start_epoch=start_epoch, start_step=2 * start_epoch),
    ]
    for epoch in epochs:
        records += [_step(at, step, epoch) for step in (2 * epoch - 1, 2 * epoch)]
        if rank == 0:
            records += _end_of_epoch(at, epoch)
    if reason is EndReason.COMPLETED and rank == 0:
        records.append(Summarized(at=at + 100, summary=SUMMARY))
    records.append(RankExited(at=at + 101, reason="completed" if reason is EndReason.COMPLETED else "stop_requested"))
    return records


def _step(at: float, step: int, epoch: int) -> StepEnded:
    return StepEnded(
        at=at + step, step=step, epoch=epoch, step_time_s=0.5, data_wait_s=0.1, allreduce_s=0.2, samples_per_s=256.0,
        metrics={"loss": 1 / step},
    )  # fmt: skip


def _end_of_epoch(at: float, epoch: int) -> list[Record]:
    metrics = {"loss": 1 / epoch, "val_accuracy": epoch / 4}
    place: dict[str, Any] = {"at": at + 2 * epoch, "epoch": epoch, "step": 2 * epoch}
    return [
        EpochEnded(**place, wall_s=1.0, samples_per_s=256.0, learning_rate=0.001, metrics=metrics),
        CheckpointSaved(**place, path="c.npz", duration_s=0.1, kept=1, stored_bytes=1000),
    ]
