"""Stores what the ranks wrote in the database: records, logs, events and the job's progress, in fenced batches.

One transaction stores a batch and moves the files' offsets in the attempt's row. So every line is stored once, even if
a process dies between two batches. The next reader of the attempt continues from the offsets.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import update
from sqlalchemy.orm import Session

from jobs.db.engine import Sessions
from jobs.db.tables import Attempt
from jobs.lifecycle.leases import StaleLease, fence, first_rank_started, phases_ended, resumed
from jobs.lifecycle.store import Lease, get_job, touch
from jobs.model.plan import Plan
from jobs.model.records import (
    CheckpointSaved,
    CheckpointSkipped,
    DataOpened,
    EpochEnded,
    PhaseEnded,
    Planned,
    ProbeEnded,
    ProbeMeasured,
    ProbeStepped,
    RankEpochEnded,
    RankExited,
    RankStarted,
    Record,
    StepEnded,
    Summarized,
    parse_record,
    rank_log_name,
    rank_records_name,
)
from jobs.model.spec import spec_from
from jobs.model.states import EventKind, Status
from jobs.telemetry import ingest
from jobs.telemetry.ingest import ALL_RANKS, LAUNCHER, RANK_EPOCH_METRICS, EventRow, LogRow, MetricRow, event_row
from worker.attempt.paths import AttemptPaths
from worker.attempt.probe_progress import ProbeIntake, ProbeRecord
from worker.attempt.tail import MAX_READ_BYTES, Tail


@dataclass
class Batch:
    """The lines and records that were read since the last transaction."""

    metrics: list[MetricRow] = field(default_factory=list)
    logs: list[LogRow] = field(default_factory=list)
    events: list[EventRow] = field(default_factory=list)
    columns: dict[str, Any] = field(default_factory=dict)  # of the job's row
    started_at: datetime | None = None  # of the first rank, if it is not stored yet
    first_step: bool = False
    resumed_step: int | None = None
    setup: dict[str, float] = field(default_factory=dict)  # seconds of the phases of rank 0 that ended


class Intake:
    """Reads an attempt's files and stores what is new.

    The supervision judges by `exits`, `pids`, `steps_seen` and `plan`; any record of a probe counts as a step.
    `fenced_by` is the lease of a later attempt that stores what this one left. Then the job's row does not change,
    because the job has moved on.
    """

    def __init__(
        self, sessions: Sessions, lease: Lease, paths: AttemptPaths, *, ranks: int, fenced_by: Lease | None = None
    ) -> None:
        self._sessions = sessions
        self._lease = lease
        self._fenced_by = fenced_by
        self._ranks = ranks
        with sessions() as session:
            attempt = session.get_one(Attempt, lease.attempt_id)
            job = get_job(session, lease.job_id)
        self.plan = Plan.model_validate(job.plan)
        # A record is never split: otherwise the last record of a rank would be lost if its message is long.
        self._records = {
            rank: Tail(paths.records / rank_records_name(rank), longest=MAX_READ_BYTES) for rank in range(ranks)
        }
        self._logs = {rank: Tail(paths.logs / rank_log_name(rank)) for rank in range(ranks)}
        self._logs[LAUNCHER] = Tail(paths.launcher_log)
        self._offsets: dict[str, Any] = attempt.offsets
        for name, tail in self._tails():
            tail.offset = int(attempt.offsets.get(name, 0))
        self._progress: dict[str, Any] = {"epochs": self.plan.epochs, "steps": _steps(self.plan)}
        probe = spec_from(job.spec).probe
        self._probe = ProbeIntake(probe, job.probe) if probe else None
        self._step_time_s: float | None = None
        self._running = job.status is Status.RUNNING
        self._first_step_seen = any(tail.offset for tail in self._records.values())
        self.exits: dict[int, RankExited] = {}
        self.pids: dict[int, int] = {}
        self.steps_seen = 0

    def store_new(self, *, final: bool = False) -> bool:
        """Store what was written since the last call. Returns False if there was nothing. Raises `StaleLease`."""
        batch, offsets = Batch(), {}
        for name, tail in self._tails():
            lines, after = tail.read(final=final)
            if after != tail.offset:
                offsets[name] = (tail, after)
                self._read(name, lines, batch)
        if not offsets:
            return False
        with self._sessions.begin() as session:
            fence(session, self._fenced_by or self._lease)
            self._store(session, batch)
            positions = {name: tail.offset for name, tail in self._tails()}
            positions |= {name: after for name, (_, after) in offsets.items()}
            self._move_offsets(session, positions)
        self._offsets = positions
        for tail, after in offsets.values():
            tail.offset = after
        self._running |= batch.started_at is not None
        self._first_step_seen |= batch.first_step
        return True

    def _move_offsets(self, session: Session, positions: dict[str, int]) -> None:
        """Move the offsets from where this reader began. Another one that read meanwhile has stored the same lines."""
        row = (Attempt.id == self._lease.attempt_id, Attempt.offsets == self._offsets)
        moved = session.scalar(update(Attempt).where(*row).values(offsets=positions).returning(Attempt.id))
        if moved is None:
            raise StaleLease(self._lease)

    def drain(self, *, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Store the rest, after all writers have ended. `meanwhile` runs between batches. Raises `StaleLease`."""
        while self.store_new():
            meanwhile()
        self.store_new(final=True)

    def has_new(self) -> bool:
        """Whether there is anything to store."""
        return any(tail.size() > tail.offset for _, tail in self._tails())

    def _tails(self) -> Iterable[tuple[str, Tail]]:
        for rank, tail in self._records.items():
            yield f"records:{rank}", tail
        for rank, tail in self._logs.items():
            yield f"log:{rank}", tail

    def _read(self, name: str, lines: list[bytes], batch: Batch) -> None:
        kind, _, number = name.partition(":")
        rank = int(number)
        if kind == "log":
            now = datetime.now(UTC)
            batch.logs += [LogRow(self._lease.job_id, self._lease.number, rank, now, _text(line)) for line in lines]
            return
        for line in lines:
            record = parse_record(line)
            if record is not None:
                self._take(rank, record, batch)

    def _take(self, rank: int, record: Record, batch: Batch) -> None:
        match record:
            case RankStarted():
                self.pids[rank] = record.pid
                if not self._running and batch.started_at is None:
                    batch.started_at = _time(record.at)
                data = {"rank": rank, "host": record.host, "pid": record.pid}
                self._add_event(EventKind.RANK_STARTED, record.at, data, batch)
            case Planned():
                self._take_plan(record, batch)
            case PhaseEnded():
                if rank == 0:
                    batch.setup[record.name] = record.duration_s
            case DataOpened() | Summarized():
                batch.columns |= _columns_of(record)
            case StepEnded():
                self._take_step(rank, record, batch)
            case RankEpochEnded():
                self._take_rank_epoch(rank, record, batch)
            case EpochEnded():
                self._take_epoch(record, batch)
            case CheckpointSaved() | CheckpointSkipped():
                self._take_checkpoint(record, batch)
            case ProbeStepped() | ProbeMeasured() | ProbeEnded():
                self._take_probe(record, batch)
            case RankExited():
                self.exits[rank] = record

    def _take_checkpoint(self, record: CheckpointSaved | CheckpointSkipped, batch: Batch) -> None:
        if isinstance(record, CheckpointSkipped):
            skipped = {"epoch": record.epoch, "step": record.step, "why": record.why}
            self._add_event(EventKind.CHECKPOINT_SKIPPED, record.at, skipped, batch)
            return
        data = {"epoch": record.epoch, "step": record.step, "duration_s": record.duration_s}
        if record.kept is not None and record.stored_bytes is not None:
            data["kept"] = record.kept
            batch.columns["checkpoint_bytes"] = record.stored_bytes
        self._add_event(EventKind.CHECKPOINT_SAVED, record.at, data, batch)

    def _take_plan(self, record: Planned, batch: Batch) -> None:
        self.plan = record.plan
        batch.resumed_step = record.start_step
        batch.columns["plan"] = record.plan.model_dump(mode="json")
        self._progress |= {"epochs": record.plan.epochs, "steps": _steps(record.plan)}
        self._progress |= {"epoch": record.start_epoch, "step": record.start_step}
        if self._probe is not None:
            self._probe.begin_anew()
            batch.columns |= {"progress": self._probe.progress, "probe": self._probe.findings.model_dump(mode="json")}
        elif record.start_step:  # if there is nothing left to train, no step will report it
            batch.columns["progress"] = self._progress

    def _take_probe(self, record: ProbeRecord, batch: Batch) -> None:
        if self._probe is None:
            return
        self.steps_seen += 1
        if not self._first_step_seen and not batch.first_step:
            batch.first_step = True
            self._add_event(EventKind.FIRST_STEP, record.at, {"rank": 0}, batch)
        self._probe.take(record)
        batch.columns |= {"progress": self._probe.progress, "probe": self._probe.findings.model_dump(mode="json")}

    def _take_step(self, rank: int, record: StepEnded, batch: Batch) -> None:
        self.steps_seen += 1
        values = {
            **record.metrics,
            "step_time_s": record.step_time_s,
            "data_wait_s": record.data_wait_s,
            "allreduce_s": record.allreduce_s,
            "samples_per_s": record.samples_per_s,
        }
        self._add_points(rank, record.step, record.epoch, record.at, values, batch)
        if not self._first_step_seen and not batch.first_step:
            batch.first_step = True
            self._add_event(EventKind.FIRST_STEP, record.at, {"rank": rank}, batch)
        if rank != 0:
            return
        # An average over about the last hundred steps, so that the estimate neither jumps nor lags.
        before = self._step_time_s if self._step_time_s is not None else record.step_time_s
        self._step_time_s = before + 0.02 * (record.step_time_s - before)
        steps = self._progress.get("steps") or 0
        self._progress |= {
            "epoch": record.epoch,
            "step": record.step,
            "samples_per_s": record.samples_per_s,
            "eta_s": max(steps - record.step, 0) * self._step_time_s if steps else None,
        }
        batch.columns["progress"] = self._progress

    def _take_rank_epoch(self, rank: int, record: RankEpochEnded, batch: Batch) -> None:
        figures = (record.step_time_p50_s, record.step_time_p95_s, record.data_wait_s, record.allreduce_s)
        values = dict(zip(RANK_EPOCH_METRICS, figures, strict=True))
        self._add_points(rank, record.step, record.epoch, record.at, values, batch)

    def _take_epoch(self, record: EpochEnded, batch: Batch) -> None:
        values = {
            **record.metrics,
            "learning_rate": record.learning_rate,
            "samples_per_s": record.samples_per_s,
            "epoch_s": record.wall_s,
            "data_wait_s": record.data_wait_s,
            "allreduce_s": record.allreduce_s,
        }
        self._add_points(ALL_RANKS, record.step, record.epoch, record.at, values, batch)
        self._progress |= {"epoch": record.epoch, "step": record.step, "metrics": record.metrics}
        batch.columns["progress"] = self._progress
        data = {"epoch": record.epoch, "step": record.step, **values}
        self._add_event(EventKind.EPOCH_ENDED, record.at, data, batch)

    def _add_points(self, rank: int, step: int, epoch: int, at: float, values: dict[str, float], batch: Batch) -> None:
        lease, when = self._lease, _time(at)
        batch.metrics += [
            MetricRow(lease.job_id, name, rank, step, lease.number, epoch, when, value)
            for name, value in values.items()
        ]

    def _add_event(self, kind: EventKind, at: float, data: dict[str, Any], batch: Batch) -> None:
        lease = self._lease
        batch.events.append(event_row(lease.job_id, kind, at=_time(at), attempt=lease.number, data=data))

    def _store(self, session: Session, batch: Batch) -> None:
        lease, is_own_lease = self._lease, self._fenced_by is None
        if batch.started_at is not None and is_own_lease:
            first_rank_started(session, lease, batch.started_at)
        if batch.resumed_step is not None:
            resumed(session, lease, batch.resumed_step)
        if batch.setup:
            phases_ended(session, lease, batch.setup)
        if batch.columns and is_own_lease:
            touch(session, lease.job_id, **batch.columns)
        ingest.store_events(session, batch.events)
        ingest.store_metrics(session, batch.metrics)
        ingest.store_logs(session, batch.logs)


def read_exits(paths: AttemptPaths, *, ranks: int) -> tuple[dict[int, RankExited], int]:
    """The exit records by rank, and the number of ranks that started. Read from the files, whether stored or not."""
    exits, started_ranks = {}, 0
    for rank in range(ranks):
        line = Tail(paths.records / rank_records_name(rank), longest=MAX_READ_BYTES).last_line()
        record = parse_record(line) if line else None
        started_ranks += line is not None
        if isinstance(record, RankExited):
            exits[rank] = record
    return exits, started_ranks


def _columns_of(record: DataOpened | Summarized) -> dict[str, Any]:
    if isinstance(record, Summarized):
        return {"summary": record.summary.model_dump(mode="json")}
    dataset = record.model_dump(mode="json", exclude={"at", "kind", "classes"})
    return {"dataset": dataset, "classes": record.classes}


def _steps(plan: Plan) -> int:
    return plan.epochs * (plan.steps_per_epoch or 0)


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _text(line: bytes) -> str:
    """A printed line in a form that PostgreSQL can hold: without NUL, and valid UTF-8."""
    return line.decode("utf-8", "replace").replace("\x00", "\ufffd").rstrip("\r")
