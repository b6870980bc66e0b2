"""Webhooks: addresses that are told of the ends of jobs and studies."""

from collections.abc import Iterator, Sequence

from hora.errors import Json
from hora.service.calls import Calls
from hora.service.transport import at


class WebhookCalls(Calls):
    """What is asked of webhooks."""

    def create_webhook(self, url: str, *, events: Sequence[str] | None = None, project: str | None = None) -> Json:
        """Have an address told; the answer alone has the `secret`. Of a project, or of one's own jobs and studies."""
        given = {"url": url, "events": None if events is None else list(events), "project": project}
        document = {name: value for name, value in given.items() if value is not None}
        return self._wire.document("POST", at("webhooks"), json=document)

    def webhooks(self, *, owner: str | None = None, page_size: int = 100) -> Iterator[Json]:
        """One's own webhooks; for an admin everybody's, or those of `owner`."""
        yield from self._wire.pages(at("webhooks"), {"owner": owner, "limit": page_size})

    def webhook(self, webhook_id: str) -> Json:
        """One webhook, without its secret."""
        return self._wire.document("GET", at("webhooks", webhook_id))

    def set_webhook_disabled(self, webhook_id: str, disabled: bool) -> Json:
        """Send nothing to it any more, or again. Asking twice does no harm."""
        return self._wire.document("PATCH", at("webhooks", webhook_id), json={"disabled": disabled}, again=True)

    def remove_webhook(self, webhook_id: str) -> None:
        """Tell it of nothing more, for good."""
        self._wire.send("DELETE", at("webhooks", webhook_id))

    def test_webhook(self, webhook_id: str) -> Json:
        """Send a ping; its delivery says later how that went."""
        return self._wire.document("POST", at("webhooks", webhook_id, "test"))

    def deliveries(self, webhook_id: str, *, page_size: int = 100) -> Iterator[Json]:
        """What was sent to a webhook or waits to be, newest first, fetched page by page as it is consumed."""
        yield from self._wire.pages(at("webhooks", webhook_id, "deliveries"), {"limit": page_size})

    def redeliver(self, webhook_id: str, delivery_id: int) -> Json:
        """Send a delivery once more. Asking twice does no harm."""
        path = at("webhooks", webhook_id, "deliveries", str(delivery_id), "redeliver")
        return self._wire.document("POST", path, again=True)
