"""What the command line shows of webhooks: tables, from the API's JSON. Pure."""

from collections.abc import Iterable
from datetime import datetime

from rich.table import Table
from rich.text import Text

from hora.errors import Json
from hora.render.tables import facts, table_of
from hora.render.text import ago, plain

_STYLE = {"pending": "yellow", "delivered": "green", "failed": "bold red"}


def webhooks_table(webhooks: Iterable[Json], now: datetime | None = None) -> Table:
    """One line a webhook."""
    table = table_of("ID", "OWNER", "URL…", "EVENTS…", "FORMAT?", "PROJECT?", "ADDED?", "")
    for webhook in webhooks:
        table.add_row(
            plain(webhook["id"]),
            plain(webhook["owner"]),
            plain(webhook["url"]),
            plain(", ".join(webhook["events"])),
            plain(webhook.get("format", "hora")),
            plain(webhook["project"] or "-"),
            ago(webhook["created_at"], now),
            "disabled" if webhook["disabled_at"] else "",
        )
    return table


def webhook_facts(webhook: Json, now: datetime | None = None) -> Table:
    """Everything about one webhook."""
    disabled_at = webhook["disabled_at"]
    return facts(
        {
            "webhook": plain(webhook["id"]),
            "owner": plain(webhook["owner"]),
            "url": plain(webhook["url"]),
            "events": plain(", ".join(webhook["events"])),
            "format": plain(webhook.get("format", "hora")),
            "of": f"the project {plain(webhook['project'])}" if webhook["project"] else "the owner's jobs and studies",
            "added": ago(webhook["created_at"], now),
            "disabled": ago(disabled_at, now) if disabled_at else None,
        }
    )


def deliveries_table(deliveries: Iterable[Json], now: datetime | None = None) -> Table:
    """One line a delivery."""
    table = table_of("ID>", "EVENT", "OF", "STATUS", "TRIES>", "WRITTEN", "ANSWER>", "")
    for delivery in deliveries:
        status = plain(delivery["status"])
        table.add_row(
            str(delivery["id"]),
            plain(delivery["event"]),
            plain(delivery["subject_id"]),
            Text(status, style=_STYLE.get(status, "")),
            str(delivery["attempts"]),
            ago(delivery["created_at"], now),
            str(delivery["status_code"] or "-"),
            plain(delivery["error"] or ""),
        )
    return table
