"""Deliveries to webhooks, written in the same transaction as what they report: an end, or a warning about idle slots.

Called by `store.move`, by `idle`, and by `jobs.outward.webhooks.outbox`, which hands them out for sending.
"""

from collections.abc import Collection
from typing import Any, cast

from sqlalchemy import (
    ColumnElement,
    Insert,
    Select,
    String,
    Table,
    bindparam,
    exists,
    func,
    insert,
    literal,
    select,
    union_all,
)  # fmt: skip
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Session

from jobs.db.tables import Job, Study, User, Webhook, WebhookDelivery

JOB_ENDED, JOB_IDLE, STUDY_ENDED = "job.ended", "job.idle", "study.ended"


def _insert_deliveries(event: str, subject: type[Job] | type[Study]) -> Insert:
    """The statement that adds a delivery for each webhook that gets this event of one of the subjects `ids`."""

    def deliveries(condition: ColumnElement[bool]) -> Select[*tuple[Any, ...]]:
        return (
            select(Webhook.id, literal(event), subject.id, subject.ended_at)
            .select_from(subject)
            .join(Webhook, condition)
            .join(User, User.name == Webhook.owner)
            .where(subject.id == func.any(bindparam("ids", type_=ARRAY(String))), Webhook.events.contains([event]))
            .where(Webhook.disabled_at.is_(None), Webhook.deleted_at.is_(None), User.disabled_at.is_(None))
        )

    of_project = deliveries(Webhook.project == subject.project)
    of_owner = deliveries(Webhook.project.is_(None) & (Webhook.owner == subject.owner))
    webhook_id, event_name, subject_id, ended_at = (both := union_all(of_project, of_owner).subquery()).c
    in_order = select(webhook_id, event_name, subject_id).select_from(both).order_by(ended_at, subject_id, webhook_id)
    columns = [WebhookDelivery.webhook_id, WebhookDelivery.event, WebhookDelivery.subject_id]
    table = cast(
        "Table", WebhookDelivery.__table__
    )  # with the mapped class itself, a parameter would be read as one of its rows
    return insert(table).from_select(columns, in_order)


# Built once. Run only for jobs that ended while there was a webhook.
_ADD_FOR_JOBS, _ADD_FOR_STUDIES = _insert_deliveries(JOB_ENDED, Job), _insert_deliveries(STUDY_ENDED, Study)
_ADD_FOR_IDLE_JOBS = _insert_deliveries(JOB_IDLE, Job)
HAS_WEBHOOKS = exists().where(Webhook.disabled_at.is_(None), Webhook.deleted_at.is_(None))


def add_job_deliveries(session: Session, job_ids: Collection[str]) -> None:
    """Add a delivery for each webhook that gets the end of one of these jobs."""
    session.execute(_ADD_FOR_JOBS, {"ids": list(job_ids)})


def add_idle_deliveries(session: Session, job_ids: Collection[str]) -> None:
    """Add a delivery for each webhook that is told that nobody uses the slots of one of these jobs."""
    session.execute(_ADD_FOR_IDLE_JOBS, {"ids": list(job_ids)})


def add_study_deliveries(session: Session, study_ids: Collection[str]) -> None:
    """Add a delivery for each webhook that gets the end of one of these studies."""
    session.execute(_ADD_FOR_STUDIES, {"ids": list(study_ids)})
