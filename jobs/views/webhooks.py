"""Webhooks and their deliveries."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, StringConstraints

from jobs.views.base import View

WebhookEvent = Literal["job.alert", "job.ended", "job.idle", "study.ended"]
WebhookFormat = Literal["hora", "slack", "teams", "mail"]
DeliveryStatus = Literal["pending", "delivered", "failed"]


class NewWebhook(View):
    """A webhook to create."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"url": "https://ci.example.com/hooks/hora", "events": ["job.ended"]}]},
    )

    url: Annotated[str, StringConstraints(max_length=2000)] = Field(
        description="An https address on the internet, or `mailto:` and a mail address",
        json_schema_extra={"format": "web-address"},
    )
    events: Annotated[list[WebhookEvent], Field(min_length=1, max_length=4)] = Field(
        ["job.alert", "job.ended", "job.idle", "study.ended"], description="The events that are sent to it"
    )
    project: Annotated[str, StringConstraints(max_length=64)] | None = Field(
        None, description="Send the events of this project's jobs and studies; null: of the owner's own"
    )
    format: WebhookFormat | None = Field(
        None,
        description="`hora`: signed JSON for programs. `slack`, `teams`: a message in a chat. `mail`: for `mailto:`"
        " only. null: as the address asks for, and the answer says which",
    )


class WebhookChanges(View):
    """Changes to a webhook."""

    model_config = ConfigDict(extra="forbid", strict=True, json_schema_extra={"examples": [{"disabled": True}]})

    disabled: bool = Field(description="Whether nothing is sent to it")


class WebhookView(View):
    """An address to which the service sends a message when a job or a study ends, and about jobs that go on."""

    id: str
    owner: str
    url: str
    events: list[WebhookEvent]
    project: str | None = Field(description="The events are those of this project; null: the owner's own")
    format: WebhookFormat = Field(description="How its messages are written")
    created_at: datetime
    disabled_at: datetime | None = Field(description="When a person, or a receiver's 410 Gone, disabled it")


class NewWebhookView(WebhookView):
    """A new webhook with its secret. The secret is only in this answer."""

    secret: str = Field(
        description="The key that signs the messages; see docs/webhooks.md. Chats do not read the signature"
    )


class DeliveryView(View):
    """A message to a webhook, and whether it arrived."""

    id: int = Field(description="The same at every try, so receivers can recognise repeats")
    event: WebhookEvent | Literal["ping"]
    subject_id: str = Field(description="The id of the job or study; for a ping, of the webhook")
    status: DeliveryStatus
    attempts: int = Field(description="How often it was sent")
    created_at: datetime
    next_at: datetime | None = Field(description="Time of the next try, or when the present try is given up")
    delivered_at: datetime | None
    status_code: int | None = Field(description="The status of the receiver's last answer, for mail that of SMTP")
    error: str | None = Field(description="Why the last try failed")
