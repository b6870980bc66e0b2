"""The rows: everything Hora knows, as SQLAlchemy tables.

Enumerations are VARCHAR with a CHECK, so that a new value is a plain migration. A job's row is the truth about
it; an attempt's row carries the lease that fences every write of its supervisor.
"""

from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    DateTime,
    Enum,
    Float,
    ForeignKey,
    Identity,
    Index,
    MetaData,
    String,
    Text,
    UniqueConstraint,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSON, JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from jobs.states import EndReason, EventKind, Status

SCHEMA = "0004"  # the migration that makes these tables


def _checked(enum: type[StrEnum]) -> Enum:
    return Enum(
        enum,
        native_enum=False,
        create_constraint=True,
        length=32,
        values_callable=lambda members: [member.value for member in members],
        name=enum.__name__.lower(),
    )


class Base(DeclarativeBase):
    """Names every constraint, so that a migration can drop it."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {  # noqa: RUF012 - SQLAlchemy's own way
        datetime: DateTime(timezone=True),
        dict[str, Any]: JSONB,
        str: Text,
        float: Float(53),
        Status: _checked(Status),
        EndReason: _checked(EndReason),
        EventKind: _checked(EventKind),
    }


class Job(Base):
    """A submitted spec and how far it has come. Written only by `jobs.store` and `jobs.leases`."""

    __tablename__ = "jobs"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    name: Mapped[str] = mapped_column(String(128))
    owner: Mapped[str] = mapped_column(String(128))
    status: Mapped[Status] = mapped_column()
    end_reason: Mapped[EndReason | None]
    error: Mapped[str | None]
    spec: Mapped[dict[str, Any]]
    plan: Mapped[dict[str, Any]]
    progress: Mapped[dict[str, Any] | None]
    summary: Mapped[dict[str, Any] | None]
    dataset: Mapped[dict[str, Any] | None]  # what its data turned out to be, from the first time it was opened
    classes: Mapped[list[Any] | None] = mapped_column(JSONB, deferred=True)  # their names: lists do not read them
    labels: Mapped[dict[str, Any]] = mapped_column()
    gpus: Mapped[int]
    priority: Mapped[int] = mapped_column()
    attempt: Mapped[int] = mapped_column(server_default="0")  # number of the newest attempt
    restarts: Mapped[int] = mapped_column(server_default="0")  # those that count against max_restarts
    losses: Mapped[int] = mapped_column(server_default="0")  # attempts lost through no fault of the job's
    run_key: Mapped[str | None] = mapped_column(String(64))  # what jobs that take about as long have in common
    queued_at: Mapped[datetime] = mapped_column(server_default=func.now())  # when it last began to wait for slots
    not_before: Mapped[datetime | None]  # back-off after a failed attempt
    paused_at: Mapped[datetime | None]  # a person asked it to wait: it is queued, but not placed
    cancel_requested_at: Mapped[datetime | None]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    started_at: Mapped[datetime | None]  # the first attempt's first rank
    ended_at: Mapped[datetime | None] = mapped_column()
    logs_removed_at: Mapped[datetime | None]  # its lines were older than the settings keep them
    series_thinned_at: Mapped[datetime | None]  # of its step metrics and samples the outline is left
    work_key: Mapped[str | None] = mapped_column(String(64))  # what jobs have in common that do the same with a sample
    study_id: Mapped[str | None] = mapped_column(ForeignKey("studies.id"))
    study_cell: Mapped[int | None] = mapped_column()  # position in the study's grid, from 0
    study_repeat: Mapped[int | None] = mapped_column()  # from 0
    probe: Mapped[dict[str, Any] | None]  # what a batch probe found: `jobs.records.ProbeFindings`
    revision: Mapped[int] = mapped_column(BigInteger, server_default="1")  # grows with every change

    __table_args__ = (
        Index("ix_jobs_newest", created_at.desc(), id.desc()),
        Index("ix_jobs_queue", priority.desc(), created_at, id, postgresql_where=text("status = 'queued'")),
        Index("ix_jobs_status", status, created_at.desc(), id.desc()),
        Index("ix_jobs_labels", labels, postgresql_using="gin"),
        Index("ix_jobs_ended_at", ended_at),
        # What retention has not looked at yet: they shrink as it goes on.
        Index("ix_jobs_with_logs", ended_at, postgresql_where=text("logs_removed_at IS NULL")),
        Index("ix_jobs_with_series", ended_at, postgresql_where=text("series_thinned_at IS NULL")),
        Index("ix_jobs_work", work_key, created_at.desc(), postgresql_where=text("status = 'succeeded'")),
        Index("ix_jobs_study", study_id, study_cell, study_repeat, postgresql_where=text("study_id IS NOT NULL")),
    )


class Study(Base):
    """A grid of jobs: every combination of some values over a base spec, each several times."""

    __tablename__ = "studies"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    name: Mapped[str] = mapped_column(String(128))
    owner: Mapped[str] = mapped_column(String(128))
    # JSON and not JSONB, which would forget the order of the fields.
    base: Mapped[dict[str, Any]] = mapped_column(JSON)  # as given: it may lack what the grid has
    grid: Mapped[dict[str, Any]] = mapped_column(JSON)  # values by dotted field, as given
    cells: Mapped[list[Any]] = mapped_column(JSON)  # values by dotted field of each cell, in the order of the grid
    repeats: Mapped[int]
    target: Mapped[float | None]  # the val_accuracy that time and GPU-hours are measured to; null: from the results
    cancel_requested_at: Mapped[datetime | None]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    revision: Mapped[int] = mapped_column(
        BigInteger, server_default="1"
    )  # grows with what is asked of it and its notes

    __table_args__ = (Index("ix_studies_newest", created_at.desc(), id.desc()),)


class StudyNote(Base):
    """What somebody wrote down about a study."""

    __tablename__ = "study_notes"

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    study_id: Mapped[str] = mapped_column(ForeignKey("studies.id", ondelete="CASCADE"))
    at: Mapped[datetime] = mapped_column(server_default=func.now())
    author: Mapped[str] = mapped_column(String(128))
    text: Mapped[str]

    __table_args__ = (Index("ix_study_notes_study", study_id, id),)


class IdempotencyKey(Base):
    """The answer to a submission that carried an Idempotency-Key, by owner."""

    __tablename__ = "idempotency_keys"

    owner: Mapped[str] = mapped_column(String(128), primary_key=True)
    key: Mapped[str] = mapped_column(String(255), primary_key=True)
    request_sha256: Mapped[str] = mapped_column(String(64))
    job_id: Mapped[str | None] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"))
    study_id: Mapped[str | None] = mapped_column(ForeignKey("studies.id", ondelete="CASCADE"))  # one of the two
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())


class Attempt(Base):
    """One launch of a job, fenced by `token`: whoever holds it and finds the row unended may write."""

    __tablename__ = "attempts"

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"))
    number: Mapped[int] = mapped_column()
    token: Mapped[UUID] = mapped_column(server_default=func.gen_random_uuid())
    host: Mapped[str] = mapped_column(String(255))  # the lead host: its supervisor runs there
    # [{"host", "slots"}] in the order of the ranks, the lead first
    shares: Mapped[list[Any]] = mapped_column(JSONB, server_default=text("'[]'"))
    gpus: Mapped[int]
    queued_at: Mapped[datetime] = mapped_column(server_default=func.now())  # since when its job had waited
    due_at: Mapped[datetime | None]  # it passed a job that waits: from then on it may be asked to make room
    preempt_requested_at: Mapped[datetime | None]
    preempted_for: Mapped[str | None]  # why, in a few words
    lease_expires_at: Mapped[datetime]
    supervisor_pid: Mapped[int | None]
    supervisor_start_ticks: Mapped[int | None] = mapped_column(BigInteger)  # against a pid that is used again
    resumed_step: Mapped[int | None] = mapped_column(BigInteger)  # what earlier attempts wrote beyond it is void
    setup: Mapped[dict[str, Any]] = mapped_column(server_default=text("'{}'"))  # seconds of each phase, of rank 0
    offsets: Mapped[dict[str, Any]] = mapped_column(server_default=text("'{}'"))  # bytes stored of each file
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    claimed_at: Mapped[datetime | None]  # a supervisor took it
    started_at: Mapped[datetime | None]  # its first rank wrote its first line
    ended_at: Mapped[datetime | None] = mapped_column()
    end_reason: Mapped[EndReason | None]
    error: Mapped[str | None]

    __table_args__ = (
        UniqueConstraint(job_id, number),
        Index("uq_attempts_live_job", job_id, unique=True, postgresql_where=text("ended_at IS NULL")),
        Index("ix_attempts_live_host", host, postgresql_where=text("ended_at IS NULL")),
        Index("ix_attempts_ended_at", ended_at),
    )


class Host(Base):
    """A machine with slots, registered and kept alive by its agent."""

    __tablename__ = "hosts"

    name: Mapped[str] = mapped_column(String(255), primary_key=True)
    info: Mapped[dict[str, Any]]  # cores, memory_bytes, gpu model, versions
    address: Mapped[str | None] = mapped_column(String(255))  # where other hosts reach its sshd; null: they cannot
    registered_at: Mapped[datetime] = mapped_column(server_default=func.now())
    heartbeat_at: Mapped[datetime] = mapped_column(server_default=func.now())
    drained_at: Mapped[datetime | None]  # nothing new is placed on it
    kept_for: Mapped[str | None] = mapped_column(String(32))  # the waiting job that its free slots are kept for


class Slot(Base):
    """One GPU, or one CPU share, of a host; `attempt_id` is the lease on it."""

    __tablename__ = "slots"

    host: Mapped[str] = mapped_column(String(255), ForeignKey("hosts.name", ondelete="CASCADE"), primary_key=True)
    index: Mapped[int] = mapped_column(primary_key=True)
    kind: Mapped[str] = mapped_column(String(8))
    uuid: Mapped[str | None] = mapped_column(String(96))  # NVML's UUID of a GPU
    name: Mapped[str] = mapped_column(String(255))
    memory_bytes: Mapped[int | None] = mapped_column(BigInteger)
    attempt_id: Mapped[int | None] = mapped_column(ForeignKey("attempts.id"))
    rank: Mapped[int | None]
    quarantined_at: Mapped[datetime | None]  # a process of an ended attempt is still on it
    retired_at: Mapped[datetime | None]  # its host no longer has it
    reading: Mapped[dict[str, Any] | None]  # of its GPU a few seconds ago, leased or not: `worker.gpus.GpuReading`

    __table_args__ = (
        CheckConstraint("kind IN ('gpu', 'cpu')", name="kind"),
        Index("ix_slots_attempt_id", attempt_id, postgresql_where=text("attempt_id IS NOT NULL")),
    )


class RunTime(Base):
    """How long the newest successful runs of a kind took, by `Job.run_key`: what backfill expects of the next one."""

    __tablename__ = "run_times"

    run_key: Mapped[str] = mapped_column(String(64), primary_key=True)
    durations_s: Mapped[list[float]] = mapped_column(ARRAY(Float(53)))  # newest first, the last few
    updated_at: Mapped[datetime] = mapped_column(server_default=func.now())


class JobEvent(Base):
    """One line of a job's history, written with the change that it tells of."""

    __tablename__ = "job_events"

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"))
    at: Mapped[datetime] = mapped_column(server_default=func.now())
    kind: Mapped[EventKind]
    attempt: Mapped[int | None]
    data: Mapped[dict[str, Any]] = mapped_column(server_default=text("'{}'"))

    __table_args__ = (Index("ix_job_events_job", job_id, id),)


