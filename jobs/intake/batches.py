"""Turns what ranks wrote into rows, in batches. Used by the intake, which stores a batch in one transaction. No I/O."""

from collections import defaultdict
from datetime import UTC, datetime
from typing import Any

from jobs.db.tables import Job
from jobs.intake.batch import Batch
from jobs.intake.metric_book import Value
from jobs.intake.probe_progress import ProbeIntake, ProbeRecord
from jobs.intake.script_reports import Place, Placed, ScriptReports
from jobs.intake.time_left import TimeLeft
from jobs.lifecycle.store import Lease
from jobs.model.alerts import Alert
from jobs.model.documents import knows_epochs
from jobs.model.log_levels import LevelReader, LogLevel
from jobs.model.plan import Plan
from jobs.model.records import (
    Alerted,
    CheckpointSaved,
    CheckpointSkipped,
    DataOpened,
    EpochEnded,
    PhaseEnded,
    Planned,
    ProbeEnded,
    ProbeMeasured,
    ProbeStepped,
    ProgressMade,
    RankEpochEnded,
    RankExited,
    RankStarted,
    Record,
    Reported,
    StepEnded,
    Summarized,
    parse_record,
)
from jobs.model.spec import spec_from
from jobs.model.states import EventKind, Status
from jobs.telemetry.ingest import ALL_RANKS, RANK_EPOCH_METRICS, LogRow, MetricRow, event_row


