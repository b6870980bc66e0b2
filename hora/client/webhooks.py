"""Addresses that are told when jobs and studies end."""

from collections.abc import Iterator, Sequence

from hora.client.reading import read
from hora.service import Service
from jobs.views.webhooks import DeliveryView, NewWebhookView, WebhookEvent, WebhookView


class Webhooks:
    """`client.webhooks`."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def create(
        self, url: str, *, events: Sequence[WebhookEvent] | None = None, project: str | None = None
    ) -> NewWebhookView:
        """Have an address told of a project's jobs and studies, or of one's own. The answer alone has its `secret`."""
        return read(NewWebhookView, self._service.create_webhook(url, events=events, project=project))

    def list(self, *, owner: str | None = None) -> Iterator[WebhookView]:
        """One's own webhooks; for an admin everybody's, or those of `owner`."""
        return (read(WebhookView, one) for one in self._service.webhooks(owner=owner))

    def get(self, webhook_id: str) -> WebhookView:
        """One webhook, without its secret."""
        return read(WebhookView, self._service.webhook(webhook_id))

    def disable(self, webhook_id: str) -> WebhookView:
        """Send nothing to it any more."""
        return read(WebhookView, self._service.set_webhook_disabled(webhook_id, True))

    def enable(self, webhook_id: str) -> WebhookView:
        """Send to it again."""
        return read(WebhookView, self._service.set_webhook_disabled(webhook_id, False))

    def remove(self, webhook_id: str) -> None:
        """Tell it of nothing more, for good."""
        self._service.remove_webhook(webhook_id)

    def test(self, webhook_id: str) -> DeliveryView:
        """Send a ping; its delivery says later how that went."""
        return read(DeliveryView, self._service.test_webhook(webhook_id))

    def deliveries(self, webhook_id: str) -> Iterator[DeliveryView]:
        """What was sent to a webhook or waits to be, newest first."""
        return (read(DeliveryView, one) for one in self._service.deliveries(webhook_id))

    def redeliver(self, webhook_id: str, delivery_id: int) -> DeliveryView:
        """Send a delivery once more."""
        return read(DeliveryView, self._service.redeliver(webhook_id, delivery_id))