class MetricPoint(Base):
    """One value of a named series of a job: one that is one an epoch, or one of the newest steps (`MetricBlock`)."""

    __tablename__ = "metric_points"

    # No foreign key: rows come by COPY at the rate of training steps, and every write is fenced already.
    job_id: Mapped[str] = mapped_column(String(32), primary_key=True)
    name: Mapped[str] = mapped_column(String(64), primary_key=True)
    rank: Mapped[int] = mapped_column(primary_key=True)  # -1: over all ranks
    step: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    attempt: Mapped[int] = mapped_column(primary_key=True)
    epoch: Mapped[int]
    at: Mapped[datetime]
    value: Mapped[float]


class MetricBlock(Base):
    """Points of one attempt in a series of every step, which left `metric_points` for here: see `jobs.packing`.

    Where there are bytes, they are one big-endian number a point, in the order of the steps.
    """

    __tablename__ = "metric_blocks"

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    job_id: Mapped[str] = mapped_column(String(32))
    name: Mapped[str] = mapped_column(String(64))
    rank: Mapped[int] = mapped_column()
    attempt: Mapped[int] = mapped_column()
    first_step: Mapped[int] = mapped_column(BigInteger)
    last_step: Mapped[int] = mapped_column(BigInteger)
    steps: Mapped[bytes | None]  # int64; null: each one from the first to the last
    epochs: Mapped[bytes]  # int32
    times: Mapped[bytes]  # int64, microseconds since 2000
    numbers: Mapped[bytes]  # float64

    __table_args__ = (Index("ix_metric_blocks_series", job_id, name, rank, attempt, first_step),)