class BatchBuilder:
    """Fills batches, and remembers what the records of an attempt have said so far.

    A batch that could not be stored is built again from the same lines. Then its steps count twice in `steps_seen`.
    """

    def __init__(
        self,
        lease: Lease,
        job: Job,
        *,
        first_step_seen: bool,
        reports: ScriptReports | None = None,
        printed_at: datetime | None = None,
    ) -> None:
        self.plan = Plan.model_validate(job.plan)
        self.exits: dict[int, RankExited] = {}
        self.pids: dict[int, int] = {}
        self.steps_seen = 0
        self.has_saved = False
        self.is_script = job.spec.get("code") is not None
        self._reports = reports or ScriptReports()
        self._printed_at = printed_at
        self._counts_itself = False  # a script says how much of its work is done
        self._levels = defaultdict[int, LevelReader](LevelReader)  # by rank
        self._lease = lease
        self._knows_epochs = knows_epochs(job.spec)
        self._progress: dict[str, Any] = self._expected(self.plan)
        probe = spec_from(job.spec).probe
        self._probe = ProbeIntake(probe, self.plan.per_gpu_batch, job.probe) if probe else None
        self._time_left = TimeLeft()
        self._running = job.status is Status.RUNNING
        self._first_step_seen = first_step_seen

    @property
    def last_epoch(self) -> int:
        """The last epoch of which metrics over all ranks were read; 0: none by this builder."""
        return int(self._progress.get("metrics_epoch") or 0)

    def add_log(self, rank: int, lines: list[bytes], batch: Batch) -> None:
        """Add lines of the log of a rank, or of the launcher."""
        at = self._printed_at or datetime.now(UTC)
        reader = self._levels[rank]
        for text in map(_text, lines):
            level = reader.level_of(text).number
            batch.logs.append(LogRow(self._lease.job_id, self._lease.number, rank, at, text, level))

    def add_records(self, rank: int, lines: list[bytes], batch: Batch) -> None:
        """Add the records on these lines of a rank. A line that is no record is left out."""
        for line in lines:
            record = parse_record(line)
            if record is not None:
                self._take(rank, record, batch)

    def note_stored(self, batch: Batch) -> None:
        """Remember that a batch is stored: what happens once in a job is not added to later batches."""
        self._running |= batch.started_at is not None
        self._first_step_seen |= batch.first_step
        self._reports = batch.reports or self._reports

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
            case StepEnded() | RankEpochEnded() | EpochEnded():
                self._take_of_loop(rank, record, batch)
            case CheckpointSaved() | CheckpointSkipped():
                self._take_checkpoint(record, batch)
            case Reported() | ProgressMade():
                self._take_of_script(rank, record, batch)
            case ProbeStepped() | ProbeMeasured() | ProbeEnded():
                self._take_probe(record, batch)
            case Alerted():
                said = record.model_dump(exclude={"kind"})
                batch.alerts.append(Alert(**said, rank=rank))
            case RankExited():
                self.exits[rank] = record

    def _take_of_loop(self, rank: int, record: StepEnded | RankEpochEnded | EpochEnded, batch: Batch) -> None:
        match record:
            case StepEnded():
                self._take_step(rank, record, batch)
            case RankEpochEnded():
                self._take_rank_epoch(rank, record, batch)
            case EpochEnded():
                self._take_epoch(record, batch)

    def _take_checkpoint(self, record: CheckpointSaved | CheckpointSkipped, batch: Batch) -> None:
        if isinstance(record, CheckpointSkipped):
            skipped = {"epoch": record.epoch, "step": record.step, "why": record.why}
            self._add_event(EventKind.CHECKPOINT_SKIPPED, record.at, skipped, batch)
            return
        self.has_saved = True
        self.steps_seen += self.is_script
        data = {"epoch": record.epoch, "step": record.step, "duration_s": record.duration_s}
        if record.kept is not None and record.stored_bytes is not None:
            data["kept"] = record.kept
            batch.columns["checkpoint_bytes"] = record.stored_bytes
        self._add_event(EventKind.CHECKPOINT_SAVED, record.at, data, batch)

    def _take_plan(self, record: Planned, batch: Batch) -> None:
        self.plan = record.plan
        batch.resumed_step = record.start_step
        batch.columns["plan"] = record.plan.model_dump(mode="json")
        self._progress |= self._expected(record.plan)
        self._progress |= {"epoch": record.start_epoch, "step": record.start_step}
        if self.is_script:
            self._reports_of(batch).resume(Place(record.start_step, record.start_epoch))
        if self._probe is not None:
            self._probe.begin_anew()
            batch.columns |= {"progress": self._probe.progress, "probe": self._probe.findings.model_dump(mode="json")}
        elif record.start_step:  # if there is nothing left to train, no step will report it
            batch.columns["progress"] = self._progress

    def _take_probe(self, record: ProbeRecord, batch: Batch) -> None:
        if self._probe is None:
            return
        self.steps_seen += 1
        self._note_first_step(0, record.at, batch)
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
        self._note_first_step(rank, record.at, batch)
        if rank != 0:
            return
        self._progress |= {
            "epoch": record.epoch,
            "step": record.step,
            "samples_per_s": record.samples_per_s,
            "eta_s": self._eta_s(record.step, record.at, record.step_time_s),
        }
        batch.columns["progress"] = self._progress

    def _note_first_step(self, rank: int, at: float, batch: Batch) -> None:
        if not self._first_step_seen and not batch.first_step:
            batch.first_step = True
            self._add_event(EventKind.FIRST_STEP, at, {"rank": rank}, batch)

    def _eta_s(self, step: int, at: float, step_time_s: float) -> float | None:
        steps, steps_per_epoch = self._progress.get("steps"), self.plan.steps_per_epoch
        return self._time_left.after(step, at, step_time_s, steps=steps, steps_per_epoch=steps_per_epoch)

    def _reports_of(self, batch: Batch) -> ScriptReports:
        if batch.reports is None:
            batch.reports = self._reports.copy()
        return batch.reports

    def _take_of_script(self, rank: int, record: Reported | ProgressMade, batch: Batch) -> None:
        self.steps_seen += 1
        self._note_first_step(rank, record.at, batch)
        if isinstance(record, Reported):
            self._take_report(rank, record, batch)
        elif rank == 0:
            self._counts_itself = True
            eta_s = self._reports_of(batch).eta_s(record)
            self._progress |= {"done": record.done, "total": record.total, "eta_s": eta_s}
            batch.columns["progress"] = self._progress

    def _take_report(self, rank: int, record: Reported, batch: Batch) -> None:
        placed, sentences = self._reports_of(batch).take(rank, record)
        lease, when, warning = self._lease, _time(record.at), LogLevel.WARNING.number
        batch.logs += [LogRow(lease.job_id, lease.number, rank, when, text, warning) for text in sentences]
        is_of_all = placed.rank == ALL_RANKS
        for name, value in placed.values.items():
            step, epoch = placed.places[name]
            batch.metrics.append(MetricRow(lease.job_id, name, placed.rank, step, lease.number, epoch, when, value))
            if rank == 0:
                batch.values.append(Value(name, value, (epoch or None) if is_of_all else None, is_of_all))
        if rank != 0:
            return
        if placed.ends_epoch and placed.values:
            self._note_epoch_of_script(record, placed, batch)
        self._progress |= {"epoch": record.epoch} if record.epoch is not None else {}
        if record.step is not None:
            self._progress |= {"step": record.step}
            samples_per_s = placed.values.get("samples_per_s")
            self._progress |= {"samples_per_s": samples_per_s} if samples_per_s is not None else {}
            if record.step_time_s is not None and not self._counts_itself:
                self._progress["eta_s"] = self._eta_s(record.step, record.at, record.step_time_s)
        batch.columns["progress"] = self._progress

    def _note_epoch_of_script(self, record: Reported, placed: Placed, batch: Batch) -> None:
        """One event an epoch, although its numbers may come in several reports."""
        before = {} if placed.is_new_epoch else self._progress.get("metrics", {})
        own = {name: value for name, value in placed.values.items() if name in record.metrics}
        self._progress |= {
            "metrics": {**before, **own},
            "metrics_epoch": self._reports_of(batch).positions[0].ended.epoch,
        }
        if placed.is_new_epoch:
            place = next(iter(placed.places.values()))
            data = {"epoch": place.epoch, "step": place.step, **placed.values}
            self._add_event(EventKind.EPOCH_ENDED, record.at, data, batch)

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
        self._progress |= {"epoch": record.epoch, "step": record.step}
        self._progress |= {"metrics": record.metrics, "metrics_epoch": record.epoch}
        batch.columns["progress"] = self._progress
        batch.values += [Value(name, value, record.epoch, True) for name, value in record.metrics.items()]
        data = {"epoch": record.epoch, "step": record.step, **values}
        self._add_event(EventKind.EPOCH_ENDED, record.at, data, batch)

    def _expected(self, plan: Plan) -> dict[str, Any]:
        """How many epochs and steps there will be, where that is known."""
        if not self._knows_epochs:
            return {"epochs": None, "steps": None}
        return {"epochs": plan.epochs, "steps": plan.epochs * plan.steps_per_epoch if plan.steps_per_epoch else None}

    def _add_points(self, rank: int, step: int, epoch: int, at: float, values: dict[str, float], batch: Batch) -> None:
        lease, when = self._lease, _time(at)
        batch.metrics += [
            MetricRow(lease.job_id, name, rank, step, lease.number, epoch, when, value)
            for name, value in values.items()
        ]

    def _add_event(self, kind: EventKind, at: float, data: dict[str, Any], batch: Batch) -> None:
        lease = self._lease
        batch.events.append(event_row(lease.job_id, kind, at=_time(at), attempt=lease.number, data=data))


def _columns_of(record: DataOpened | Summarized) -> dict[str, Any]:
    if isinstance(record, Summarized):
        return {"summary": record.summary.model_dump(mode="json")}
    dataset = record.model_dump(mode="json", exclude={"at", "kind", "classes"}, exclude_none=True)
    return {"dataset": dataset, "classes": record.classes}


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _text(line: bytes) -> str:
    """A printed line in a form that PostgreSQL can hold: without NUL, and valid UTF-8."""
    return line.decode("utf-8", "replace").replace("\x00", "\ufffd").rstrip("\r")
