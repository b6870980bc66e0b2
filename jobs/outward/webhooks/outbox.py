"""The outbox of webhooks: hands out deliveries to be sent, and stores the results.

Called by `worker.outward.notifier`. `jobs.lifecycle.deliveries` writes a delivery together with the end that it
reports. Every function works in the caller's transaction. Delivery is at least once: if a process dies between `claim`
and `settle`, another one sends the message again.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, delete, exists, func, select, update
from sqlalchemy.orm import Session

from jobs.db.tables import Job, JobEvent, Study, Webhook, WebhookDelivery
from jobs.lifecycle import rights_now
from jobs.lifecycle.deliveries import JOB_ALERT, JOB_IDLE, OF_JOBS, STUDY_ENDED, add_study_deliveries
from jobs.model.states import TERMINAL, EventKind
from jobs.outward.webhooks import mail_hours, messages
from jobs.outward.webhooks.formats import MAIL
from jobs.outward.webhooks.messages import PING
from jobs.outward.webhooks.retries import Answer, Verdict, pause_s, verdict_of

_UNSYNCHRONIZED: dict[str, Any] = {"synchronize_session": False}
_FRESH: dict[str, Any] = {"populate_existing": True}
_BATCH_ROWS = 1000
_OF_IDLE_SLOTS = (EventKind.IDLE_WARNED, EventKind.IDLE_ACTED)
# With its limit it is a look for each study that goes on, never a join with the jobs of all studies.
_LIVE_JOB = select(Job.id).where(Job.study_id == Study.id, Job.status.not_in(TERMINAL)).limit(1).scalar_subquery()
_HAS_ENDED = (Study.ended_at.is_(None), ~Study.is_searching, _LIVE_JOB.is_(None))
_IS_DUE = WebhookDelivery.next_at <= func.now()


@dataclass(frozen=True)
class Claimed:
    """A delivery that this process may send until its lease expires."""

    id: int
    attempt: int
    webhook_id: str
    event: str
    url: str
    format: str
    secret: str
    payload: dict[str, Any]


def some_are_due() -> ColumnElement[bool]:
    """Whether there are deliveries to send, as SQL."""
    return exists().where(_IS_DUE)


def studies_have_ended() -> ColumnElement[bool]:
    """Whether there are studies for `end_studies`, as SQL."""
    return exists().where(*_HAS_ENDED)


def end_studies(session: Session) -> list[str]:
    """Store the end of every study that has no live jobs and needs no more, with deliveries. Returns the ids.

    A study that somebody resumes at the same moment is skipped, because its row is locked.
    """
    query = select(Study.id).where(*_HAS_ENDED).order_by(Study.id).limit(_BATCH_ROWS)
    candidates = session.scalars(query.with_for_update(skip_locked=True)).all()
    if not candidates:
        return []
    # Check again with the rows locked: jobs that were added just before are visible only now.
    ended = session.scalars(
        update(Study).where(Study.id.in_(candidates), *_HAS_ENDED).values(ended_at=func.now()).returning(Study.id),
        execution_options=_UNSYNCHRONIZED,
    ).all()
    if ended:
        add_study_deliveries(session, ended)
    return list(ended)


def claim(
    session: Session,
    *,
    lease_s: float,
    besides: Collection[str] = (),
    base_url: str = "",
    mails_per_hour: int = 60,
) -> Claimed | None:
    """Take a delivery that is due, of any webhook except `besides`. None if there is none.

    Its message is stored at the first try and does not change. Deliveries of disabled or deleted webhooks are given
    up, and those of owners who may not have the webhook any more. Mail of owners who sent much in this hour waits for
    the next one.
    """
    next_due = (
        select(WebhookDelivery)
        .where(_IS_DUE, WebhookDelivery.webhook_id.not_in(besides))
        .order_by(WebhookDelivery.next_at, WebhookDelivery.id)
        .limit(1)
        .with_for_update(skip_locked=True)
    )
    while (delivery := session.scalar(next_due, execution_options=_FRESH)) is not None:
        webhook = session.get_one(Webhook, delivery.webhook_id, populate_existing=True)
        obstacle = _obstacle(session, webhook)
        if obstacle is not None:
            give_up(session, webhook.id, obstacle)
        elif webhook.format == MAIL and not mail_hours.take(session, webhook.owner, most=mails_per_hour):
            _postpone(session, webhook, mails_per_hour)
        else:
            return _claim_delivery(session, delivery, webhook, lease_s=lease_s, base_url=base_url)
    return None


def _postpone(session: Session, webhook: Webhook, mails_per_hour: int) -> None:
    """Let all mail of a webhook that is due wait for the next hour."""
    session.execute(
        update(WebhookDelivery)
        .where(WebhookDelivery.webhook_id == webhook.id, _IS_DUE)
        .values(
            next_at=mail_hours.NEXT,
            error=f"waits for the next hour: {webhook.owner}'s webhooks may send {mails_per_hour} mails an hour",
        ),
        execution_options=_UNSYNCHRONIZED,
    )


def _obstacle(session: Session, webhook: Webhook) -> str | None:
    if webhook.disabled_at is not None or webhook.deleted_at is not None:
        return "the webhook was disabled or deleted"
    return rights_now.why_no_messages(session, owner=webhook.owner, project=webhook.project)


def _claim_delivery(
    session: Session, delivery: WebhookDelivery, webhook: Webhook, *, lease_s: float, base_url: str
) -> Claimed:
    if delivery.payload is None:
        delivery.payload = _payload(session, delivery, webhook, base_url)
    delivery.attempts += 1
    delivery.next_at = session.scalar(select(func.now() + timedelta(seconds=lease_s)))
    session.flush()
    return Claimed(
        id=delivery.id,
        attempt=delivery.attempts,
        webhook_id=webhook.id,
        event=delivery.event,
        url=webhook.url,
        format=webhook.format,
        secret=webhook.secret,
        payload=delivery.payload,
    )


def _payload(session: Session, delivery: WebhookDelivery, webhook: Webhook, base_url: str) -> dict[str, Any]:
    subject: Job | Study | None = None
    counts: dict[str, int] = {}
    more: dict[str, Any] = {}
    if delivery.event in OF_JOBS:
        subject = session.get(Job, delivery.subject_id)
    if delivery.event == JOB_IDLE:
        # As it was said then: the warning may have been withdrawn. It was written in the transaction of the delivery.
        said = select(JobEvent.data).where(
            JobEvent.job_id == delivery.subject_id,
            JobEvent.kind.in_(_OF_IDLE_SLOTS),
            JobEvent.at <= delivery.created_at,
        )
        more["idle"] = session.scalar(said.order_by(JobEvent.id.desc()).limit(1))
    if delivery.event == JOB_ALERT and (alert := session.get(JobEvent, delivery.event_id)) is not None:
        more["alert"] = {"at": alert.at.isoformat(), "attempt": alert.attempt, **alert.data}
    if delivery.event == STUDY_ENDED:
        subject = session.get(Study, delivery.subject_id)
        rows = session.execute(
            select(Job.status, func.count()).where(Job.study_id == delivery.subject_id).group_by(Job.status)
        )
        counts = {status.value: jobs for status, jobs in rows}
    return messages.payload_of(delivery, webhook, subject, counts=counts, more=more, base_url=base_url)


def settle(session: Session, delivery: Claimed, answer: Answer, *, jitter: float) -> Verdict | None:
    """Store the result of sending; None if the lease had expired and another process has the delivery.

    A delivery that was given up meanwhile stays so, unless it arrived.
    """
    now: datetime = session.execute(select(func.now())).scalar_one()
    verdict = verdict_of(answer, delivery.attempt)
    again_s = pause_s(delivery.attempt, jitter=jitter, retry_after=answer.retry_after, now=now)
    conditions = [WebhookDelivery.id == delivery.id, WebhookDelivery.attempts == delivery.attempt]
    if verdict is not Verdict.DELIVERED:
        conditions.append(WebhookDelivery.next_at.is_not(None))
    settled = session.scalar(
        update(WebhookDelivery)
        .where(*conditions)
        .values(
            next_at=now + timedelta(seconds=again_s) if verdict is Verdict.AGAIN else None,
            delivered_at=now if verdict is Verdict.DELIVERED else None,
            status_code=answer.status_code,
            error=None
            if verdict is Verdict.DELIVERED
            else answer.error or f"the receiver answered with status {answer.status_code}",
        )
        .returning(WebhookDelivery.id),
        execution_options=_UNSYNCHRONIZED,
    )
    if settled is None:
        return None
    if verdict is Verdict.GONE:
        session.execute(
            update(Webhook)
            .where(Webhook.id == delivery.webhook_id, Webhook.disabled_at.is_(None))
            .values(disabled_at=now),
            execution_options=_UNSYNCHRONIZED,
        )
        why = "the receiver answered 410 Gone" if answer.status_code == 410 else "the receiver is gone"
        give_up(session, delivery.webhook_id, why)
    return verdict


def give_up(session: Session, webhook_id: str, error: str) -> None:
    """Give up all unsent deliveries of a webhook."""
    session.execute(
        update(WebhookDelivery)
        .where(WebhookDelivery.webhook_id == webhook_id, WebhookDelivery.next_at.is_not(None))
        .values(next_at=None, error=error),
        execution_options=_UNSYNCHRONIZED,
    )


def add_ping(session: Session, webhook_id: str) -> WebhookDelivery:
    """Add a delivery without content, as a test of the connection."""
    delivery = WebhookDelivery(webhook_id=webhook_id, event=PING, subject_id=webhook_id)
    session.add(delivery)
    session.flush()
    return delivery


@dataclass(frozen=True)
class Counts:
    """How many deliveries wait to be sent, and how many stored ones were given up."""

    pending: int
    failed: int


def counts(session: Session) -> Counts:
    """The counts of the outbox."""
    waits = WebhookDelivery.next_at.is_not(None)
    failures = WebhookDelivery.next_at.is_(None) & WebhookDelivery.delivered_at.is_(None)
    count = select(func.count(WebhookDelivery.id))
    pending, failed = (session.scalar(count.where(condition)) for condition in (waits, failures))
    return Counts(pending or 0, failed or 0)


def remove_old(session: Session, *, keep_days: float) -> bool:
    """Remove a batch of finished deliveries older than `keep_days`; False when none is left.

    A deleted webhook is removed together with its last delivery.
    """
    mail_hours.remove_old(session)
    before = func.now() - timedelta(days=keep_days)
    old = select(WebhookDelivery.id).where(WebhookDelivery.next_at.is_(None), WebhookDelivery.created_at < before)
    some = old.order_by(WebhookDelivery.id).limit(_BATCH_ROWS)
    removed_ids = session.scalars(
        delete(WebhookDelivery).where(WebhookDelivery.id.in_(some)).returning(WebhookDelivery.id)
    ).all()
    if not removed_ids:
        has_deliveries = select(WebhookDelivery.id).where(WebhookDelivery.webhook_id == Webhook.id).exists()
        session.execute(
            delete(Webhook).where(Webhook.deleted_at < before, ~has_deliveries), execution_options=_UNSYNCHRONIZED
        )
    return bool(removed_ids)