class LogLine(Base):
    """One line that a rank (or the launcher: rank -1) printed."""

    __tablename__ = "log_lines"

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    job_id: Mapped[str] = mapped_column(String(32))
    attempt: Mapped[int]
    rank: Mapped[int]
    at: Mapped[datetime]
    text: Mapped[str]

    __table_args__ = (Index("ix_log_lines_job", job_id, id),)


class Sample(Base):
    """What one slot did at one moment, under the lease that held it. A metric that is not there is null."""

    __tablename__ = "samples"

    job_id: Mapped[str] = mapped_column(String(32), primary_key=True)
    attempt: Mapped[int] = mapped_column(primary_key=True)
    rank: Mapped[int] = mapped_column(primary_key=True)
    at: Mapped[datetime] = mapped_column(primary_key=True)
    host: Mapped[str] = mapped_column(String(255))
    slot: Mapped[int]
    step: Mapped[int | None] = mapped_column(BigInteger)  # the newest step of the rank at the time
    epoch: Mapped[int | None]
    gpu_percent: Mapped[float | None]  # share of the last window in which a kernel ran, 0..100
    gpu_memory_bytes: Mapped[int | None] = mapped_column(BigInteger)
    gpu_power_w: Mapped[float | None]
    gpu_temperature_c: Mapped[float | None]
    gpu_sm_clock_mhz: Mapped[float | None]
    gpu_throttle: Mapped[int | None] = mapped_column(
        BigInteger
    )  # NVML's bits of why the clock is lower than it could be
    gpu_processes: Mapped[int | None]  # that compute on it, of whatever user
    cpu_percent: Mapped[float | None]  # of one core: 200 is two cores busy
    memory_bytes: Mapped[int | None] = mapped_column(BigInteger)  # resident, of the rank and its children


