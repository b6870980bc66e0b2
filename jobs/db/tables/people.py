"""Users, tokens, projects and the audit log."""

from datetime import date, datetime
from typing import Any

from sqlalchemy import BigInteger, CheckConstraint, Float, ForeignKey, Identity, Index, String, func, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from jobs.db.tables.base import Base


class User(Base):
    """A person, or a program that acts as one. Users own jobs, studies and tokens."""

    __tablename__ = "users"

    name: Mapped[str] = mapped_column(String(128), primary_key=True)
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    disabled_at: Mapped[datetime | None]  # all their tokens are refused


class Token(Base):
    """A token, session or login link, stored as the SHA-256 of its text."""

    __tablename__ = "tokens"

    sha256: Mapped[str] = mapped_column(String(64), primary_key=True)
    id: Mapped[str] = mapped_column(String(32), unique=True)  # the id that people see
    kind: Mapped[str] = mapped_column(String(8), server_default="bearer")
    user_name: Mapped[str] = mapped_column(ForeignKey("users.name"))
    name: Mapped[str] = mapped_column(String(128))  # what it is for, in its creator's words
    scope: Mapped[str] = mapped_column(String(8))
    rate_limit_per_s: Mapped[float | None] = mapped_column(Float(53))  # null: the settings' limit for its scope
    created_by: Mapped[str | None] = mapped_column(String(128))  # the id of the token that created it
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    expires_at: Mapped[datetime | None]
    last_used_at: Mapped[datetime | None]  # accurate to a few minutes
    revoked_at: Mapped[datetime | None]

    __table_args__ = (
        CheckConstraint("kind IN ('bearer', 'session', 'login')", name="kind"),
        CheckConstraint("scope IN ('read', 'submit', 'code', 'admin')", name="scope"),
        Index("ix_tokens_user", user_name),
    )


class Project(Base):
    """A project, with its quotas. Null: no limit."""

    __tablename__ = "projects"

    name: Mapped[str] = mapped_column(String(64), primary_key=True)
    description: Mapped[str] = mapped_column(server_default="")
    is_open: Mapped[bool] = mapped_column(server_default=text("true"))  # everybody may submit, not only members
    max_slots: Mapped[int | None]  # leased at once
    max_queued: Mapped[int | None]  # jobs in the queue
    max_gpu_hours: Mapped[float | None]  # of leased slots, in a calendar month (UTC)
    share: Mapped[float] = mapped_column(server_default=text("1"))  # of the slots, relative to other projects
    max_storage_gb: Mapped[float | None]  # of checkpoints and artifacts of its jobs, in 10^9 bytes
    max_priority: Mapped[int | None]  # of jobs that are not submitted or changed by admins
    # For jobs whose spec has none: a `jobs.model.spec.IdleSpec`.
    idle: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    archived_at: Mapped[datetime | None]  # it takes no new jobs
    revision: Mapped[int] = mapped_column(BigInteger, server_default="1")


class ProjectMember(Base):
    """A user who may submit to a project and steer its jobs."""

    __tablename__ = "project_members"

    project: Mapped[str] = mapped_column(ForeignKey("projects.name", ondelete="CASCADE"), primary_key=True)
    user_name: Mapped[str] = mapped_column(ForeignKey("users.name", ondelete="CASCADE"), primary_key=True)
    added_at: Mapped[datetime] = mapped_column(server_default=func.now())


class ProjectUsage(Base):
    """The slot-seconds of a project's ended attempts in one month."""

    __tablename__ = "project_usage"

    project: Mapped[str] = mapped_column(ForeignKey("projects.name", ondelete="CASCADE"), primary_key=True)
    month: Mapped[date] = mapped_column(primary_key=True)  # its first day, in UTC
    slot_seconds: Mapped[float]


class UsageHour(Base):
    """The slot-seconds of a user's ended attempts in a project, by the hours in which they were used.

    The fair queue lets old ones count less.
    """

    __tablename__ = "usage_hours"

    project: Mapped[str] = mapped_column(ForeignKey("projects.name", ondelete="CASCADE"), primary_key=True)
    user_name: Mapped[str] = mapped_column(String(128), primary_key=True)
    hour: Mapped[datetime] = mapped_column(primary_key=True)  # when it began
    slot_seconds: Mapped[float]

    __table_args__ = (Index("ix_usage_hours_hour", hour),)


class AccountStanding(Base):
    """What the last pass of the fair queue knew of an account, which is a user in a project. Empty if `fifo`."""

    __tablename__ = "account_standings"

    project: Mapped[str] = mapped_column(ForeignKey("projects.name", ondelete="CASCADE"), primary_key=True)
    user_name: Mapped[str] = mapped_column(String(128), primary_key=True)
    used_slot_s: Mapped[float]  # decayed
    used_part: Mapped[float]  # of what all these accounts used
    entitled_part: Mapped[float]
    is_over: Mapped[bool]  # its jobs come after those of the others
    at: Mapped[datetime] = mapped_column(server_default=func.now())


class AuditEntry(Base):
    """One action of a user, written in the same transaction."""

    __tablename__ = "audit_entries"

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    at: Mapped[datetime] = mapped_column(server_default=func.now())
    actor: Mapped[str] = mapped_column(String(128))  # the user's name
    token_id: Mapped[str | None] = mapped_column(String(32))
    action: Mapped[str] = mapped_column(String(64))  # noun.verb, such as job.cancelled
    subject: Mapped[str | None] = mapped_column(String(255))  # the id or name of the object of the action
    request_id: Mapped[str | None] = mapped_column(String(64))
    address: Mapped[str | None] = mapped_column(String(64))  # the address from which the request came
    data: Mapped[dict[str, Any]] = mapped_column(server_default=text("'{}'"))

    __table_args__ = (
        Index("ix_audit_entries_at", at, id),
        Index("ix_audit_entries_actor", actor, at, id),
        Index("ix_audit_entries_action", action, at, id),
        Index("ix_audit_entries_subject", subject, at, id),
    )


class SavedView(Base):
    """A view of the list of jobs: filters, order, columns. Everybody may open it."""

    __tablename__ = "views"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    owner: Mapped[str] = mapped_column(String(128))
    project: Mapped[str | None] = mapped_column(ForeignKey("projects.name"))  # its members change it; null: its owner
    name: Mapped[str] = mapped_column(String(255))
    content: Mapped[dict[str, Any]] = mapped_column(JSONB)  # a `jobs.views.saved_views.ViewContent`
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    updated_at: Mapped[datetime] = mapped_column(server_default=func.now())

    __table_args__ = (
        Index("ix_views_of_user", owner, name, unique=True, postgresql_where=text("project IS NULL")),
        Index("ix_views_of_project", project, name, unique=True, postgresql_where=text("project IS NOT NULL")),
    )
