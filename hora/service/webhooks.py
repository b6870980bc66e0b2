"""Webhooks: addresses that get a message when jobs and studies end."""

from collections.abc import Iterator, Sequence

from hora.errors import Json
from hora.service.calls import Calls
from hora.service.transport import api_path


class WebhookCalls(Calls):
    """The requests about webhooks."""

    def create_webhook(
        self,
        url: str,
        *,
        events: Sequence[str] | None = None,
        project: str | None = None,
        format: str | None = None,  # noqa: A002 - the field's name in the API
    ) -> Json:
        """Add a webhook for a project, or for your own jobs and studies. Only this answer has its `secret`.

        `format`: `hora`, `slack` or `teams`; None: as the address asks for.
        """
        fields = {
            "url": url, "events": None if events is None else list(events), "project": project, "format": format,
        }  # fmt: skip
        document = {name: value for name, value in fields.items() if value is not None}
        return self._wire.document("POST", api_path("webhooks"), json=document)

    def webhooks(self, *, owner: str | None = None, page_size: int = 100) -> Iterator[Json]:
        """Your webhooks. For admins: all, or those of `owner`."""
        yield from self._wire.pages(api_path("webhooks"), {"owner": owner, "limit": page_size})

    def webhook(self, webhook_id: str) -> Json:
        """One webhook, without its secret."""
        return self._wire.document("GET", api_path("webhooks", webhook_id))

    def set_webhook_disabled(self, webhook_id: str, disabled: bool) -> Json:
        """Disable or enable a webhook. Safe to repeat."""
        return self._wire.document(
            "PATCH", api_path("webhooks", webhook_id), json={"disabled": disabled}, repeatable=True
        )

    def remove_webhook(self, webhook_id: str) -> None:
        """Delete a webhook."""
        self._wire.send("DELETE", api_path("webhooks", webhook_id))

    def test_webhook(self, webhook_id: str) -> Json:
        """Send a ping. Its delivery shows the result later."""
        return self._wire.document("POST", api_path("webhooks", webhook_id, "test"))

    def deliveries(self, webhook_id: str, *, page_size: int = 100) -> Iterator[Json]:
        """The deliveries of a webhook, newest first, fetched page by page as they are consumed."""
        yield from self._wire.pages(api_path("webhooks", webhook_id, "deliveries"), {"limit": page_size})

    def redeliver(self, webhook_id: str, delivery_id: int) -> Json:
        """Send a delivery again. Safe to repeat."""
        path = api_path("webhooks", webhook_id, "deliveries", str(delivery_id), "redeliver")
        return self._wire.document("POST", path, repeatable=True)
