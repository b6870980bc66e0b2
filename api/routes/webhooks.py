"""Webhooks: who wants to be told of ends, and what was sent to them. Everybody has their own; admins see all."""

from typing import Annotated

from fastapi import Body, Depends, Path, Query, Response
from sqlalchemy.orm import Session

from api.callers import Caller, CallerHere, router
from api.deps import Cursor, IfNoneMatch, PageLimit, SafeText, ServicesHere, as_json, only_json
from api.openapi import problems
from api.polling.entity_tags import UNCHANGED, answer_once
from api.problems import Forbidden, invalid
from jobs.db.tables import Webhook, WebhookDelivery
from jobs.model.scopes import Scope
from jobs.model.spec import FieldProblem
from jobs.outward.webhooks import store
from jobs.people import audit
from jobs.runtime.outbound_addresses import target_of
from jobs.views.base import Listed
from jobs.views.webhooks import DeliveryStatus, DeliveryView, NewWebhook, NewWebhookView, WebhookChanges, WebhookView

routes = router("webhooks")

WebhookId = Annotated[str, Path(pattern="^[0-9a-z]{1,32}$", description="The webhook's id", examples=["5d8w2n7c4h1k"])]
DeliveryId = Annotated[int, Path(ge=1, le=2**63 - 1, description="The delivery's id", examples=[4711])]

_NO_SUCH_WEBHOOK = problems(s404="No such webhook, or somebody else's")
_DISABLED = problems(s404="No such webhook, or somebody else's", s409="The webhook is disabled")
_BODY = problems(s413="The body is too large", s415="The body is not JSON")


@routes.post(
    "/webhooks",
    status_code=201,
    response_model=NewWebhookView,
    responses=problems(s409="The owner has as many as anybody may have") | _BODY,
    dependencies=[Depends(only_json)],
)
def create_webhook(services: ServicesHere, caller: CallerHere, wanted: Annotated[NewWebhook, Body()]) -> Response:
    """Have an address told of ends. The answer has the secret by which it knows what is ours, this once."""
    target = target_of(wanted.url, services.settings.webhooks_allowed)
    events = sorted(set(wanted.events))
    with services.sessions.begin() as session:
        if wanted.project is not None:
            _require_membership(session, caller, wanted.project)
        webhook = store.create(session, owner=caller.user, url=wanted.url, events=events, project=wanted.project)
        # Not the whole address: its path may be a secret.
        told = {"host": target.host, "events": events, "project": wanted.project}
        audit.record(session, caller.actor, "webhook.created", webhook.id, **told)
        view = NewWebhookView.model_validate(webhook)
    return as_json(view, 201, {"Location": f"/v1/webhooks/{view.id}", "Cache-Control": "no-store"})


def _require_membership(session: Session, caller: Caller, project: str) -> None:
    try:
        is_member = store.is_member(session, project, caller.user)
    except store.UnknownProject:
        raise invalid([FieldProblem("project", "there is no such project", project)]) from None
    if not is_member and not caller.may(Scope.ADMIN):
        raise Forbidden(f"only members of the project {project} have their webhooks told of its jobs")


