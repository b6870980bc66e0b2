"""Webhooks, and what was sent to them."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, StringConstraints

from jobs.views.base import View

WebhookEvent = Literal["job.ended", "study.ended"]
DeliveryStatus = Literal["pending", "delivered", "failed"]


class NewWebhook(View):
    """An address that wants to be told."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"url": "https://ci.example.com/hooks/hora", "events": ["job.ended"]}]},
    )

    url: Annotated[str, StringConstraints(max_length=2000)] = Field(description="https, and on the internet")
    events: Annotated[list[WebhookEvent], Field(min_length=1, max_length=2)] = Field(
        ["job.ended", "study.ended"], description="What it is told of"
    )
    project: Annotated[str, StringConstraints(max_length=64)] | None = Field(
        None, description="It is told of this project's jobs and studies; null: of the owner's own"
    )


class WebhookChanges(View):
    """What is to change of a webhook."""

    model_config = ConfigDict(extra="forbid", strict=True, json_schema_extra={"examples": [{"disabled": True}]})

    disabled: bool = Field(description="Send nothing to it any more, or again")


class WebhookView(View):
    """An address that is told of ends."""

    id: str
    owner: str
    url: str
    events: list[WebhookEvent]
    project: str | None = Field(description="Null: of the owner's own jobs and studies")
    created_at: datetime
    disabled_at: datetime | None = Field(description="A person disabled it, or its receiver answered 410 Gone")


class NewWebhookView(WebhookView):
    """A webhook that was just made, with its secret: it is told this once."""

    secret: str = Field(description="Signs what is sent; see the page on webhooks")


class DeliveryView(View):
    """A message to a webhook, and how sending it went."""

    id: int = Field(description="The same at every try: the key by which a receiver knows one that it has")
    event: Literal["job.ended", "study.ended", "ping"]
    subject_id: str = Field(description="The job, the study, or of a ping the webhook itself")
    status: DeliveryStatus
    attempts: int = Field(description="How often it was tried")
    created_at: datetime
    next_at: datetime | None = Field(description="When it is tried next, or given up on who is at it")
    delivered_at: datetime | None
    status_code: int | None = Field(description="What the receiver answered last")
    error: str | None = Field(description="Why the last try failed")
