"""Webhooks: addresses that get a message when jobs and studies end."""

from hora.client.resource import Resource, reads, reads_pages, returns
from hora.service import Service
from jobs.views.webhooks import DeliveryView, NewWebhookView, WebhookView


class Webhooks(Resource):
    """`client.webhooks`."""

    create = reads(NewWebhookView, Service.create_webhook)
    list = reads_pages(WebhookView, Service.webhooks)
    get = reads(WebhookView, Service.webhook)
    remove = returns(Service.remove_webhook)
    test = reads(DeliveryView, Service.test_webhook)
    deliveries = reads_pages(DeliveryView, Service.deliveries)
    redeliver = reads(DeliveryView, Service.redeliver)

    def disable(self, webhook_id: str) -> WebhookView:
        """Send nothing more to a webhook until it is enabled."""
        return self._read(WebhookView, self._service.set_webhook_disabled(webhook_id, True))

    def enable(self, webhook_id: str) -> WebhookView:
        """Send to a webhook again."""
        return self._read(WebhookView, self._service.set_webhook_disabled(webhook_id, False))
