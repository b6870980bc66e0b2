"""Messages as mail: what stands in it. Pure; `worker.outward.mail` sends it."""

import re
from datetime import datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from html import escape
from typing import Any

from jobs.outward.webhooks.notices import Notice, notice_of

_NOT_IN_A_LINE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")


def mail_of(payload: dict[str, Any], *, sender: str, recipient: str) -> EmailMessage:
    """A stored message as mail, the same at every try except for the text between its parts."""
    notice, domain = notice_of(payload), sender.rpartition("@")[2]
    mail = EmailMessage(policy=SMTP)
    mail["From"] = f"Hora <{sender}>"
    mail["To"] = recipient
    mail["Subject"] = _line(notice.title)
    mail["Date"] = format_datetime(datetime.fromisoformat(payload["at"]))
    # A mail that comes twice has the same id, so that programs show it once.
    mail["Message-ID"] = f"<{payload['webhook']}.{payload['delivery']}@{domain}>"
    mail["Auto-Submitted"] = "auto-generated"  # so that absence notices do not answer
    mail["Hora-Event"] = payload["event"]
    mail["Hora-Delivery"] = str(payload["delivery"])
    # Quoted-printable: not every server takes other bytes than ASCII.
    mail.set_content(_text(notice, payload["webhook"]), cte="quoted-printable")
    mail.add_alternative(_html(notice, payload["webhook"]), subtype="html", cte="quoted-printable")
    return mail


def _line(text: str) -> str:
    """The text in one line, so that no header begins in it."""
    return _NOT_IN_A_LINE.sub(" ", text).strip()


def _text(notice: Notice, webhook_id: str) -> str:
    facts = [f"{name}: {_line(value)}" for name, value in notice.facts]
    links = [] if notice.link is None else ["", notice.link]
    return "\n".join([_line(notice.title), "", *facts, *links, "", "-- ", _footer(webhook_id), ""])


def _html(notice: Notice, webhook_id: str) -> str:
    rows = "".join(
        f"<tr><th align=left>{escape(name)}</th><td>{escape(_line(value))}</td></tr>\n" for name, value in notice.facts
    )
    link = "" if notice.link is None else f'<p><a href="{escape(notice.link)}">Open it in Hora</a></p>\n'
    return (
        f"<!doctype html>\n<html><body>\n<h2>{escape(_line(notice.title))}</h2>\n"
        f"<table cellpadding=4>\n{rows}</table>\n{link}"
        f"<p><small>{escape(_footer(webhook_id))}</small></p>\n</body></html>\n"
    )


def _footer(webhook_id: str) -> str:
    return f"Sent by Hora. To stop it: hora webhook disable {webhook_id}"
