"""Messages of webhooks as chats and mails, what an answer means, and when a delivery is tried again."""

import json
from datetime import UTC, datetime
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import SMTP
from typing import Any

import pytest

from jobs.outward.webhooks.formats import body_in, format_for, read_in
from jobs.outward.webhooks.mail import mail_of
from jobs.outward.webhooks.notices import notice_of
from jobs.outward.webhooks.retries import MAX_TRIES, Answer, Verdict, pause_s, verdict_of

PAGE = "https://hora.example.com/jobs/3k9v0t2m7x1q"
HOSTILE = "<!channel> <@U1> *b* `c` & [x](https://evil.example) @here {{DATE(2020-01-01T00:00:00Z)}}"


def message(**fields: Any) -> dict[str, Any]:
    job = {
        "id": "3k9v0t2m7x1q", "name": "chips-8gpu", "owner": "ann", "project": "vision", "study": None,
        "status": "failed", "end_reason": "out_of_memory", "error": "rank 3: no memory", "summary": None, "labels": {},
        "goal": {"metric": "val_accuracy", "best": 0.93127, "best_epoch": 7}, "gpus": 8, "gpu_hours": 1.8,
        "created_at": "2030-01-01T11:40:00+00:00", "started_at": "2030-01-01T11:41:10+00:00",
        "ended_at": "2030-01-01T12:00:15+00:00", "urls": {"self": "/v1/jobs/3k9v0t2m7x1q", "page": PAGE},
    }  # fmt: skip
    return {"event": "job.ended", "delivery": 4711, "webhook": "5d8w", "at": job["ended_at"], "job": job | fields}


def document(chosen_format: str, payload: dict[str, Any]) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(body_in(chosen_format, payload))
    return read


def strings(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for part in value.values() for text in strings(part)]
    if isinstance(value, list):
        return [text for part in value for text in strings(part)]
    return [value] if isinstance(value, str) else []


def test_a_notice_says_what_one_wants_to_know() -> None:
    notice = notice_of(message())
    assert (notice.title, notice.tone, notice.link) == ("chips-8gpu failed", "bad", PAGE)
    assert notice.facts == (
        ("why", "out of memory"), ("error", "rank 3: no memory"), ("best val_accuracy", "0.9313 in epoch 7"),
        ("ran for", "19 min 05 s"), ("GPU-hours", "1.80"), ("of", "ann, project vision"), ("job", "3k9v0t2m7x1q"),
    )  # fmt: skip


def test_a_notice_of_a_job_that_never_began_and_of_an_older_message_says_what_is_known() -> None:
    payload = message(status="cancelled", end_reason="cancelled", error=None, started_at=None, urls={"self": "/v1"})
    for name in ("goal", "gpus", "gpu_hours"):
        del payload["job"][name]
    notice = notice_of(payload)
    assert (notice.title, notice.tone, notice.link) == ("chips-8gpu cancelled", "neutral", None)
    assert [name for name, _ in notice.facts] == ["of", "job"]
    assert notice_of(message(urls={"page": "/jobs/3k9v0t2m7x1q"})).link is None, "it is no whole address"


@pytest.mark.parametrize(
    ("ended_at", "acted_at", "title"),
    [
        (None, None, "chips-8gpu is idle"),
        (None, "2030-01-01T11:50:10Z", "chips-8gpu was paused"),
        ("2030-01-01T12:00:00+00:00", "2030-01-01T11:50:10Z", "chips-8gpu was stopped"),
    ],
)
def test_a_notice_about_idle_slots_says_what_was_done(ended_at: str | None, acted_at: str | None, title: str) -> None:
    payload = message(status="running", error=None, ended_at=ended_at)
    notice = notice_of(payload | {"event": "job.idle", "idle": {"why": "its 8 GPUs are idle", "acted_at": acted_at}})
    assert (notice.title, notice.facts[0]) == (title, ("why", "its 8 GPUs are idle"))