@routes.get("/webhooks", response_model=Listed[WebhookView], responses=UNCHANGED)
def list_webhooks(
    services: ServicesHere,
    caller: CallerHere,
    owner: Annotated[SafeText | None, Query(description="Only this user's; for admins")] = None,
    limit: PageLimit = 50,
    cursor: Cursor = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """List the caller's webhooks; for an admin, everybody's."""
    if owner not in (None, caller.user) and not caller.may(Scope.ADMIN):
        raise Forbidden("only admins see the webhooks of others")
    with services.sessions() as session:
        page = store.list_webhooks(session, owner=owner or _owner(caller), limit=limit, cursor=cursor)
    views = [WebhookView.model_validate(webhook) for webhook in page.items]
    return answer_once(Listed[WebhookView](items=views, next_cursor=page.next_cursor), if_none_match)


def _owner(caller: Caller) -> str | None:
    """Whose webhooks the caller sees; None: everybody's."""
    return None if caller.may(Scope.ADMIN) else caller.user


@routes.get("/webhooks/{webhook_id}", response_model=WebhookView, responses=UNCHANGED | _NO_SUCH_WEBHOOK)
def get_webhook(
    webhook_id: WebhookId, services: ServicesHere, caller: CallerHere, if_none_match: IfNoneMatch = None
) -> Response:
    """Look a webhook up."""
    with services.sessions() as session:
        webhook = store.get(session, webhook_id, owner=_owner(caller))
    return answer_once(WebhookView.model_validate(webhook), if_none_match)


@routes.patch("/webhooks/{webhook_id}", responses=_NO_SUCH_WEBHOOK | _BODY, dependencies=[Depends(only_json)])
def change_webhook(
    webhook_id: WebhookId, services: ServicesHere, caller: CallerHere, changes: Annotated[WebhookChanges, Body()]
) -> WebhookView:
    """Disable a webhook, which gives up what waits for it, or enable it again."""
    with services.sessions.begin() as session:
        webhook = _to_change(session, webhook_id, caller)
        store.set_disabled(session, webhook, changes.disabled)
        audit.record(session, caller.actor, "webhook.changed", webhook_id, disabled=changes.disabled)
        return WebhookView.model_validate(webhook)


@routes.delete("/webhooks/{webhook_id}", status_code=204, responses=_NO_SUCH_WEBHOOK)
def delete_webhook(webhook_id: WebhookId, services: ServicesHere, caller: CallerHere) -> None:
    """Tell an address of nothing more, and forget its secret."""
    with services.sessions.begin() as session:
        store.remove(session, _to_change(session, webhook_id, caller))
        audit.record(session, caller.actor, "webhook.deleted", webhook_id)


@routes.post("/webhooks/{webhook_id}/test", status_code=202, responses=_DISABLED)
def test_webhook(webhook_id: WebhookId, services: ServicesHere, caller: CallerHere) -> DeliveryView:
    """Send a `ping`, to see whether it arrives. Its delivery says how that went, seconds later."""
    with services.sessions.begin() as session:
        delivery = store.ping(session, _to_change(session, webhook_id, caller))
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
    """List what was sent to a webhook or waits to be, newest first."""
    with services.sessions() as session:
        store.get(session, webhook_id, owner=_owner(caller))
        page = store.deliveries(session, webhook_id, limit=limit, cursor=cursor)
    views = [_delivery_view(delivery) for delivery in page.items]
    return answer_once(Listed[DeliveryView](items=views, next_cursor=page.next_cursor), if_none_match)


@routes.post(
    "/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver",
    status_code=202,
    responses=problems(s404="No such webhook or delivery, or somebody else's", s409="The webhook is disabled"),
)
def redeliver_delivery(
    webhook_id: WebhookId, delivery_id: DeliveryId, services: ServicesHere, caller: CallerHere
) -> DeliveryView:
    """Send a delivery once more, with the same id and the same content."""
    with services.sessions.begin() as session:
        webhook = _to_change(session, webhook_id, caller)
        delivery = store.redeliver(session, webhook, delivery_id)
        audit.record(session, caller.actor, "webhook.redelivered", webhook_id, delivery=delivery_id)
        return _delivery_view(delivery)


def _to_change(session: Session, webhook_id: str, caller: Caller) -> Webhook:
    return store.get(session, webhook_id, owner=_owner(caller), to_change=True)


def _delivery_view(row: WebhookDelivery) -> DeliveryView:
    status: DeliveryStatus = "pending" if row.next_at is not None else "delivered" if row.delivered_at else "failed"
    fields = {name: getattr(row, name) for name in DeliveryView.model_fields if name != "status"}
    return DeliveryView(**fields, status=status)