class HostSample(Base):
    """What a whole host did at one moment. Rates are since its sample before; a metric that is not there is null."""

    __tablename__ = "host_samples"

    host: Mapped[str] = mapped_column(String(255), primary_key=True)
    at: Mapped[datetime] = mapped_column(primary_key=True)
    cpu_percent: Mapped[float | None]  # of all cores, 0..100
    memory_bytes: Mapped[int | None] = mapped_column(BigInteger)  # in use: what is not available to a new process
    network_received_bytes_per_s: Mapped[float | None]  # see `worker.host_readings` for what is counted
    network_sent_bytes_per_s: Mapped[float | None]
    disk_read_bytes_per_s: Mapped[float | None]
    disk_written_bytes_per_s: Mapped[float | None]


class Rollup(Base):
    """What thinning took out of one stretch of a series, in figures: of a job that ended long ago."""

    __tablename__ = "rollups"

    job_id: Mapped[str] = mapped_column(String(32), primary_key=True)
    source: Mapped[str] = mapped_column(String(8), primary_key=True)
    name: Mapped[str] = mapped_column(String(64), primary_key=True)  # of a metric, or a column of samples
    rank: Mapped[int] = mapped_column(primary_key=True)
    attempt: Mapped[int] = mapped_column(primary_key=True)  # 0 for a metric: its points are those of whichever counts
    bin: Mapped[int] = mapped_column(primary_key=True)  # from 0
    first_step: Mapped[int | None] = mapped_column(BigInteger)
    last_step: Mapped[int | None] = mapped_column(BigInteger)
    first_epoch: Mapped[int | None]
    last_epoch: Mapped[int | None]
    first_at: Mapped[datetime]
    last_at: Mapped[datetime]
    count: Mapped[int]  # of points that are numbers
    least: Mapped[float | None]
    greatest: Mapped[float | None]
    mean: Mapped[float | None]
    p95: Mapped[float | None]

    __table_args__ = (CheckConstraint("source IN ('metric', 'sample')", name="source"),)


class JobAnalysis(Base):
    """What was found out about a job that has ended, so that it is not worked out again: `jobs.analysis`."""

    __tablename__ = "job_analyses"

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    version: Mapped[int]  # of the analysis: an older one is made anew, where the series are still there
    made_at: Mapped[datetime] = mapped_column(server_default=func.now())
    data: Mapped[dict[str, Any]]


class Token(Base):
    """A bearer token, stored as the SHA-256 of its text."""

    __tablename__ = "tokens"

    sha256: Mapped[str] = mapped_column(String(64), primary_key=True)
    name: Mapped[str] = mapped_column(String(128))
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    revoked_at: Mapped[datetime | None]