@pytest.mark.parametrize(("level", "tone"), [("info", "neutral"), ("warning", "warning"), ("error", "bad")])
def test_a_notice_of_an_alert_says_what_was_said_and_of_which_job(level: str, tone: str) -> None:
    alert = {"level": level, "title": "val_loss > 3", "text": "val_loss is 4.2 in epoch 4", "rule": 0}
    notice = notice_of(message(status="running") | {"event": "job.alert", "alert": alert})
    assert (notice.title, notice.tone, notice.link) == ("chips-8gpu: val_loss > 3", tone, PAGE)
    assert notice.facts[:2] == (("text", "val_loss is 4.2 in epoch 4"), ("level", level))
    hostile = message() | {"alert": {"level": "info", "title": HOSTILE, "text": HOSTILE}}
    assert "<!channel>" not in document("slack", hostile)["text"]


def test_a_notice_of_a_study_and_a_ping() -> None:
    study = {
        "id": "st1", "name": "sweep", "owner": "ann", "project": "vision", "counts": {"succeeded": 3, "failed": 1},
        "created_at": "2030-01-01T11:00:00+00:00", "ended_at": "2030-01-01T13:07:00+00:00", "urls": {"page": PAGE},
    }  # fmt: skip
    notice = notice_of({"event": "study.ended", "study": study})
    assert (notice.title, notice.tone) == ("Study sweep ended", "bad")
    assert notice.facts[:2] == (("jobs", "1 failed, 3 succeeded"), ("took", "2 h 07 min"))
    assert notice_of({"event": "ping", "webhook": "5d8w"}).facts == (("webhook", "5d8w"),)


def test_a_message_for_slack_has_blocks_and_a_text_and_what_people_typed_has_no_meaning_there() -> None:
    (block,) = (sent := document("slack", message()))["blocks"]
    (section,) = block["elements"]
    assert (block["type"], section["type"]) == ("rich_text", "rich_text_section")
    assert section["elements"][0] == {"type": "text", "text": "chips-8gpu failed", "style": {"bold": True}}
    assert [each["text"] for each in section["elements"][1:4]] == ["\n", "why: ", "out of memory"]
    assert section["elements"][-1] == {"type": "link", "url": PAGE, "text": "Open it in Hora"}
    assert sent["text"].split("\n") == [
        "chips-8gpu failed", "why: out of memory", "error: rank 3: no memory", f"<{PAGE}|Open it in Hora>",
    ]  # fmt: skip
    sent = document("slack", message(name=HOSTILE, error=HOSTILE, urls={}))
    assert "&lt;!channel&gt; &lt;" in sent["text"]
    assert not {"<", ">"} & set(sent["text"])
    for mark in ("*b", "`c", "@here", "@U1"):
        assert mark not in sent["text"]
    # Rich text has a kind of element for each mention and link. These are all texts.
    elements = sent["blocks"][0]["elements"][0]["elements"]
    assert {element["type"] for element in elements} == {"text"}
    assert HOSTILE in strings(elements)


def test_a_message_for_teams_has_one_adaptive_card_and_what_people_typed_has_no_meaning_there() -> None:
    sent = document("teams", message())
    (attachment,) = sent["attachments"]
    card = attachment["content"]
    assert (sent["type"], attachment["contentType"]) == ("message", "application/vnd.microsoft.card.adaptive")
    assert (card["type"], card["version"]) == ("AdaptiveCard", "1.4")
    assert card["body"][0]["inlines"][0]["text"] == "chips-8gpu failed"
    assert card["body"][0]["inlines"][0]["color"] == "attention"
    assert [run["text"] for run in card["body"][1]["inlines"]] == ["why: ", "out of memory"]
    assert card["actions"] == [{"type": "Action.OpenUrl", "title": "Open it in Hora", "url": PAGE}]
    card = document("teams", message(name=HOSTILE, error=HOSTILE, urls={}))["attachments"][0]["content"]
    assert {block["type"] for block in card["body"]} == {"RichTextBlock"}  # read as Markdown: TextBlock, FactSet
    assert {run["type"] for block in card["body"] for run in block["inlines"]} == {"TextRun"}
    assert HOSTILE in strings(card)
    assert "actions" not in card


