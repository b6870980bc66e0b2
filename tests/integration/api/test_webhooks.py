"""Webhooks over HTTP: who may have which, the secret that is shown once, and the results of deliveries."""

from collections.abc import Callable
from typing import Any

from fastapi.testclient import TestClient
from sqlalchemy import func, update

from jobs.db.engine import Sessions
from jobs.db.tables import WebhookDelivery
from jobs.runtime.settings import Settings
from tests.integration.api.answers import created, errors_of, pages_of, problem
from tests.integration.api.starting_rows import client_with

URL = "https://ci.example.com/hooks/very-long-and-secret"
ClientOf = Callable[..., TestClient]


def add_webhook(client: TestClient, **fields: Any) -> dict[str, Any]:
    return created(client, "/v1/webhooks", {"url": URL} | fields)


def test_the_secret_of_a_webhook_is_shown_once(client_of: ClientOf, sessions: Sessions) -> None:
    alice = client_of("alice")
    answer = alice.post("/v1/webhooks", json={"url": URL})
    webhook = answer.json()
    secret = webhook.pop("secret")
    assert secret.startswith("hora_whsec_")
    assert len(secret) > 40
    assert answer.headers["Location"] == f"/v1/webhooks/{webhook['id']}"
    assert answer.headers["Cache-Control"] == "no-store"
    assert (webhook["owner"], webhook["url"], webhook["format"], webhook["disabled_at"]) == ("alice", URL, "hora", None)
    assert webhook["events"] == ["job.alert", "job.ended", "job.idle", "study.ended"]
    assert alice.get(f"/v1/webhooks/{webhook['id']}").json() == webhook
    assert alice.get("/v1/webhooks").json()["items"] == [webhook]
    assert add_webhook(alice)["secret"] != secret
    texts = [
        alice.get("/v1/webhooks").text,
        alice.get(f"/v1/webhooks/{webhook['id']}").text,
        alice.patch(f"/v1/webhooks/{webhook['id']}", json={"disabled": False}).text,
        alice.post(f"/v1/webhooks/{webhook['id']}/test").text,
        alice.get(f"/v1/webhooks/{webhook['id']}/deliveries").text,
    ]
    assert secret not in "".join(texts)


def test_an_invalid_webhook_is_refused_at_its_field(api: TestClient) -> None:
    cases: list[tuple[dict[str, Any], str, str]] = [
        ({"url": "https://[::ffff:127.0.0.1]/"}, "url", ""),
        ({"url": "https://ci.internal/"}, "url", "HORA_WEBHOOK_ALLOW"),
        ({"url": "mailto:ann@example.org"}, "url", "HORA_SMTP_URL"),
        ({}, "url", ""),
        ({"url": URL, "events": ["job.started"]}, "events.0", ""),
        ({"url": URL, "project": "nowhere"}, "project", ""),
        ({"url": URL, "secret": "mine"}, "secret", ""),
        ({"url": URL, "format": "mail"}, "format", ""),
        ({"url": "mailto:ann@example.org", "format": "slack"}, "format", ""),
    ]
    for body, field, words in cases:
        ((at, message),) = errors_of(api.post("/v1/webhooks", json=body)).items()
        assert (at, words in message) == (field, True), body
    assert api.get("/v1/webhooks").json()["items"] == []


def test_a_webhook_has_the_format_that_was_asked_for_or_that_its_host_reads(client_of: ClientOf) -> None:
    alice, ids = client_of("alice"), list[str]()
    for fields, chosen_format in (
        ({"url": "https://hooks.slack.com/services/T0/B0/x"}, "slack"),
        ({"url": "https://a.ae.environment.api.powerplatform.com:443/powerautomate?sig=x"}, "teams"),
        ({"url": "https://hooks.slack.com/services/T0/B0/x", "format": "hora"}, "hora"),
        ({"url": URL, "format": "slack"}, "slack"),
        ({"url": URL, "format": None}, "hora"),
    ):
        webhook = add_webhook(alice, **fields)
        assert webhook["format"] == chosen_format
        ids.append(webhook["id"])
    pages = pages_of(alice, "/v1/webhooks", limit=2)
    assert [item["id"] for page in pages for item in page] == sorted(ids)
    first = alice.get("/v1/webhooks?limit=2").json()
    assert client_of("bob").get("/v1/webhooks", params={"cursor": first["next_cursor"]}).status_code == 422


