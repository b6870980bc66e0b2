"""Mail of webhooks with a real mail server: STARTTLS, passwords, greylisting, refusals, and a server that hangs."""

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select, update

from jobs.db.engine import Sessions
from jobs.db.tables import WebhookDelivery
from jobs.model.scopes import Scope
from jobs.outward.webhooks import store
from jobs.outward.webhooks.retries import Answer, Verdict, verdict_of
from jobs.people.tokens import store_token
from jobs.runtime.settings import Settings
from tests.certificates import self_signed
from tests.integration.jobs import job_rows
from tests.integration.jobs.test_outbox import the_delivery
from tests.mail_server import MailServer, serving_mail
from tests.waiting import slowdown, until
from worker.outward.mail import Mailer
from worker.outward.notifier import Notifier

ANN = "mailto:ann@example.org"
PAYLOAD: dict[str, Any] = {"event": "ping", "delivery": 7, "webhook": "5d8w", "at": "2030-01-01T12:00:00+00:00"}
RIGHT = "ann:p%40ss%2Fword@"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return self_signed(tmp_path_factory.mktemp("tls"), "IP:127.0.0.1")


@pytest.fixture(scope="module")
def server_tls(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


@pytest.fixture
def trust(certificate: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=certificate.with_suffix(".crt"))


@pytest.fixture
def server() -> Iterator[MailServer]:
    with serving_mail() as server:
        yield server


def settings_for(port: int, *, scheme: str = "smtp", login: str = "", tls: str = "&starttls=never") -> Settings:
    return Settings(smtp_url=f"{scheme}://{login}127.0.0.1:{port}?from=hora@example.org{tls}")


def send(config: Settings, *, trust: ssl.SSLContext | None = None, limit_s: float = 60.0) -> Answer:
    return Mailer(config.mail_rules, limit_s=limit_s, trust=trust).send(ANN, PAYLOAD)


def test_a_mail_goes_over_starttls_with_a_password_or_over_tls_from_the_beginning(
    server_tls: ssl.SSLContext, trust: ssl.SSLContext
) -> None:
    with serving_mail(tls=server_tls) as server:
        answer = send(settings_for(server.port, login=RIGHT, tls="&starttls=required"), trust=trust)
    assert answer == Answer(250)
    ((sender, recipients, mail),) = server.mails
    assert (sender, recipients, server.logins) == ("hora@example.org", ["ann@example.org"], ["right"])
    assert (mail["Subject"], mail["Hora-Event"], mail["To"]) == ("Hora can reach you", "ping", "ann@example.org")
    with serving_mail(tls=server_tls, from_the_beginning=True) as server:
        assert send(settings_for(server.port, scheme="smtps", tls=""), trust=trust) == Answer(250)
    assert len(server.mails) == 1


def test_nothing_is_sent_without_the_security_that_was_asked_for_or_with_a_wrong_password(
    server: MailServer, server_tls: ssl.SSLContext, trust: ssl.SSLContext
) -> None:
    plain = send(settings_for(server.port, login=RIGHT, tls=""))
    with serving_mail(tls=server_tls) as other:
        untrusted = send(settings_for(other.port, login=RIGHT, tls=""))
        assert (server.logins, other.logins) == ([], [])
        wrong = send(settings_for(other.port, login="ann:hush@", tls=""), trust=trust)
    assert (untrusted.error or "").startswith("the certificate of the mail server is not trusted")
    assert plain.error == "the mail server does not offer what HORA_SMTP_URL asks for: STARTTLS, or a password"
    assert (wrong.status_code, wrong.error) == (
        535, "the mail server refused the user and password of HORA_SMTP_URL with 535",
    )  # fmt: skip
    assert {verdict_of(answer, 1) for answer in (untrusted, plain, wrong)} == {Verdict.AGAIN}
    assert (server.mails, other.mails) == ([], [])


@pytest.mark.parametrize(
    ("to_recipient", "to_mail", "verdict", "error"),
    [
        ("451 4.7.1 greylisted", "250 OK", Verdict.AGAIN, "the mail server refused the address with 451"),
        ("550 5.1.1 no such user", "250 OK", Verdict.FAILED, "the mail server refused the address with 550"),
        ("250 OK", "452 4.3.1 full", Verdict.AGAIN, "the mail server refused the mail with 452"),
        ("250 OK", "554 5.7.1 spam", Verdict.FAILED, "the mail server refused the mail with 554"),
    ],
)
def test_a_refusal_says_what_helps(
    server: MailServer, to_recipient: str, to_mail: str, verdict: Verdict, error: str
) -> None:
    server.to_recipient, server.to_mail = lambda _: to_recipient, lambda: to_mail
    answer = send(settings_for(server.port))
    assert (verdict_of(answer, 1), answer.error) == (verdict, error)
    assert answer.retry_after == ("60" if verdict is Verdict.AGAIN else None)
    assert server.mails == []


def test_a_server_that_hangs_or_is_away_holds_nobody_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        hanging = send(settings_for(port), limit_s=0.2)
    away = send(settings_for(port))
    assert hanging == Answer(None, "the mail server did not take the mail within 0.2 s", again=True)
    assert away == Answer(None, "the mail server refused the connection", again=True)


def test_a_mail_that_was_taken_is_not_sent_again_if_the_server_does_not_say_goodbye(server: MailServer) -> None:
    server.says_goodbye = False
    assert send(settings_for(server.port), limit_s=2 * slowdown()) == Answer(250)
    assert len(server.mails) == 1


def test_mail_goes_nowhere_else_than_the_settings_say(server: MailServer) -> None:
    mailer = Mailer(settings_for(server.port).mail_rules)
    elsewhere = mailer.send("mailto:ann@example.net", PAYLOAD)
    assert (elsewhere.hopeless, "HORA_MAIL_DOMAINS" in (elsewhere.error or "")) == (True, True)
    without = Mailer(Settings().mail_rules).send(ANN, PAYLOAD)
    assert (verdict_of(without, 1), "HORA_SMTP_URL" in (without.error or "")) == (Verdict.AGAIN, True)
    assert server.tried == []


def test_the_outbox_sends_mail_again_after_greylisting(database: str, sessions: Sessions, server: MailServer) -> None:
    with sessions.begin() as session:
        store_token(session, "hora_me", user="me", scope=Scope.SUBMIT)
        store.create(session, owner="me", url=ANN, events=["job.ended"], project=None, format_="mail")
    job_rows.cancel(sessions, job_rows.a_job(sessions, name="chips"))
    server.to_recipient = lambda _: "250 OK" if server.tried[1:] else "451 4.7.1 come again"
    url = settings_for(server.port).smtp_url
    notifier = Notifier(sessions, Settings(database_url=database, smtp_url=url, notify_period_s=0.02))

    notifier.start()
    try:
        until(lambda: the_delivery(sessions).error, what="the first try")
        first = the_delivery(sessions)
        with sessions.begin() as session:  # the pause passes at once
            pause_s = session.scalar(select(func.extract("epoch", WebhookDelivery.next_at - func.now())))
            session.execute(update(WebhookDelivery).values(next_at=func.now()))
        until(lambda: the_delivery(sessions).next_at is None, what="the delivery")
    finally:
        notifier.stop()
        notifier.join(120)
    assert (first.status_code, first.attempts) == (451, 1)
    assert (pause_s or 0) > 2  # longer than the first pause of other webhooks
    ((_, _, mail),) = server.mails
    assert (mail["Subject"], mail["Hora-Delivery"]) == ("chips cancelled", str(first.id))
