"""The notifier of a worker with a real receiver: each end is sent once, signed, and again after a failure."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select, update

from jobs.db.engine import Sessions
from jobs.db.tables import Webhook, WebhookDelivery
from jobs.model.scopes import Scope
from jobs.outward.webhooks import store
from jobs.people.tokens import store_token
from jobs.runtime.settings import Settings
from tests.integration.jobs import job_rows
from tests.receivers import Receiver, receiving
from tests.waiting import until
from worker.outward.notifier import Notifier

NOW = 1_900_000_000.0
ROOT = Path(__file__).parents[3]


@pytest.fixture
def config(database: str) -> Settings:
    return Settings(
        database_url=database, webhook_allow="127.0.0.1", notify_period_s=0.02, public_url="https://hora.example.com/"
    )


@contextmanager
def notifying(sessions: Sessions, config: Settings) -> Iterator[None]:
    notifier = Notifier(sessions, config, clock=lambda: NOW)
    notifier.start()
    try:
        yield
    finally:
        notifier.stop()
        notifier.join(120)


def a_webhook(sessions: Sessions, url: str, *, format_: str = "hora") -> Webhook:
    with sessions.begin() as session:
        store_token(session, "hora_me", user="me", scope=Scope.SUBMIT)
        return store.create(session, owner="me", url=url, events=["job.ended"], project=None, format_=format_)


def end_a_job(sessions: Sessions, **fields: Any) -> str:
    return job_rows.cancel(sessions, job_rows.a_job(sessions, **fields)).id


def stored_deliveries(sessions: Sessions) -> list[WebhookDelivery]:
    with sessions() as session:
        return list(session.scalars(select(WebhookDelivery).order_by(WebhookDelivery.id)))


def all_settled(sessions: Sessions) -> Callable[[], bool]:
    return lambda: all(row.next_at is None for row in stored_deliveries(sessions))


def documented_check() -> Callable[..., bool]:
    """The check that the page on webhooks gives to receivers."""
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/webhooks.md").read_text(), re.DOTALL)
    namespace: dict[str, Any] = {}
    exec(code, namespace)  # noqa: S102 - a page of this project
    check: Callable[..., bool] = namespace["is_from_hora"]
    return check


def test_an_end_is_sent_and_signed_as_documented(
    sessions: Sessions, receiver: Receiver, config: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    webhook = a_webhook(sessions, f"{receiver.url}/hooks")
    job_id = end_a_job(sessions, name="chips", labels={"team": "vision"})
    with notifying(sessions, config):
        until(all_settled(sessions), what="the delivery")
    (received,), (row,) = receiver.received, stored_deliveries(sessions)
    raw_headers, secret = received.headers, webhook.secret
    assert (raw_headers["hora-event"], raw_headers["hora-delivery"]) == ("job.ended", str(row.id))
    assert row.payload is not None
    of_message = {"event": "job.ended", "delivery": row.id, "webhook": webhook.id, "at": row.created_at.isoformat()}
    assert {name: row.payload[name] for name in of_message} == of_message
    job = row.payload["job"]
    assert (job["id"], job["name"], job["status"]) == (job_id, "chips", "cancelled")
    assert (job["urls"]["self"], job["urls"]["page"]) == (
        f"https://hora.example.com/v1/jobs/{job_id}", f"https://hora.example.com/jobs/{job_id}",
    )  # fmt: skip
    is_from_hora = documented_check()
    headers = {name.title(): value for name, value in raw_headers.items()}  # as a framework names them
    monkeypatch.setattr("time.time", lambda: NOW + 200)
    assert is_from_hora(secret, headers, received.body)
    assert not is_from_hora(secret, headers, received.body + b" ")
    assert not is_from_hora(secret + "x", headers, received.body)
    assert not is_from_hora(secret, headers | {"Hora-Timestamp": str(int(NOW) + 1)}, received.body)
    monkeypatch.setattr("time.time", lambda: NOW + 301)
    assert not is_from_hora(secret, headers, received.body)
    assert secret.encode() not in received.body + repr(raw_headers).encode()


def test_a_message_to_a_chat_is_sent_again_unchanged_until_the_chat_is_gone_and_no_log_names_its_secrets(
    sessions: Sessions, receiver: Receiver, config: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    webhook = a_webhook(sessions, f"{receiver.url}/path-of-a-secret", format_="slack")
    job_id = end_a_job(sessions, name="chips")
    answers = [(500, b"rollup_error"), (200, b"ok"), (404, b"no_service")]
    receiver.answers = lambda _: (answers[0][0], {}, answers.pop(0)[1])
    with caplog.at_level("DEBUG"), notifying(sessions, config):
        until(lambda: stored_deliveries(sessions)[0].error, what="a failed try")
        with sessions.begin() as session:  # the pause passes at once
            session.execute(update(WebhookDelivery).values(next_at=func.now()))
        until(all_settled(sessions), what="the delivery")
        end_a_job(sessions)
        until(all_settled(sessions), what="the end of the deliveries")
    first, again, _ = receiver.received
    assert (first.headers["hora-delivery"], first.body) == (again.headers["hora-delivery"], again.body)
    text = json.loads(again.body)["text"]
    assert text == f"chips cancelled\n<https://hora.example.com/jobs/{job_id}|Open it in Hora>"
    delivered, failed = stored_deliveries(sessions)
    assert (delivered.attempts, delivered.status_code, delivered.error) == (2, 200, None)
    assert (delivered.delivered_at is not None, failed.delivered_at) == (True, None)
    assert failed.error == "Slack has removed this webhook, or disabled it"
    with sessions() as session:
        assert session.get_one(Webhook, webhook.id).disabled_at is not None
    assert webhook.id in caplog.text
    assert webhook.secret not in caplog.text
    assert "path-of-a-secret" not in caplog.text


def test_a_receiver_that_is_silent_delays_nobody(sessions: Sessions, receiver: Receiver, config: Settings) -> None:
    with receiving() as slow:
        slow.answers = lambda _: until(lambda: (204, {}, b"") if receiver.received[3:] else None)  # type: ignore[arg-type,return-value]
        a_webhook(sessions, slow.url)
        a_webhook(sessions, receiver.url)
        for _ in range(4):
            end_a_job(sessions)
        with notifying(sessions, config):
            until(all_settled(sessions), what="all deliveries")
        assert (len(slow.received), len(receiver.received)) == (4, 4)
