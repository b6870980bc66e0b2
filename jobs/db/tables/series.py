"""Metrics, log lines and samples of runs, the roll-ups that thinning leaves, and how far samples were judged."""

from datetime import datetime

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    ForeignKey,
    Identity,
    Index,
    SmallInteger,
    String,
    func,
)
from sqlalchemy.orm import Mapped, mapped_column

from jobs.db.tables.base import Base
from jobs.model.log_levels import LogLevel


class MetricPoint(Base):
    """One value of a job's series: of an epoch, or of one of the newest steps (older ones are in a `MetricBlock`)."""

    __tablename__ = "metric_points"

    # No foreign key: COPY writes rows at the rate of training steps, and every write is fenced already.
    job_id: Mapped[str] = mapped_column(String(32), primary_key=True)
    name: Mapped[str] = mapped_column(String(64), primary_key=True)
    rank: Mapped[int] = mapped_column(primary_key=True)  # -1: over all ranks
    step: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    attempt: Mapped[int] = mapped_column(primary_key=True)
    epoch: Mapped[int]
    at: Mapped[datetime]
    value: Mapped[float]


class MetricBlock(Base):
    """Points of one attempt in a series of every step. They have left `metric_points`: see `jobs.telemetry.blocks`.

    Each column of bytes has one big-endian number per point, sorted by step.
    """

    __tablename__ = "metric_blocks"

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    job_id: Mapped[str] = mapped_column(String(32))
    name: Mapped[str] = mapped_column(String(64))
    rank: Mapped[int] = mapped_column()
    attempt: Mapped[int] = mapped_column()
    first_step: Mapped[int] = mapped_column(BigInteger)
    last_step: Mapped[int] = mapped_column(BigInteger)
    steps: Mapped[bytes | None]  # int64; null: every step from the first to the last
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
    # The number of a `LogLevel`. Workers of an older version write none.
    level: Mapped[int] = mapped_column(SmallInteger, server_default=str(LogLevel.INFO.number))

    __table_args__ = (
        Index("ix_log_lines_job", job_id, id),
        Index("ix_log_lines_serious", job_id, id, postgresql_where=level >= LogLevel.WARNING.number),
    )


class Sample(Base):
    """The metrics of one slot at one moment, under the lease that held it. An unknown metric is null."""

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
    gpu_throttle: Mapped[int | None] = mapped_column(BigInteger)  # NVML's bits: why the clock is lower than it could be
    gpu_processes: Mapped[int | None]  # that compute on it, of any user
    cpu_percent: Mapped[float | None]  # of one core: 200 is two cores busy
    memory_bytes: Mapped[int | None] = mapped_column(BigInteger)  # resident, of the rank and its children


class IdleStretch(Base):
    """Since when all slots of a live attempt are idle, as far as its samples were judged: `jobs.telemetry.idle_watch`.

    Times are by the clock of the database.
    """

    __tablename__ = "idle_stretches"

    # Not in the attempt's row, which its supervisor and samplers lock again and again.
    attempt_id: Mapped[int] = mapped_column(ForeignKey("attempts.id", ondelete="CASCADE"), primary_key=True)
    below: Mapped[float]  # percent: what counted as idle
    since: Mapped[datetime]  # when a slot was last used, or when the samples began
    until: Mapped[datetime]  # judged up to here
    looked_at: Mapped[datetime] = mapped_column(server_default=func.now())


class HostSample(Base):
    """The metrics of a whole host at one moment. Rates are since the previous sample. An unknown metric is null."""

    __tablename__ = "host_samples"

    host: Mapped[str] = mapped_column(String(255), primary_key=True)
    at: Mapped[datetime] = mapped_column(primary_key=True)
    cpu_percent: Mapped[float | None]  # of all cores, 0..100
    memory_bytes: Mapped[int | None] = mapped_column(BigInteger)  # in use: what is not available to a new process
    network_received_bytes_per_s: Mapped[float | None]  # see `worker.sampling.host_readings` for what is counted
    network_sent_bytes_per_s: Mapped[float | None]
    disk_read_bytes_per_s: Mapped[float | None]
    disk_written_bytes_per_s: Mapped[float | None]


class Rollup(Base):
    """The figures of one stretch of a thinned series, of a job that ended long ago."""

    __tablename__ = "rollups"

    job_id: Mapped[str] = mapped_column(String(32), primary_key=True)
    source: Mapped[str] = mapped_column(String(8), primary_key=True)
    name: Mapped[str] = mapped_column(String(64), primary_key=True)  # of a metric, or a column of samples
    rank: Mapped[int] = mapped_column(primary_key=True)
    attempt: Mapped[int] = mapped_column(
        primary_key=True
    )  # 0 for a metric: its points are those of the attempt that counts
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
