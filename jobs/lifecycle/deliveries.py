"""Deliveries to webhooks, written in the transaction of the end that they tell of.

Called by `store.move` and by `jobs.outward.webhooks.outbox`, which gives them out to be sent.
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

JOB_ENDED, STUDY_ENDED = "job.ended", "study.ended"


def _telling(event: str, subject: type[Job] | type[Study]) -> Insert:
    """Write a delivery for every webhook that is told of the end of one of the subjects `ids`."""

    def heard(how: ColumnElement[bool]) -> Select[*tuple[Any, ...]]:
        return (
            select(Webhook.id, literal(event), subject.id, subject.ended_at)
            .select_from(subject)
            .join(Webhook, how)
            .join(User, User.name == Webhook.owner)
            .where(subject.id == func.any(bindparam("ids", type_=ARRAY(String))), Webhook.events.contains([event]))
            .where(Webhook.disabled_at.is_(None), Webhook.deleted_at.is_(None), User.disabled_at.is_(None))
        )

    of_project = heard(Webhook.project == subject.project)
    own = heard(Webhook.project.is_(None) & (Webhook.owner == subject.owner))
    webhook_id, named, subject_id, ended_at = (both := union_all(of_project, own).subquery()).c
    in_order = select(webhook_id, named, subject_id).select_from(both).order_by(ended_at, subject_id, webhook_id)
    columns = [WebhookDelivery.webhook_id, WebhookDelivery.event, WebhookDelivery.subject_id]
    table = cast("Table", WebhookDelivery.__table__)  # a parameter beside a mapped class would be a row of it
    return insert(table).from_select(columns, in_order)


# Built once, and asked for only where somebody is told: every end of a job comes by here.
_TELL_OF_JOBS, _TELL_OF_STUDIES = _telling(JOB_ENDED, Job), _telling(STUDY_ENDED, Study)
_IS_ANYBODY_TOLD = select(exists().where(Webhook.disabled_at.is_(None), Webhook.deleted_at.is_(None)))


def tell_of_jobs(session: Session, job_ids: Collection[str]) -> None:
    """Write a delivery for every webhook that is told of the end of one of these jobs."""
    if session.scalar(_IS_ANYBODY_TOLD):
        session.execute(_TELL_OF_JOBS, {"ids": list(job_ids)})


def tell_of_studies(session: Session, study_ids: Collection[str]) -> None:
    """Write a delivery for every webhook that is told of the end of one of these studies."""
    session.execute(_TELL_OF_STUDIES, {"ids": list(study_ids)})
