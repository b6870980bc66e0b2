"""Messages for Slack's incoming webhooks, and what its answers mean. Pure; used by `formats`.

Rich text is not read for mentions, links, emoji or styles, so texts of people go there as they are. The field `text` is
for notifications, and for other chats that read Slack's format. It is read for all of that, so texts are escaped there.
https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks
"""

import re
from dataclasses import replace
from typing import Any

from jobs.outward.webhooks.notices import Notice
from jobs.outward.webhooks.retries import Answer

_STYLE = re.compile(r"([*_~`@])")
_OPEN = "Open it in Hora"
_NO_STYLE = "\u200b"  # a space of no width: what follows begins no style and no mention
# Answers after which no other message would arrive either.
_GONE = {
    "no_service": "Slack has removed this webhook, or disabled it",
    "no_service_id": "Slack knows no such webhook",
    "no_active_hooks": "Slack has disabled this webhook",
    "no_team": "Slack knows no such workspace",
    "invalid_token": "Slack does not accept the token in the address",
    "channel_is_archived": "its channel in Slack is archived",
    "channel_not_found": "its channel in Slack is gone",
}
_REFUSED = {
    "action_prohibited": "an administrator of the Slack workspace does not allow it",
    "posting_to_general_channel_denied": "an administrator of the Slack workspace does not allow it in #general",
    "invalid_payload": "Slack cannot read the message: is this an incoming webhook?",
    "no_text": "Slack cannot read the message: is this an incoming webhook?",
    "invalid_blocks": "Slack cannot read the blocks of the message",
    "too_many_attachments": "Slack cannot read the message",
    "user_not_found": "Slack knows no such user",
}


def body_of(notice: Notice) -> dict[str, Any]:
    """A notice as a message of Slack."""
    lines = [[_text(notice.title, bold=True)]]
    lines += [[_text(f"{name}: ", bold=True), _text(value)] for name, value in notice.facts]
    if notice.link is not None:
        lines.append([{"type": "link", "url": notice.link, "text": _OPEN}])
    elements = [element for line in lines for element in (*line, _text("\n"))][:-1]
    section = {"type": "rich_text_section", "elements": elements}
    return {"text": _fallback(notice), "blocks": [{"type": "rich_text", "elements": [section]}]}


def _text(text: str, *, bold: bool = False) -> dict[str, Any]:
    return {"type": "text", "text": text, "style": {"bold": True}} if bold else {"type": "text", "text": text}


def _fallback(notice: Notice) -> str:
    """Title, reason and link in one line each."""
    facts = [f"{_escaped(name)}: {_escaped(value)}" for name, value in notice.facts if name in ("why", "error", "text")]
    links = [] if notice.link is None else [f"<{notice.link}|{_OPEN}>"]
    return "\n".join([_escaped(notice.title), *facts, *links])


def _escaped(text: str) -> str:
    return _STYLE.sub(rf"\1{_NO_STYLE}", text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"))


def read(answer: Answer) -> Answer:
    """An answer of Slack, with what its text means."""
    code = answer.text.strip()
    if code in _GONE:
        return replace(answer, error=_GONE[code], gone=True)
    if code in _REFUSED:
        return replace(answer, error=_REFUSED[code], hopeless=True)
    return answer
