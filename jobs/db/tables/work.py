"""Jobs, studies and attempts. A job's row has the state of the job; an attempt's row has the lease on it."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import (
    BigInteger,
    Float,
    ForeignKey,
    Identity,
    Index,
    SmallInteger,
    String,
    UniqueConstraint,
    false,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSON, JSONB
from sqlalchemy.orm import Mapped, column_property, mapped_column

from jobs.db.tables.base import Base
from jobs.model.preemption import PreemptionCause
from jobs.model.states import EndReason, EventKind, Status

NOTES_START = 200  # characters of the notes in a list

# The step of an event, as the SQL of its index.
STEP_OF_EVENT = "((job_events.data ->> 'step')::bigint)"

# Sort keys of lists of jobs that are not columns, as the SQL of their indices. What has not happened yet comes after
# all that has happened. Durations are in microseconds.
SORTED_BY = {
    "started_at": "coalesce(started_at, 'infinity'::timestamptz)",
    "ended_at": "coalesce(ended_at, 'infinity'::timestamptz)",
    "duration": "coalesce((extract(epoch FROM ended_at - started_at) * 1000000)::bigint, 9223372036854775807)",
    "stored": "(coalesce(checkpoint_bytes, 0) + coalesce(artifact_bytes, 0))",
    "batch_size": "((plan ->> 'global_batch')::bigint)",
    "learning_rate": "((plan ->> 'learning_rate')::double precision)",
    "val_accuracy": "((summary ->> 'val_accuracy')::double precision)",
    "val_loss": "((summary ->> 'val_loss')::double precision)",
    "train_samples_per_s": "((summary ->> 'train_samples_per_s')::double precision)",
}


class Job(Base):
    """A submitted spec and its progress. Written only by `jobs.lifecycle.store` and `jobs.lifecycle.leases`."""

    __tablename__ = "jobs"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    name: Mapped[str] = mapped_column(String(128))
    owner: Mapped[str] = mapped_column(String(128))
    project: Mapped[str] = mapped_column(ForeignKey("projects.name"), server_default="default")
    status: Mapped[Status] = mapped_column()
    end_reason: Mapped[EndReason | None]
    error: Mapped[str | None]
    spec: Mapped[dict[str, Any]]
    plan: Mapped[dict[str, Any]]
    progress: Mapped[dict[str, Any] | None]
    summary: Mapped[dict[str, Any] | None]
    # The last, best, lowest, highest and mean value of every metric so far, by name: `jobs.intake.metric_book`.
    metrics: Mapped[dict[str, Any]] = mapped_column(server_default=text("'{}'"))
    dataset: Mapped[dict[str, Any] | None]  # what its ranks found when they first opened the data
    # The registered version that its spec names, made by `jobs.lifecycle.dataset_refs.ref_of`.
    dataset_ref: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    # Lists of jobs do not read these two: the names of the classes, and what people write about the job, in Markdown.
    classes: Mapped[list[Any] | None] = mapped_column(JSONB, deferred=True, deferred_group="long")
    notes: Mapped[str | None] = mapped_column(deferred=True, deferred_group="long")
    notes_start: Mapped[str | None] = column_property(func.left(notes, NOTES_START), deferred=True)  # lists read this
    notes_at: Mapped[datetime | None]  # when the notes were last changed; null: there are none
    starred: Mapped[bool] = mapped_column(server_default=false())  # by anybody, for everybody
    archived: Mapped[bool] = mapped_column(server_default=false())  # after its end: lists may leave it out
    labels: Mapped[dict[str, Any]] = mapped_column()
    gpus: Mapped[int] = mapped_column()
    priority: Mapped[int] = mapped_column()
    attempt: Mapped[int] = mapped_column(server_default="0")  # number of the newest attempt
    slot_seconds: Mapped[float] = mapped_column(server_default="0")  # held by its ended attempts
    level: Mapped[int] = mapped_column(SmallInteger, server_default="0")  # jobs.model.attained_service
    burst: Mapped[str | None] = mapped_column(String(32))  # the id of its first job: jobs.model.bursts
    restarts: Mapped[int] = mapped_column(server_default="0")  # restarts that count against max_restarts
    losses: Mapped[int] = mapped_column(server_default="0")  # attempts lost through no fault of the job's
    run_key: Mapped[str | None] = mapped_column(String(64))  # equal for jobs that take about as long
    queued_at: Mapped[datetime] = mapped_column(server_default=func.now())  # when the job last began to wait for slots
    not_before: Mapped[datetime | None]  # back-off after a failed attempt
    # It waits for other jobs: it is queued, but not placed. True as long as `job_waits` has rows of it.
    waits_for_jobs: Mapped[bool] = mapped_column(server_default=false())
    paused_at: Mapped[datetime | None]  # it was paused: it is queued, but not placed
    cancel_requested_at: Mapped[datetime | None]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    started_at: Mapped[datetime | None]  # when the first attempt's first rank started
    ended_at: Mapped[datetime | None] = mapped_column()
    logs_removed_at: Mapped[datetime | None]  # when its log lines were removed by retention
    series_thinned_at: Mapped[datetime | None]  # when its step metrics and samples were thinned to an outline
    artifacts_removed_at: Mapped[datetime | None]  # when its artifacts were marked as removed
    files_removed_at: Mapped[datetime | None]  # when a person removed its artifacts and checkpoints
    checkpoint_bytes: Mapped[int | None] = mapped_column(BigInteger)  # on its lead host; null: none was measured
    artifact_bytes: Mapped[int | None] = mapped_column(BigInteger)  # the same, measured at the end of each attempt
    # What waits to be copied to the store for too long: `jobs.views.jobs.CopiesBehind`. Null: nothing.
    copies_behind: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    idle: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))  # a `jobs.views.idle.IdleNotice`
    alerts: Mapped[int] = mapped_column(server_default="0")  # how many its history has
    last_alert: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))  # a `jobs.views.jobs.AlertView`
    copies_tidied_at: Mapped[datetime | None]  # when what is kept no more was last removed from the store
    work_key: Mapped[str | None] = mapped_column(String(64))  # equal for jobs that do the same with a sample
    study_id: Mapped[str | None] = mapped_column(ForeignKey("studies.id"))
    study_cell: Mapped[int | None] = mapped_column()  # position in the study's grid, from 0
    study_repeat: Mapped[int | None] = mapped_column()  # from 0
    # The values of the cell, by dotted field. JSON and not JSONB, which does not keep their sequence.
    study_values: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    pruned_at_epoch: Mapped[int | None] = mapped_column()  # its search asked for its end because of this epoch
    code: Mapped[str | None] = mapped_column(ForeignKey("code_archives.digest"))  # null: Hora's own loop trains
    run_id: Mapped[str | None] = mapped_column(String(16))  # of the run that was imported; null: it was submitted
    probe: Mapped[dict[str, Any] | None]  # what a batch probe found: `jobs.model.records.ProbeFindings`
    revision: Mapped[int] = mapped_column(BigInteger, server_default="1")  # grows with every change

    __table_args__ = (
        Index("ix_jobs_newest", created_at.desc(), id.desc()),
        Index("ix_jobs_queue", priority.desc(), created_at, id, postgresql_where=text("status = 'queued'")),
        # The place of a job in the queue, and how many jobs a user or a project has there: read from the index alone.
        Index(
            "ix_jobs_waiting",
            priority.desc(),
            created_at,
            id,
            postgresql_where=text(
                "status = 'queued' AND cancel_requested_at IS NULL AND paused_at IS NULL AND NOT waits_for_jobs"
            ),
        ),
        # The queue of each account.
        Index(
            "ix_jobs_lanes",
            project,
            owner,
            priority.desc(),
            level,
            created_at,
            id,
            postgresql_where=text(
                "status = 'queued' AND cancel_requested_at IS NULL AND paused_at IS NULL AND NOT waits_for_jobs"
            ),
        ),
        Index("ix_jobs_queued", owner, project, postgresql_where=text("status = 'queued'")),
        Index("ix_jobs_status", status, created_at.desc(), id.desc()),
        Index("ix_jobs_labels", labels, postgresql_using="gin"),
        Index("ix_jobs_ended_at", ended_at),
        Index("ix_jobs_owner", owner, created_at.desc(), id.desc()),
        Index("ix_jobs_project", project, created_at.desc(), id.desc()),
        # The sort keys of lists. Each index is read forwards and backwards.
        Index("ix_jobs_name", name, created_at, id),
        Index("ix_jobs_priority", priority, created_at, id),
        Index("ix_jobs_gpus", gpus, created_at, id),
        Index("ix_jobs_started", text(SORTED_BY["started_at"]), created_at, id),
        Index("ix_jobs_ended", text(SORTED_BY["ended_at"]), created_at, id),
        Index("ix_jobs_duration", text(SORTED_BY["duration"]), created_at, id),
        Index("ix_jobs_stored", text(SORTED_BY["stored"]), created_at, id),
        Index("ix_jobs_batch_size", text(SORTED_BY["batch_size"]), created_at, id),
        Index("ix_jobs_learning_rate", text(SORTED_BY["learning_rate"]), created_at, id),
        # For some statuses hardly any job has results. Reading only the index shows that.
        Index("ix_jobs_val_accuracy", text(SORTED_BY["val_accuracy"]), created_at, id, status),
        Index("ix_jobs_val_loss", text(SORTED_BY["val_loss"]), created_at, id, status),
        Index("ix_jobs_train_samples_per_s", text(SORTED_BY["train_samples_per_s"]), created_at, id, status),
        Index("ix_jobs_starred", created_at.desc(), id.desc(), postgresql_where=text("starred")),
        Index("ix_jobs_archived", created_at.desc(), id.desc(), postgresql_where=text("archived")),
        Index("ix_jobs_not_archived", created_at.desc(), id.desc(), postgresql_where=text("NOT archived")),
        Index("ix_jobs_paused", created_at, id, postgresql_where=text("paused_at IS NOT NULL")),
        Index("ix_jobs_copies_behind", id, postgresql_where=text("copies_behind IS NOT NULL")),
        # Jobs that retention has not processed yet: these indices shrink as it goes on.
        Index("ix_jobs_with_logs", ended_at, postgresql_where=text("logs_removed_at IS NULL")),
        Index("ix_jobs_with_series", ended_at, postgresql_where=text("series_thinned_at IS NULL")),
        Index(
            "ix_jobs_with_artifacts",
            ended_at,
            postgresql_where=text("ended_at IS NOT NULL AND artifacts_removed_at IS NULL"),
        ),
        # What projects keep is summed up from this index alone.
        Index(
            "ix_jobs_storage",
            project,
            postgresql_include=["checkpoint_bytes", "artifact_bytes"],
            postgresql_where=text("checkpoint_bytes > 0 OR artifact_bytes > 0"),
        ),
        Index("ix_jobs_work", work_key, created_at.desc(), postgresql_where=text("status = 'succeeded'")),
        Index("ix_jobs_code", code, postgresql_where=text("code IS NOT NULL")),
        Index("uq_jobs_run", owner, run_id, unique=True, postgresql_where=text("run_id IS NOT NULL")),
        Index("ix_jobs_burst", burst, attempt, postgresql_where=text("burst IS NOT NULL")),
        Index("ix_jobs_study", study_id, study_cell, study_repeat, postgresql_where=text("study_id IS NOT NULL")),
    )


class DeletedJob(Base):
    """A job that a person deleted. Its row is gone; its series and files are removed bit by bit.

    Written only by `jobs.lifecycle.deletion`.
    """

    __tablename__ = "deleted_jobs"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    deleted_at: Mapped[datetime] = mapped_column(server_default=func.now())
    rows_due_at: Mapped[datetime | None] = mapped_column(server_default=func.now())  # null: its series are removed

    __table_args__ = (
        Index("ix_deleted_jobs_due", rows_due_at, postgresql_where=text("rows_due_at IS NOT NULL")),
        Index("ix_deleted_jobs_deleted_at", deleted_at),
    )


class DeletedAttempt(Base):
    """An attempt of a deleted job: what its usage is counted from. Written only by `jobs.lifecycle.deletion`."""

    __tablename__ = "deleted_attempts"

    job_id: Mapped[str] = mapped_column(String(32), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    project: Mapped[str] = mapped_column(String(64))  # where it was spent
    owner: Mapped[str] = mapped_column(String(128))  # of the job
    shares: Mapped[list[Any]] = mapped_column(JSONB)
    created_at: Mapped[datetime]
    ended_at: Mapped[datetime] = mapped_column()

    __table_args__ = (Index("ix_deleted_attempts_ended_at", ended_at),)


class JobWait(Base):
    """A job that waits for another one, which has not ended: `jobs.lifecycle.waits`."""

    __tablename__ = "job_waits"

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    on_job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)

    __table_args__ = (Index("ix_job_waits_on_job", on_job_id),)


class JobText(Base):
    """The searchable texts of a job, one per line, in lower case. Triggers write them with the job."""

    __tablename__ = "job_texts"

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    text: Mapped[str]


class Study(Base):
    """Jobs over a base spec: every combination of some values, each several times; or the trials of a search."""

    __tablename__ = "studies"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    name: Mapped[str] = mapped_column(String(128))
    owner: Mapped[str] = mapped_column(String(128))
    project: Mapped[str] = mapped_column(ForeignKey("projects.name"), server_default="default")
    # JSON and not JSONB, which does not keep the sequence of the fields.
    base: Mapped[dict[str, Any]] = mapped_column(JSON)  # as sent: fields of the grid may be missing
    grid: Mapped[dict[str, Any]] = mapped_column(JSON)  # values by dotted field, as sent
    cells: Mapped[list[Any]] = mapped_column(JSON)  # values by dotted field of each cell, in the sequence of the grid
    repeats: Mapped[int]
    target: Mapped[float | None]  # the val_accuracy to which time and GPU-hours are measured; null: from the results
    # A `jobs.views.searches.SearchSpec` with its defaults; null: a grid. Its trials are the cells.
    search: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    # It begins trials or may end some early: `jobs.insight.studies.searching` looks at it. Not told by `ended_at`: a
    # worker of an older version ends every study that has no live jobs.
    is_searching: Mapped[bool] = mapped_column(server_default=false())
    paused_at: Mapped[datetime | None]  # of a search: it begins no trials
    obstacle: Mapped[str | None]  # why a search cannot begin the next trial now
    cancel_requested_at: Mapped[datetime | None]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    # When all its jobs had ended, and a search needed no more of them; null again if some are run again.
    ended_at: Mapped[datetime | None]
    revision: Mapped[int] = mapped_column(BigInteger, server_default="1")  # grows when a user changes the study

    __table_args__ = (
        Index("ix_studies_newest", created_at.desc(), id.desc()),
        Index("ix_studies_going_on", id, postgresql_where=text("ended_at IS NULL")),
        Index("ix_studies_searching", id, postgresql_where=text("is_searching")),
    )


class StudyNote(Base):
    """A note that a user added to a study."""

    __tablename__ = "study_notes"

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    study_id: Mapped[str] = mapped_column(ForeignKey("studies.id", ondelete="CASCADE"))
    at: Mapped[datetime] = mapped_column(server_default=func.now())
    author: Mapped[str] = mapped_column(String(128))
    text: Mapped[str]

    __table_args__ = (Index("ix_study_notes_study", study_id, id),)


class IdempotencyKey(Base):
    """The answer to a submission with an Idempotency-Key, by owner."""

    __tablename__ = "idempotency_keys"

    owner: Mapped[str] = mapped_column(String(128), primary_key=True)
    key: Mapped[str] = mapped_column(String(255), primary_key=True)
    request_sha256: Mapped[str] = mapped_column(String(64))
    job_id: Mapped[str | None] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"))
    study_id: Mapped[str | None] = mapped_column(ForeignKey("studies.id", ondelete="CASCADE"))  # one of the two
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())

    __table_args__ = (Index("ix_idempotency_keys_created_at", created_at),)


class Attempt(Base):
    """One launch of a job, fenced by `token`: the holder of the token may write as long as the row has not ended."""

    __tablename__ = "attempts"

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"))
    number: Mapped[int] = mapped_column()
    token: Mapped[UUID] = mapped_column(server_default=func.gen_random_uuid())
    host: Mapped[str] = mapped_column(String(255))  # the lead host: its supervisor runs there
    # [{"host", "slots"}], sorted by rank: the lead first
    shares: Mapped[list[Any]] = mapped_column(JSONB, server_default=text("'[]'"))
    gpus: Mapped[int]
    project: Mapped[str | None] = mapped_column(String(64))  # where it was spent; null: in that of its job
    queued_at: Mapped[datetime] = mapped_column(server_default=func.now())  # when its job began to wait
    handed_at: Mapped[datetime | None]  # when its job was handed to the Slurm pool that runs it; null: a host runs it
    due_at: Mapped[datetime | None]  # if it passed a waiting job: when it may be asked to make room
    preempt_requested_at: Mapped[datetime | None]
    preemption: Mapped[PreemptionCause | None] = mapped_column("preempted_for")
    lease_expires_at: Mapped[datetime]
    supervisor_pid: Mapped[int | None]
    supervisor_start_ticks: Mapped[int | None] = mapped_column(BigInteger)  # because a pid can be reused
    resumed_step: Mapped[int | None] = mapped_column(BigInteger)  # points of earlier attempts after it are void
    setup: Mapped[dict[str, Any]] = mapped_column(server_default=text("'{}'"))  # seconds of each phase, of rank 0
    offsets: Mapped[dict[str, Any]] = mapped_column(server_default=text("'{}'"))  # bytes stored of each file
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    claimed_at: Mapped[datetime | None]  # a supervisor took it
    started_at: Mapped[datetime | None]  # its first rank wrote its first line
    ended_at: Mapped[datetime | None] = mapped_column()
    end_reason: Mapped[EndReason | None]
    error: Mapped[str | None]
    copied_at: Mapped[datetime | None]  # all that it left is in the store, or there was nothing

    __table_args__ = (
        UniqueConstraint(job_id, number),
        Index("uq_attempts_live_job", job_id, unique=True, postgresql_where=text("ended_at IS NULL")),
        Index("ix_attempts_live_host", host, postgresql_where=text("ended_at IS NULL")),
        Index("ix_attempts_ended_at", ended_at),
        Index("ix_attempts_to_copy", host, postgresql_where=text("copied_at IS NULL")),
    )

    @property
    def preempted_for(self) -> str | None:
        """The cause of its preemption in one line, for the API."""
        return None if self.preemption is None else str(self.preemption)


class RunTime(Base):
    """Durations of the newest successful runs of a kind, by `Job.run_key`. Backfill estimates from them."""

    __tablename__ = "run_times"

    run_key: Mapped[str] = mapped_column(String(64), primary_key=True)
    durations_s: Mapped[list[float]] = mapped_column(ARRAY(Float(53)))  # newest first, the last few
    updated_at: Mapped[datetime] = mapped_column(server_default=func.now())


class StartForecast(Base):
    """When a queued job is expected to start, and when it did: one row for each of its waits.

    Written by `jobs.scheduling.forecast_rows`.
    """

    __tablename__ = "start_forecasts"

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    queued_at: Mapped[datetime] = mapped_column(primary_key=True)  # when the wait began
    made_at: Mapped[datetime]  # the first forecast of this wait
    first_starts_at: Mapped[datetime]  # what it said
    starts_at: Mapped[datetime]  # what the newest one says
    shown_until: Mapped[datetime]  # then it is too old
    started_at: Mapped[datetime | None] = mapped_column()  # when the job got its slots

    __table_args__ = (Index("ix_start_forecasts_started_at", started_at),)


class JobEvent(Base):
    """One line of a job's history, written together with the change that it reports."""

    __tablename__ = "job_events"

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"))
    at: Mapped[datetime] = mapped_column(server_default=func.now())
    kind: Mapped[EventKind] = mapped_column()
    attempt: Mapped[int | None] = mapped_column()
    data: Mapped[dict[str, Any]] = mapped_column(server_default=text("'{}'"))

    __table_args__ = (
        Index("ix_job_events_job", job_id, id),
        # The newest checkpoints of a job, and the epoch before each: `jobs.copies.resuming`.
        Index(
            "ix_job_events_steps",
            job_id,
            attempt,
            kind,
            text(STEP_OF_EVENT),
            id,
            postgresql_where=text("kind IN ('checkpoint_saved', 'epoch_ended')"),
        ),
        Index("ix_job_events_alerts", job_id, id, postgresql_where=text("kind = 'alert'")),
    )


class JobAnalysis(Base):
    """The stored analysis of a job that has ended, so that it is not computed again: `jobs.insight.analysis`."""

    __tablename__ = "job_analyses"

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    version: Mapped[int]  # of the analysis: an older one is computed again if the series still exist
    made_at: Mapped[datetime] = mapped_column(server_default=func.now())
    data: Mapped[dict[str, Any]]
