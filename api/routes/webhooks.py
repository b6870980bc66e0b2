"""Webhooks and their deliveries. Users see their own; admins see all."""

from typing import Annotated

from fastapi import Body, Depends, Path, Query, Response
from sqlalchemy.orm import Session

from api.callers import Caller, CallerHere, router
from api.deps import Cursor, IfNoneMatch, PageLimit, SafeText, ServicesHere, as_json, only_json
from api.openapi import problems
from api.polling.entity_tags import UNCHANGED, answer_or_304
from api.problems import Forbidden, invalid
from jobs.db.tables import Webhook, WebhookDelivery
from jobs.model.problems import FieldProblem
from jobs.model.scopes import Scope
from jobs.outward.webhooks import store
from jobs.outward.webhooks.formats import MAIL, format_for
from jobs.people import audit
from jobs.people.project_admission import missing_project
from jobs.runtime.mail_addresses import is_mail, recipient_of
from jobs.runtime.outbound_addresses import target_of
from jobs.runtime.settings import Settings
from jobs.views.base import Listed
from jobs.views.webhooks import (
    DeliveryStatus,
    DeliveryView,
    NewWebhook,
    NewWebhookView,
    WebhookChanges,
    WebhookFormat,
    WebhookView,
)

routes = router("webhooks")

WebhookId = Annotated[str, Path(pattern="^[0-9a-z]{1,32}$", description="The webhook's id", examples=["5d8w2n7c4h1k"])]
DeliveryId = Annotated[int, Path(ge=1, le=2**63 - 1, description="The delivery's id", examples=[4711])]

_NO_SUCH_WEBHOOK = problems(s404="No such webhook, or it belongs to another user")
_DISABLED = problems(s404="No such webhook, or it belongs to another user", s409="The webhook is disabled")
_BODY = problems(s413="The body is too large", s415="The body is not JSON")


@routes.post(
    "/webhooks",
    status_code=201,
    response_model=NewWebhookView,
    responses=problems(s409="The owner has too many webhooks") | _BODY,
    dependencies=[Depends(only_json)],
)
def create_webhook(services: ServicesHere, caller: CallerHere, new: Annotated[NewWebhook, Body()]) -> Response:
    """Create a webhook. The answer contains its signing secret, which cannot be shown again."""
    host, chosen_format = _receiver(services.settings, new)
    events = sorted(set(new.events))
    with services.sessions.begin() as session:
        if new.project is not None:
            _require_membership(session, caller, new.project)
        webhook = store.create(
            session, owner=caller.user, url=new.url, events=events, project=new.project, format_=chosen_format
        )
        # The log gets the host only: the path may be a secret.
        details = {"host": host, "events": events, "project": new.project, "format": chosen_format}
        audit.record(session, caller.actor, "webhook.created", webhook.id, **details)
        view = NewWebhookView.model_validate(webhook)
    return as_json(view, 201, {"Location": f"/v1/webhooks/{view.id}", "Cache-Control": "no-store"})


def _receiver(settings: Settings, new: NewWebhook) -> tuple[str, WebhookFormat]:
    """The host of the address, and the format of what is sent there. Raises `ForbiddenAddress`."""
    if new.format is not None and is_mail(new.url) != (new.format == MAIL):
        message = "mail goes to mailto: addresses, and nothing else goes there: leave format out"
        raise invalid([FieldProblem("format", message, new.format)])
    if is_mail(new.url):
        return recipient_of(new.url, settings.mail_rules).rpartition("@")[2], MAIL
    host = target_of(new.url, settings.webhooks_allowed).host
    return host, new.format or format_for(host)


def _require_membership(session: Session, caller: Caller, project: str) -> None:
    try:
        is_member = store.is_member(session, project, caller.user)
    except store.UnknownProject:
        raise invalid(missing_project(session, None, project, caller.applicant)) from None
    if not is_member and not caller.may(Scope.ADMIN):
        raise Forbidden(f"only members of the project {project} and admins may create a webhook for it")


