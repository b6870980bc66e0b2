"""Stores what the ranks wrote in the database: records, logs, events and the job's progress, in fenced batches.

One transaction stores a batch and moves the files' offsets in the attempt's row. So every line is stored once, even if
a process dies between two batches. The next reader of the attempt continues from the offsets.
"""

import os
import sys
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from sqlalchemy import update
from sqlalchemy.orm import Session

from jobs.db.engine import Sessions
from jobs.db.tables import Attempt
from jobs.intake.batch import Batch
from jobs.intake.batches import BatchBuilder
from jobs.intake.job_metrics import JobMetrics
from jobs.intake.rule_watch import RuleWatch, line_of
from jobs.intake.script_reports import ScriptReports
from jobs.intake.tail import MAX_READ_BYTES, Tail
from jobs.lifecycle.alerts import add_alerts
from jobs.lifecycle.leases import StaleLease, fence, first_rank_started, phases_ended, resumed
from jobs.lifecycle.store import Lease, get_job, is_valid, touch
from jobs.model.plan import Plan
from jobs.model.records import RankExited, parse_record, rank_log_name, rank_records_name
from jobs.telemetry import ingest
from jobs.telemetry.ingest import LAUNCHER
from jobs.telemetry.last_steps import last_steps

_ROW_BYTES = 100  # of memory for a line, besides its text


class AttemptFiles(Protocol):
    """Where the files of an attempt are."""

    @property
    def records(self) -> Path: ...
    @property
    def logs(self) -> Path: ...
    @property
    def launcher_log(self) -> Path: ...
    @property
    def own_checkpoints(self) -> Path: ...


