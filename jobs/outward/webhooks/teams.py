"""Messages for workflows and incoming webhooks of Microsoft Teams, and what its answers mean. Pure; used by `formats`.

A message has an Adaptive Card. Its text blocks and facts are read as Markdown, runs of a rich text block are not. So
all texts are in such runs. https://learn.microsoft.com/adaptive-cards/schema-explorer/text-run
"""

import re
from dataclasses import replace
from typing import Any

from jobs.outward.webhooks.notices import Notice
from jobs.outward.webhooks.retries import Answer

_COLOURS = {"good": "good", "warning": "warning", "bad": "attention", "neutral": "default"}
# Incoming webhooks answer 200 although the message did not arrive, and say so in the text.
_FAILED = re.compile(r"endpoint returned HTTP error ([1-5][0-9]{2})")


def body_of(notice: Notice) -> dict[str, Any]:
    """A notice as a message with one Adaptive Card."""
    title = {"size": "large", "weight": "bolder", "color": _COLOURS[notice.tone]}
    card: dict[str, Any] = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "fallbackText": "Hora has news. This client cannot show it.",
        "msteams": {"width": "Full"},
        "body": [_line([_run(notice.title, **title)])]
        + [_line([_run(f"{name}: ", weight="bolder"), _run(value)]) for name, value in notice.facts],
    }
    if notice.link is not None:
        card["actions"] = [{"type": "Action.OpenUrl", "title": "Open it in Hora", "url": notice.link}]
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": None, "content": card}
    return {"type": "message", "attachments": [attachment]}


def _line(runs: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "RichTextBlock", "spacing": "small", "inlines": runs}


def _run(text: str, **style: str) -> dict[str, Any]:
    return {"type": "TextRun", "text": text, **style}


def read(answer: Answer) -> Answer:
    """An answer of Teams, with the status that its text has."""
    match = _FAILED.search(answer.text)
    if answer.status_code != 200 or (match is None and "delivery failed" not in answer.text):
        return answer
    if match is None:
        return replace(answer, status_code=None, error="Teams answered that the message did not arrive")
    return replace(answer, status_code=int(match[1]), error=f"Teams answered with status {match[1]}")
