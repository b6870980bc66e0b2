"""Messages about jobs and studies: webhooks and their deliveries. And copies of jobs on other tracking servers."""

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, ForeignKey, Identity, Index, String, func, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Mapped, mapped_column

from jobs.db.tables.base import Base


class Webhook(Base):
    """An address to which messages about jobs and studies are sent."""

    __tablename__ = "webhooks"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    owner: Mapped[str] = mapped_column(String(128))
    url: Mapped[str]
    events: Mapped[list[str]] = mapped_column(ARRAY(String(32)))  # job.alert, job.ended, job.idle, study.ended
    project: Mapped[str | None] = mapped_column(ForeignKey("projects.name"))  # null: only the owner's own jobs
    format: Mapped[str] = mapped_column(String(16), server_default="hora")  # `jobs.outward.webhooks.formats`
    secret: Mapped[str]  # signs the messages, so it cannot be stored as a hash
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    disabled_at: Mapped[datetime | None]  # its receiver answered 410 Gone, or a person disabled it
    deleted_at: Mapped[datetime | None]

    __table_args__ = (
        Index("ix_webhooks_owner", owner, postgresql_where=text("deleted_at IS NULL")),
        Index("ix_webhooks_project", project, postgresql_where=text("deleted_at IS NULL")),
    )


class WebhookDelivery(Base):
    """One message for a webhook, and the result of sending it. It is written together with what it reports."""

    __tablename__ = "webhook_deliveries"

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    webhook_id: Mapped[str] = mapped_column(ForeignKey("webhooks.id", ondelete="CASCADE"))
    event: Mapped[str] = mapped_column(String(32))
    subject_id: Mapped[str] = mapped_column(String(32))  # of the job or the study
    event_id: Mapped[int | None] = mapped_column(BigInteger)  # of the alert in the history of the job
    payload: Mapped[dict[str, Any] | None]  # null until it is first sent; it does not change after that
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    attempts: Mapped[int] = mapped_column(server_default="0")
    next_at: Mapped[datetime | None] = mapped_column(server_default=func.now())  # null: sent, or given up
    delivered_at: Mapped[datetime | None]
    status_code: Mapped[int | None]  # of the last answer
    error: Mapped[str | None]  # why the last try failed

    __table_args__ = (
        Index("ix_webhook_deliveries_due", next_at, postgresql_where=text("next_at IS NOT NULL")),
        Index("ix_webhook_deliveries_webhook", webhook_id, id),
        Index("ix_webhook_deliveries_created", created_at),
        Index("ix_webhook_deliveries_subject", subject_id),
        Index("ix_webhook_deliveries_failed", id, postgresql_where=text("next_at IS NULL AND delivered_at IS NULL")),
    )


class MailHour(Base):
    """How many mails the webhooks of a user tried to send in an hour. Only the present hour counts."""

    __tablename__ = "mail_hours"

    owner: Mapped[str] = mapped_column(String(128), primary_key=True)
    hour: Mapped[datetime] = mapped_column(primary_key=True)  # when it began
    mails: Mapped[int]


class Mirror(Base):
    """How much of a job another tracking server has. Written only by `jobs.outward.mirroring`."""

    __tablename__ = "mirrors"

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    run_id: Mapped[str | None] = mapped_column(String(64))  # the server's id
    state: Mapped[dict[str, Any]] = mapped_column(server_default=text("'{}'"))  # a `jobs.outward.mirroring.Position`
    done_at: Mapped[datetime | None]  # the server has everything, or refused it too often
    error: Mapped[str | None]  # what the server refused last, and why
    touched_at: Mapped[datetime] = mapped_column(server_default=func.now())

    __table_args__ = (Index("ix_mirrors_open", touched_at, postgresql_where=text("done_at IS NULL")),)
