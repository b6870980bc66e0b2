"""Hosts and their slots, and the allocations of Slurm pools."""

from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    ForeignKey,
    Identity,
    Index,
    String,
    UniqueConstraint,
    false,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from jobs.db.tables.base import Base


class Host(Base):
    """A machine with slots, registered and kept alive by its agent."""

    __tablename__ = "hosts"

    name: Mapped[str] = mapped_column(String(255), primary_key=True)
    info: Mapped[dict[str, Any]]  # cores, memory_bytes, gpu model, versions
    address: Mapped[str | None] = mapped_column(
        String(255)
    )  # the address of its sshd for other hosts; null: they cannot reach it
    registered_at: Mapped[datetime] = mapped_column(server_default=func.now())
    heartbeat_at: Mapped[datetime] = mapped_column(server_default=func.now())
    drained_at: Mapped[datetime | None]  # it gets no new jobs
    kept_for: Mapped[str | None] = mapped_column(String(32))  # the waiting job for which its free slots are kept
    no_space: Mapped[str | None]  # why it gets no jobs until there is space again: see `jobs.runtime.space`
    no_store: Mapped[str | None]  # why nothing is copied from it to the store
    folders: Mapped[list[dict[str, Any]] | None] = mapped_column(
        JSONB(none_as_null=True)
    )  # `FolderSpace`s; null: not measured


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
    unhealthy: Mapped[str | None]  # why no job gets its GPU: it is off the bus, or reports errors
    in_use_by_others: Mapped[bool] = mapped_column(server_default=false())  # by processes of no attempt
    reading: Mapped[
        dict[str, Any] | None
    ]  # the last reading of its GPU, also if it is not leased: `worker.host.gpus.GpuReading`

    __table_args__ = (
        CheckConstraint("kind IN ('gpu', 'cpu')", name="kind"),
        Index("ix_slots_attempt_id", attempt_id, postgresql_where=text("attempt_id IS NOT NULL")),
    )


class Allocation(Base):
    """What Slurm was asked for, or is to be asked for, so that the next attempt of a job can begin in a pool.

    The job is queued until Slurm gives the nodes. Then its attempt `number` is placed on them.
    """

    __tablename__ = "allocations"

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"))
    number: Mapped[int] = mapped_column()  # of the attempt
    pool: Mapped[str] = mapped_column(String(255))
    shape: Mapped[dict[str, Any]]  # a `jobs.scheduling.pools.Shape`
    gpus: Mapped[int]  # the number of its ranks
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    tried_at: Mapped[datetime | None]  # when Slurm was last asked for it
    failures: Mapped[int] = mapped_column(server_default="0")  # how often Slurm refused it, or gave it up unused
    problem: Mapped[str | None]  # why Slurm has not got it
    slurm_job: Mapped[int | None] = mapped_column(BigInteger)  # its number in Slurm; null: Slurm has not got it
    state: Mapped[str | None]  # Slurm's word for how far it is
    reason: Mapped[str | None]  # Slurm's word for why it waits
    expected_at: Mapped[datetime | None]  # when Slurm expects to start it
    started_at: Mapped[datetime | None]  # when its attempt began
    nodes: Mapped[list[str] | None] = mapped_column(JSONB(none_as_null=True))  # sorted by rank
    login: Mapped[str | None] = mapped_column(String(255))  # the machine on which its attempt is supervised
    lost_nodes: Mapped[list[str] | None] = mapped_column(
        JSONB(none_as_null=True)
    )  # on which the attempt failed; empty: Slurm or a person ended it
    over_at: Mapped[datetime | None]  # Slurm has nothing left of it

    __table_args__ = (
        UniqueConstraint(job_id, number),
        Index("ix_allocations_live", pool, postgresql_where=text("over_at IS NULL")),
        Index("ix_allocations_live_job", job_id, postgresql_where=text("over_at IS NULL")),
        Index("ix_allocations_lost", pool, postgresql_where=text("lost_nodes IS NOT NULL")),
    )