class Intake:
    """Reads an attempt's files and stores what is new.

    The supervision judges by `exits`, `pids`, `steps_seen` and `plan`. `fenced_by` is the lease of a later attempt
    that stores what this one left. Then of the job's row only the alerts change, because the job has moved on.
    `printed_at` is the time of the lines of logs, by default now. `batch_bytes` is about how much memory a batch takes,
    by default some for each file.
    """

    def __init__(
        self,
        sessions: Sessions,
        lease: Lease,
        paths: AttemptFiles,
        *,
        ranks: int,
        fenced_by: Lease | None = None,
        printed_at: datetime | None = None,
        batch_bytes: int = sys.maxsize,
    ) -> None:
        self._sessions = sessions
        self._lease = lease
        self._paths = paths
        self._fenced_by = fenced_by
        self._batch_bytes = batch_bytes
        with sessions() as session:
            attempt = session.get_one(Attempt, lease.attempt_id)
            job = get_job(session, lease.job_id)
        log_bytes = min(MAX_READ_BYTES, batch_bytes // 64)  # each byte may be a line
        # A record is never split: otherwise the last record of a rank would be lost if its message is long.
        self._records = {
            rank: Tail(paths.records / rank_records_name(rank), longest=MAX_READ_BYTES) for rank in range(ranks)
        }
        self._logs = {rank: Tail(paths.logs / rank_log_name(rank), at_once=log_bytes) for rank in range(ranks)}
        self._logs[LAUNCHER] = Tail(paths.launcher_log, at_once=log_bytes)
        self._offsets: dict[str, Any] = attempt.offsets
        for name, tail in self._tails():
            tail.offset = int(attempt.offsets.get(name, 0))
        first_step_seen = any(tail.offset for tail in self._records.values())
        reports = None
        if first_step_seen and job.code is not None:
            with sessions() as session:
                reports = ScriptReports.after(last_steps(session, lease.job_id, lease.number))
        self._builder = BatchBuilder(
            lease, job, first_step_seen=first_step_seen, reports=reports, printed_at=printed_at
        )
        rules = [] if printed_at is not None else job.spec.get("alerts") or []  # an import tells nobody of the past
        self._rules = RuleWatch(rules, is_script=self._builder.is_script)
        self._metrics = JobMetrics(job, attempt=lease.number, is_first=lease.number == 1 and not first_step_seen)

    @property
    def plan(self) -> Plan:
        """The plan of the ranks, or of the job as long as they have none."""
        return self._builder.plan

    @property
    def exits(self) -> dict[int, RankExited]:
        """The exit records so far, by rank."""
        return self._builder.exits

    @property
    def pids(self) -> dict[int, int]:
        """The pids of the ranks that have started, by rank, each on its own host."""
        return self._builder.pids

    @property
    def steps_seen(self) -> int:
        """How many steps were read, stored or not. Any record of a probe counts as a step."""
        return self._builder.steps_seen

    @property
    def last_epoch(self) -> int:
        """The last epoch of which metrics over all ranks were read; 0: none by this reader."""
        return self._builder.last_epoch

    @property
    def has_saved(self) -> bool:
        """Whether this attempt saved a checkpoint."""
        return self._builder.has_saved or _has_visible(self._paths.own_checkpoints)

    @property
    def is_script(self) -> bool:
        """Whether the job runs a person's own code."""
        return self._builder.is_script

    def store_new(self, *, final: bool = False) -> bool:
        """Store what was written since the last call. Returns False if there was nothing. Raises `StaleLease`."""
        batch, offsets, read_bytes = Batch(), {}, 0
        for name, tail in self._tails():
            lines, after = tail.read(final=final)
            if after != tail.offset:
                offsets[name] = (tail, after)
                self._read(name, lines, batch)
                read_bytes += after - tail.offset + _ROW_BYTES * len(lines)
            if read_bytes >= self._batch_bytes:
                break
        if not offsets:
            return False
        positions = {name: tail.offset for name, tail in self._tails()}
        positions |= {name: after for name, (_, after) in offsets.items()}
        positions |= self._rules.judge(batch, self._offsets)
        with self._sessions.begin() as session:
            self._move_offsets(session, positions)
            self._store(session, batch)
        self._offsets = positions
        for tail, after in offsets.values():
            tail.offset = after
        self._builder.note_stored(batch)
        self._rules.note_stored(batch)
        self._metrics.note_stored()
        return True

    def _move_offsets(self, session: Session, positions: dict[str, int]) -> None:
        """Move the offsets from where this reader began. Another one that read meanwhile has stored the same lines.

        It comes first, because it is the fence too: nobody else changes the attempt's row before the commit.
        """
        row = is_valid(self._lease)
        if self._fenced_by is not None:
            fence(session, self._fenced_by)
            row = Attempt.id == self._lease.attempt_id
        moved = session.scalar(
            update(Attempt).where(row, Attempt.offsets == self._offsets).values(offsets=positions).returning(Attempt.id)
        )
        if moved is None:
            raise StaleLease(self._lease)

    def drain(self, *, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Store the rest, after all writers have ended. `meanwhile` runs between batches. Raises `StaleLease`."""
        while self.store_new():
            meanwhile()
        while self.store_new(final=True):
            meanwhile()

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
        add = self._builder.add_log if kind == "log" else self._builder.add_records
        add(int(number), lines, batch)

    def _store(self, session: Session, batch: Batch) -> None:
        lease, is_own_lease = self._lease, self._fenced_by is None
        if batch.started_at is not None and is_own_lease:
            first_rank_started(session, lease, batch.started_at)
        if batch.resumed_step is not None:
            resumed(session, lease, batch.resumed_step)
        if batch.setup:
            phases_ended(session, lease, batch.setup)
        if is_own_lease and (columns := self._columns(session, batch)):
            touch(session, lease.job_id, **columns)
        ingest.store_events(session, batch.events)
        ingest.store_metrics(session, batch.metrics)
        alerts = add_alerts(session, lease, batch.alerts) if batch.alerts else []
        ingest.store_logs(session, [*batch.logs, *(line_of(alert, lease) for alert in alerts)])

    def _columns(self, session: Session, batch: Batch) -> dict[str, Any]:
        """The columns of the job's row that a batch changes. Its points are not stored yet."""
        columns = dict(batch.columns)
        metrics = self._metrics.take(session, batch.values, resumed=batch.resumed_step is not None)
        if metrics is not None:
            columns["metrics"] = metrics
        if "summary" in columns:
            columns["summary"], columns["metrics"] = self._metrics.completed(session, columns["summary"])
            batch.logs += self._rules.unheard_of(columns["metrics"], self._lease)
        return columns


def _has_visible(folder: Path) -> bool:
    """Whether a folder has anything that is not hidden, as unfinished checkpoints are."""
    try:
        return any(not name.startswith(".") for name in os.listdir(folder))
    except OSError:
        return False


def read_exits(paths: AttemptFiles, *, ranks: int) -> tuple[dict[int, RankExited], int]:
    """The exit records by rank, and the number of ranks that started. Read from the files, whether stored or not."""
    exits, started_ranks = {}, 0
    for rank in range(ranks):
        line = Tail(paths.records / rank_records_name(rank), longest=MAX_READ_BYTES).last_line()
        record = parse_record(line) if line else None
        started_ranks += line is not None
        if isinstance(record, RankExited):
            exits[rank] = record
    return exits, started_ranks
