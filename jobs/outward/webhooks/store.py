"""The rows of webhooks: create, list, change and delete. Called by the api, in its transaction.

WebhookNotFound     no webhook has this id, or it belongs to somebody else
DeliveryNotFound    the webhook has no delivery with this id
WebhookDisabled     the webhook is disabled
TooManyWebhooks     its owner has as many as allowed
UnknownProject      no project has this name
"""

from collections.abc import Sequence

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from jobs.db import cursors
from jobs.db.cursors import BY_NAME, BY_NUMBER, Page
from jobs.db.tables import Project, ProjectMember, Webhook, WebhookDelivery
from jobs.lifecycle import rights_now
from jobs.lifecycle.store import new_id
from jobs.outward.webhooks import outbox
from jobs.outward.webhooks.messages import new_secret
from jobs.people.rights import NotAllowed

MAX_OF_AN_OWNER = 20


class WebhookNotFound(LookupError):
    """No webhook has this id."""


class DeliveryNotFound(LookupError):
    """The webhook has no delivery with this id; it may be too old."""


class WebhookDisabled(ValueError):
    """The webhook is disabled: nothing is sent to it."""


class TooManyWebhooks(ValueError):
    """The owner has as many webhooks as allowed."""


class UnknownProject(ValueError):
    """No project has this name."""


def is_member(session: Session, project: str, user: str) -> bool:
    """Whether the user is a member of the project. Raises `UnknownProject`."""
    if session.get(Project, project) is None:
        raise UnknownProject(project)
    return session.get(ProjectMember, (project, user)) is not None


def create(
    session: Session, *, owner: str, url: str, events: Sequence[str], project: str | None, format_: str = "hora"
) -> Webhook:
    """Create a webhook with a new secret. Raises `TooManyWebhooks`."""
    # Requests of one owner take turns, so that the count is right until the commit.
    session.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(f"webhooks\n{owner}", 0))))
    owned = select(func.count()).where(Webhook.owner == owner, Webhook.deleted_at.is_(None))
    if session.execute(owned).scalar_one() >= MAX_OF_AN_OWNER:
        raise TooManyWebhooks(f"{owner} has {MAX_OF_AN_OWNER} webhooks, the most allowed: delete one first")
    webhook = Webhook(
        id=new_id(),
        owner=owner,
        url=url,
        events=list(events),
        project=project,
        format=format_,
        secret=new_secret(),
    )
    session.add(webhook)
    session.flush()
    return webhook


def list_webhooks(session: Session, *, owner: str | None, limit: int, cursor: str | None) -> Page[Webhook]:
    """A page of webhooks, sorted by id. `owner` None: everybody's. Raises `InvalidCursor`."""
    identity = f"webhooks {owner!r}"
    query = select(Webhook).where(Webhook.deleted_at.is_(None)).order_by(Webhook.id).limit(limit + 1)
    if owner is not None:
        query = query.where(Webhook.owner == owner)
    if cursor is not None:
        query = query.where(Webhook.id > cursors.decode(session, cursor, by=BY_NAME, of=identity)[0])
    webhooks = session.scalars(query).all()
    return cursors.page_of(
        session, webhooks, by=BY_NAME, limit=limit, of=identity, position=lambda webhook: (webhook.id,)
    )


def get(session: Session, webhook_id: str, *, owner: str | None, to_change: bool = False) -> Webhook:
    """A webhook of this owner (None: of anybody). With `to_change` it is locked until the commit.

    Raises `WebhookNotFound`.
    """
    query = select(Webhook).where(Webhook.id == webhook_id, Webhook.deleted_at.is_(None))
    if owner is not None:
        query = query.where(Webhook.owner == owner)
    webhook = session.scalar(query.with_for_update() if to_change else query)
    if webhook is None:
        raise WebhookNotFound(webhook_id)
    return webhook


def set_disabled(session: Session, webhook: Webhook, disabled: bool) -> None:
    """Disable or enable a webhook. Disabling gives up its unsent deliveries. Repeating changes nothing.

    Enabling it raises `NotAllowed`.
    """
    if not disabled:
        _require_messages(session, webhook)
    if disabled == (webhook.disabled_at is not None):
        return
    webhook.disabled_at = session.scalar(select(func.now())) if disabled else None
    if disabled:
        outbox.give_up(session, webhook.id, "the webhook was disabled")


def remove(session: Session, webhook: Webhook) -> None:
    """Delete a webhook and its secret. Its deliveries are removed later, by age."""
    webhook.deleted_at = session.scalar(select(func.now()))
    webhook.secret = ""
    outbox.give_up(session, webhook.id, "the webhook was deleted")


def ping(session: Session, webhook: Webhook) -> WebhookDelivery:
    """Send it a message without content. Raises `WebhookDisabled`, `NotAllowed`."""
    _require_messages(session, webhook)
    if webhook.disabled_at is not None:
        raise WebhookDisabled(f"webhook {webhook.id} is disabled: enable it first")
    return outbox.add_ping(session, webhook.id)


def deliveries(session: Session, webhook_id: str, *, limit: int, cursor: str | None) -> Page[WebhookDelivery]:
    """A page of a webhook's deliveries, newest first. Raises `InvalidCursor`."""
    identity = f"deliveries {webhook_id}"
    query = select(WebhookDelivery).where(WebhookDelivery.webhook_id == webhook_id)
    if cursor is not None:
        query = query.where(WebhookDelivery.id < cursors.decode(session, cursor, by=BY_NUMBER, of=identity)[0])
    rows = session.scalars(query.order_by(WebhookDelivery.id.desc()).limit(limit + 1)).all()
    return cursors.page_of(
        session, rows, by=BY_NUMBER, limit=limit, of=identity, position=lambda delivery: (delivery.id,)
    )


def redeliver(session: Session, webhook: Webhook, delivery_id: int) -> WebhookDelivery:
    """Send a delivery again at once, whatever its state. Raises `DeliveryNotFound`, `WebhookDisabled`, `NotAllowed`."""
    _require_messages(session, webhook)
    if webhook.disabled_at is not None:
        raise WebhookDisabled(f"webhook {webhook.id} is disabled: enable it first")
    delivery: WebhookDelivery | None = session.scalar(
        update(WebhookDelivery)
        .where(WebhookDelivery.id == delivery_id, WebhookDelivery.webhook_id == webhook.id)
        .values(next_at=func.now(), delivered_at=None)
        .returning(WebhookDelivery)
    )
    if delivery is None:
        raise DeliveryNotFound(delivery_id)
    return delivery


def _require_messages(session: Session, webhook: Webhook) -> None:
    """Refuse if the owner may not have the webhook any more. Raises `NotAllowed`."""
    obstacle = rights_now.why_no_messages(session, owner=webhook.owner, project=webhook.project)
    if obstacle is not None:
        raise NotAllowed(f"webhook {webhook.id} gets no messages: {obstacle}")