@pytest.mark.parametrize("chosen_format", ["slack", "teams"])
def test_long_texts_fit_into_a_message(chosen_format: str) -> None:
    payload = message(name="&" * 128, error="<" * 100_000)
    assert len(body_in(chosen_format, payload)) < 20_000
    assert notice_of(message(name="n" * 1000)).title == "n" * 139 + "… failed"


@pytest.mark.parametrize(
    ("host", "chosen_format"),
    [
        ("hooks.slack.com", "slack"), ("acme.webhook.office.com", "teams"), ("prod-1.uksouth.logic.azure.com", "teams"),
        ("a.ae.environment.api.powerplatform.com", "teams"), ("ci.example.com", "hora"),
        ("nothooks.slack.com", "hora"), ("hooks.slack.com.evil.example", "hora"), ("evilpowerplatform.com", "hora"),
    ],
)  # fmt: skip
def test_the_host_of_an_address_asks_for_a_format(host: str, chosen_format: str) -> None:
    assert format_for(host) == chosen_format


@pytest.mark.parametrize(
    ("chosen_format", "answer", "verdict", "error"),
    [
        ("slack", Answer(200, text="ok"), Verdict.DELIVERED, None),
        ("slack", Answer(404, text="no_service"), Verdict.GONE, "Slack has removed this webhook, or disabled it"),
        ("slack", Answer(403, text="invalid_token\n"), Verdict.GONE, "Slack does not accept the token in the address"),
        ("slack", Answer(429, text="rate_limited", retry_after="30"), Verdict.AGAIN, None),
        ("slack", Answer(None, "the connection was refused"), Verdict.AGAIN, "the connection was refused"),
        ("teams", Answer(200, text="1"), Verdict.DELIVERED, None),
        ("teams", Answer(200, text="Webhook message delivery failed with error: Microsoft Teams endpoint returned HTTP"
                                   " error 429 with ContextId x"), Verdict.AGAIN, "Teams answered with status 429"),
        ("teams", Answer(200, text="Microsoft Teams endpoint returned HTTP error 413"), Verdict.FAILED, "status 413"),
        ("teams", Answer(200, text="Webhook message delivery failed"), Verdict.AGAIN, "did not arrive"),
        ("hora", Answer(404, text="no_service"), Verdict.FAILED, None),
    ],
)  # fmt: skip
def test_an_answer_means_what_its_receiver_says(
    chosen_format: str, answer: Answer, verdict: Verdict, error: str | None
) -> None:
    said = read_in(chosen_format, answer)
    assert verdict_of(said, 1) is verdict
    assert (said.error is None) == (error is None)
    assert error is None or error in (said.error or "")
    assert said.retry_after == answer.retry_after


def test_hora_s_own_format_is_the_stored_message() -> None:
    payload = message()
    assert document("hora", payload) == payload
    assert body_in("hora", payload) == body_in("hora", dict(reversed(payload.items())))


NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        *((Answer(status), Verdict.DELIVERED) for status in (200, 201, 204, 299)),
        *((Answer(status), Verdict.AGAIN) for status in (408, 425, 429, 500, 502, 503, 599)),
        *((Answer(status), Verdict.FAILED) for status in (301, 302, 307, 308, 400, 401, 403, 404, 422)),
        (Answer(410), Verdict.GONE),
        (Answer(None, "refused"), Verdict.AGAIN),
        (Answer(None, "inside", hopeless=True), Verdict.FAILED),
    ],
)
def test_each_answer_of_a_receiver_has_a_verdict(answer: Answer, verdict: Verdict) -> None:
    assert verdict_of(answer, 1) is verdict