@routes.get("/webhooks", response_model=Listed[WebhookView], responses=UNCHANGED)
def list_webhooks(
    services: ServicesHere,
    caller: CallerHere,
    owner: Annotated[SafeText | None, Query(description="Only webhooks of this user; for admins")] = None,
    limit: PageLimit = 50,
    cursor: Cursor = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """List your webhooks. Admins see everybody's."""
    if owner not in (None, caller.user) and not caller.may(Scope.ADMIN):
        raise Forbidden("only admins can list the webhooks of others")
    with services.sessions() as session:
        page = store.list_webhooks(session, owner=owner or _visible_owner(caller), limit=limit, cursor=cursor)
    views = [WebhookView.model_validate(webhook) for webhook in page.items]
    return answer_or_304(Listed[WebhookView](items=views, next_cursor=page.next_cursor), if_none_match)


def _visible_owner(caller: Caller) -> str | None:
    """Whose webhooks the caller sees; None for everybody's."""
    return None if caller.may(Scope.ADMIN) else caller.user


@routes.get("/webhooks/{webhook_id}", response_model=WebhookView, responses=UNCHANGED | _NO_SUCH_WEBHOOK)
def get_webhook(
    webhook_id: WebhookId, services: ServicesHere, caller: CallerHere, if_none_match: IfNoneMatch = None
) -> Response:
    """Get a webhook."""
    with services.sessions() as session:
        webhook = store.get(session, webhook_id, owner=_visible_owner(caller))
    return answer_or_304(WebhookView.model_validate(webhook), if_none_match)


@routes.patch("/webhooks/{webhook_id}", responses=_NO_SUCH_WEBHOOK | _BODY, dependencies=[Depends(only_json)])
def change_webhook(
    webhook_id: WebhookId, services: ServicesHere, caller: CallerHere, changes: Annotated[WebhookChanges, Body()]
) -> WebhookView:
    """Disable or enable a webhook. Disabling it drops its pending deliveries."""
    with services.sessions.begin() as session:
        webhook = _locked(session, webhook_id, caller)
        store.set_disabled(session, webhook, changes.disabled)
        audit.record(session, caller.actor, "webhook.changed", webhook_id, disabled=changes.disabled)
        return WebhookView.model_validate(webhook)


@routes.delete("/webhooks/{webhook_id}", status_code=204, responses=_NO_SUCH_WEBHOOK)
def delete_webhook(webhook_id: WebhookId, services: ServicesHere, caller: CallerHere) -> None:
    """Delete a webhook and its secret."""
    with services.sessions.begin() as session:
        store.remove(session, _locked(session, webhook_id, caller))
        audit.record(session, caller.actor, "webhook.deleted", webhook_id)


@routes.post("/webhooks/{webhook_id}/test", status_code=202, responses=_DISABLED)
def test_webhook(webhook_id: WebhookId, services: ServicesHere, caller: CallerHere) -> DeliveryView:
    """Send a `ping`. Seconds later its delivery shows whether it arrived."""
    with services.sessions.begin() as session:
        delivery = store.ping(session, _locked(session, webhook_id, caller))
        audit.record(session, caller.actor, "webhook.tested", webhook_id)
        return _delivery_view(delivery)


@routes.get(
    "/webhooks/{webhook_id}/deliveries",
    response_model=Listed[DeliveryView],
    responses=UNCHANGED | _NO_SUCH_WEBHOOK,
)
def list_deliveries(
    webhook_id: WebhookId,
    services: ServicesHere,
    caller: CallerHere,
    limit: PageLimit = 50,
    cursor: Cursor = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """List the deliveries of a webhook, sent and pending, newest first."""
    with services.sessions() as session:
        store.get(session, webhook_id, owner=_visible_owner(caller))
        page = store.deliveries(session, webhook_id, limit=limit, cursor=cursor)
    views = [_delivery_view(delivery) for delivery in page.items]
    return answer_or_304(Listed[DeliveryView](items=views, next_cursor=page.next_cursor), if_none_match)


@routes.post(
    "/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver",
    status_code=202,
    responses=problems(
        s404="No such webhook or delivery, or it belongs to another user", s409="The webhook is disabled"
    ),
)
def redeliver_delivery(
    webhook_id: WebhookId, delivery_id: DeliveryId, services: ServicesHere, caller: CallerHere
) -> DeliveryView:
    """Send a delivery again, with the same id and content."""
    with services.sessions.begin() as session:
        webhook = _locked(session, webhook_id, caller)
        delivery = store.redeliver(session, webhook, delivery_id)
        audit.record(session, caller.actor, "webhook.redelivered", webhook_id, delivery=delivery_id)
        return _delivery_view(delivery)


def _locked(session: Session, webhook_id: str, caller: Caller) -> Webhook:
    return store.get(session, webhook_id, owner=_visible_owner(caller), to_change=True)


def _delivery_view(row: WebhookDelivery) -> DeliveryView:
    status: DeliveryStatus = "pending" if row.next_at is not None else "delivered" if row.delivered_at else "failed"
    fields = {name: getattr(row, name) for name in DeliveryView.model_fields if name != "status"}
    return DeliveryView(**fields, status=status)
