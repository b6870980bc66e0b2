"""The formats of messages: Hora's own JSON, and those that chats read. Pure.

`api.routes.webhooks` chooses the format of a new webhook, `worker.outward.notifier` writes messages and reads answers.
"""

from collections.abc import Mapping
from typing import Any

from jobs.outward.webhooks import slack, teams
from jobs.outward.webhooks.messages import body_of
from jobs.outward.webhooks.notices import notice_of
from jobs.outward.webhooks.retries import Answer
from jobs.views.webhooks import WebhookFormat

MAIL: WebhookFormat = "mail"  # `jobs.outward.webhooks.mail` writes it
# Hosts of chats, and of what is below them.
_HOSTS: dict[str, WebhookFormat] = {
    "hooks.slack.com": "slack",
    "hooks.slack-gov.com": "slack",
    "webhook.office.com": "teams",
    "logic.azure.com": "teams",  # workflows, whose addresses were changed to the next one
    "powerplatform.com": "teams",
}
_READ = {"slack": slack.read, "teams": teams.read}


def format_for(host: str) -> WebhookFormat:
    """The format of messages to this host, if nobody chose one."""
    parents = [host, *(host[at + 1 :] for at, character in enumerate(host) if character == ".")]
    return next((_HOSTS[parent] for parent in parents if parent in _HOSTS), "hora")


def body_in(chosen_format: str, payload: Mapping[str, Any]) -> bytes:
    """A stored message in this format, the same at every try."""
    match chosen_format:
        case "slack":
            document = slack.body_of(notice_of(payload))
        case "teams":
            document = teams.body_of(notice_of(payload))
        case _:
            document = dict(payload)
    return body_of(document)


def read_in(chosen_format: str, answer: Answer) -> Answer:
    """An answer, with what its text means to this receiver."""
    read = _READ.get(chosen_format)
    return answer if read is None else read(answer)