def test_delivery_fails_after_the_last_try() -> None:
    assert verdict_of(Answer(503), MAX_TRIES - 1) is Verdict.AGAIN
    assert verdict_of(Answer(503), MAX_TRIES) is Verdict.FAILED
    assert verdict_of(Answer(204), MAX_TRIES) is Verdict.DELIVERED


def pause(tries: int, *, jitter: float = 0, retry_after: str | None = None) -> float:
    return pause_s(tries, jitter=jitter, retry_after=retry_after, now=NOW)


def test_pauses_double_up_to_an_hour_and_the_last_try_is_about_a_day_after_the_first() -> None:
    pauses = [pause(tries) for tries in range(1, MAX_TRIES)]
    assert pauses[:5] == [1, 2, 4, 8, 16]
    assert max(pauses) == pauses[-1] == 3600
    assert 22 < sum(pauses) / 3600 < 26
    assert pause(3, jitter=1) == 5
    assert pause(10**6) == 3600


@pytest.mark.parametrize(
    ("retry_after", "expected"),
    [
        ("30", 30), (" 30 ", 30), ("0", 1), ("999999999999", 86_400),
        ("Tue, 01 Jan 2030 12:01:00 GMT", 60), ("Tue, 01 Jan 2030 11:00:00 GMT", 1),
        ("", 1), ("soon", 1), ("-5", 1), ("٣", 1), (None, 1),
    ],
)  # fmt: skip
def test_a_receiver_may_ask_for_a_longer_pause(retry_after: str | None, expected: float) -> None:
    assert pause(1, retry_after=retry_after) == expected


HOSTILE_MAIL = "Größe\r\nBcc: all@example.org\r\n\r\n<script>alert(1)</script>\u2028&\udc80x"


def as_sent(**fields: str) -> EmailMessage:
    """The mail of a job as a receiver reads it."""
    mail = mail_of(message(**fields), sender="hora@example.org", recipient="ann@example.org")
    read = message_from_bytes(mail.as_bytes(), policy=SMTP)
    assert isinstance(read, EmailMessage)
    return read


def content_of(mail: EmailMessage, kind: str) -> str:
    part = mail.get_body((kind,))
    assert part is not None
    content: str = part.get_content()
    return content.replace("\r\n", "\n")


def test_a_mail_says_what_one_wants_to_know_as_text_and_as_html() -> None:
    mail = as_sent()
    headers = ("From", "To", "Subject", "Message-ID", "Auto-Submitted", "Hora-Event", "Hora-Delivery")
    assert [str(mail[name]) for name in headers] == [
        "Hora <hora@example.org>", "ann@example.org", "chips-8gpu failed", "<5d8w.4711@example.org>", "auto-generated",
        "job.ended", "4711",
    ]  # fmt: skip
    assert mail.get_content_type() == "multipart/alternative"
    text, html = content_of(mail, "plain"), content_of(mail, "html")
    assert text.startswith(
        "chips-8gpu failed\n\nwhy: out of memory\nerror: rank 3: no memory\nbest val_accuracy: 0.9313"
    )
    assert f"\n{PAGE}\n" in text
    assert f'<a href="{PAGE}">' in html
    assert "<th align=left>GPU-hours</th><td>1.80</td>" in html


def test_a_mail_is_the_same_at_every_try() -> None:
    mails = [mail_of(message(), sender="hora@example.org", recipient="ann@example.org") for _ in range(2)]
    for mail in mails:
        mail.set_boundary("same")
    assert mails[0].as_bytes() == mails[1].as_bytes()


def test_what_people_typed_is_no_header_and_no_markup() -> None:
    mail = as_sent(name=HOSTILE_MAIL, error=HOSTILE_MAIL)
    assert mail["Bcc"] is None
    assert mail["Subject"] == "Größe Bcc: all@example.org <script>alert(1)</script> & x failed"
    assert "<script>" not in content_of(mail, "html")
    assert "&lt;script&gt;" in content_of(mail, "html")
    assert "\nBcc" not in content_of(mail, "plain")
    assert mail.as_bytes().isascii()