def test_a_webhook_may_be_a_mail_address_of_a_domain_that_mail_goes_to(configuration: Settings) -> None:
    smtp_url = "smtp://ann:hush@mail.example.org?from=hora@example.org"
    with client_with(configuration, smtp_url=smtp_url) as api:
        webhook = add_webhook(api, url="mailto:ann@example.org")
        assert (webhook["format"], webhook["url"]) == ("mail", "mailto:ann@example.org")
        assert api.post(f"/v1/webhooks/{webhook['id']}/test").status_code == 202
        (entry,) = api.get("/v1/audit", params={"action": "webhook.created"}).json()["items"]
        assert entry["data"]["host"] == "example.org"
        refused = api.post("/v1/webhooks", json={"url": "mailto:ann@example.net"})
        assert "HORA_MAIL_DOMAINS" in refused.json()["errors"][0]["message"]
        assert "hush" not in refused.text


def test_deliveries_show_the_result_of_sending(client_of: ClientOf, sessions: Sessions) -> None:
    alice = client_of("alice")
    at = f"/v1/webhooks/{add_webhook(alice)['id']}"
    pings = [alice.post(f"{at}/test").json() for _ in range(3)]
    assert {(ping["event"], ping["status"], ping["attempts"]) for ping in pings} == {("ping", "pending", 0)}
    with sessions.begin() as session:
        row = update(WebhookDelivery).where(WebhookDelivery.id == pings[0]["id"])
        session.execute(row.values(next_at=None, delivered_at=func.now(), attempts=1, status_code=204))
        row = update(WebhookDelivery).where(WebhookDelivery.id == pings[1]["id"])
        session.execute(row.values(next_at=None, attempts=1, status_code=404, error="it was answered with 404"))
    shown = [one for page in pages_of(alice, f"{at}/deliveries", limit=2) for one in page]
    assert [one["id"] for one in shown] == [ping["id"] for ping in pings[::-1]]
    assert [(one["status"], one["status_code"]) for one in shown] == [
        ("pending", None), ("failed", 404), ("delivered", 204),
    ]  # fmt: skip
    again = alice.post(f"{at}/deliveries/{pings[0]['id']}/redeliver")
    assert (again.status_code, again.json()["status"], again.json()["id"]) == (202, "pending", pings[0]["id"])
    for wrong in (pings[2]["id"] + 1, "x", 0, 2**70):
        problem(alice.post(f"{at}/deliveries/{wrong}/redeliver"), 404, "delivery-not-found")


def test_a_disabled_webhook_gets_no_message_and_a_deleted_one_is_gone(client_of: ClientOf) -> None:
    alice = client_of("alice")
    at = f"/v1/webhooks/{add_webhook(alice)['id']}"
    ping = alice.post(f"{at}/test").json()
    assert alice.patch(at, json={"disabled": True}).json()["disabled_at"] is not None
    (given_up,) = alice.get(f"{at}/deliveries").json()["items"]
    assert (given_up["status"], given_up["error"]) == ("failed", "the webhook was disabled")
    for asked in (f"{at}/test", f"{at}/deliveries/{ping['id']}/redeliver"):
        assert alice.post(asked).json()["type"] == "urn:hora:problem:webhook-disabled"
    assert alice.patch(at, json={"disabled": False}).json()["disabled_at"] is None
    assert alice.post(f"{at}/test").status_code == 202
    for body in ({}, {"disabled": 1}, {"disabled": None}):
        assert alice.patch(at, json=body).status_code == 422
    assert alice.get(at).json()["disabled_at"] is None
    assert alice.delete(at).status_code == 204
    assert [alice.get(at).status_code, alice.delete(at).status_code] == [404, 404]
    assert alice.get("/v1/webhooks").json()["items"] == []
