"""Deliveries to webhooks, written in the same transaction as what they report: an end, a warning about idle
slots, or an alert.

Called by `store.move`, by `idle`, by `alerts`, and by `jobs.outward.webhooks.outbox`, which hands them out for sending.
"""

from collections.abc import Collection
from typing import Any, cast

from sqlalchemy import (
    BigInteger,
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

JOB_ENDED, JOB_IDLE, JOB_ALERT, STUDY_ENDED = "job.ended", "job.idle", "job.alert", "study.ended"
OF_JOBS = (JOB_ENDED, JOB_IDLE, JOB_ALERT)


def _insert_deliveries(event: str, subject: type[Job] | type[Study], *, for_each: bool = False) -> Insert:
    """The statement that adds a delivery for each webhook that gets this event of one of the subjects `ids`.

    `for_each`: one for each of the events `event_ids` in the history of the job.
    """
    event_id = func.unnest(bindparam("event_ids", type_=ARRAY(BigInteger))) if for_each else literal(None, BigInteger)

    def deliveries(condition: ColumnElement[bool]) -> Select[*tuple[Any, ...]]:
        return (
            select(Webhook.id, literal(event), subject.id, event_id.label("event_id"), subject.ended_at)
            .select_from(subject)
            .join(Webhook, condition)
            .join(User, User.name == Webhook.owner)
            .where(subject.id == func.any(bindparam("ids", type_=ARRAY(String))), Webhook.events.contains([event]))
            .where(Webhook.disabled_at.is_(None), Webhook.deleted_at.is_(None), User.disabled_at.is_(None))
        )

    of_project = deliveries(Webhook.project == subject.project)
    of_owner = deliveries(Webhook.project.is_(None) & (Webhook.owner == subject.owner))
    both = union_all(of_project, of_owner).subquery()
    webhook_id, event_name, subject_id, of_history, ended_at = both.c
    in_order = select(webhook_id, event_name, subject_id, of_history).select_from(both)
    in_order = in_order.order_by(ended_at, subject_id, of_history, webhook_id)
    columns = [
        WebhookDelivery.webhook_id, WebhookDelivery.event, WebhookDelivery.subject_id, WebhookDelivery.event_id,
    ]  # fmt: skip
    table = cast(
        "Table", WebhookDelivery.__table__
    )  # with the mapped class itself, a parameter would be read as one of its rows
    return insert(table).from_select(columns, in_order)


# Built once. Run only for jobs that ended while there was a webhook.
_ADD_FOR_JOBS, _ADD_FOR_STUDIES = _insert_deliveries(JOB_ENDED, Job), _insert_deliveries(STUDY_ENDED, Study)
_ADD_FOR_IDLE_JOBS = _insert_deliveries(JOB_IDLE, Job)
_ADD_FOR_ALERTS = _insert_deliveries(JOB_ALERT, Job, for_each=True)
HAS_WEBHOOKS = exists().where(Webhook.disabled_at.is_(None), Webhook.deleted_at.is_(None))


def add_job_deliveries(session: Session, job_ids: Collection[str]) -> None:
    """Add a delivery for each webhook that gets the end of one of these jobs."""
    session.execute(_ADD_FOR_JOBS, {"ids": list(job_ids)})


def add_idle_deliveries(session: Session, job_ids: Collection[str]) -> None:
    """Add a delivery for each webhook that is told that nobody uses the slots of one of these jobs."""
    session.execute(_ADD_FOR_IDLE_JOBS, {"ids": list(job_ids)})


def add_alert_deliveries(session: Session, job_id: str, event_ids: Collection[int]) -> None:
    """Add a delivery for each webhook that gets alerts of this job, and for each of these events of its history."""
    session.execute(_ADD_FOR_ALERTS, {"ids": [job_id], "event_ids": list(event_ids)})


def add_study_deliveries(session: Session, study_ids: Collection[str]) -> None:
    """Add a delivery for each webhook that gets the end of one of these studies."""
    session.execute(_ADD_FOR_STUDIES, {"ids": list(study_ids)})
