"""The operator's SMTP server, and the addresses to which mail may go."""

import pytest
from pydantic import ValidationError

from jobs.runtime.mail_addresses import MailRules, SmtpServer, mail_domains_from, recipient_of, smtp_server_from
from jobs.runtime.outbound_addresses import ForbiddenAddress
from jobs.runtime.settings import Settings, in_sentences

FROM = "?from=hora@example.org"
SERVER = smtp_server_from(f"smtp://mail.example.org{FROM}")


@pytest.mark.parametrize(
    ("url", "server"),
    [
        (f"smtp://mail.example.org{FROM}",
         SmtpServer("mail.example.org", 587, "starttls", None, None, "hora@example.org")),
        (f"smtp://ann:p%40ss%2F@mail.example.org:25{FROM}&starttls=required",
         SmtpServer("mail.example.org", 25, "starttls", "ann", "p@ss/", "hora@example.org")),
        (f"smtps://ann%40example.org:x@mail.example.org/{FROM}",
         SmtpServer("mail.example.org", 465, "tls", "ann@example.org", "x", "hora@example.org")),
        (f"smtp://127.0.0.1:1025{FROM}&starttls=never",
         SmtpServer("127.0.0.1", 1025, "none", None, None, "hora@example.org")),
        (f"smtp://a:b@localhost{FROM}&starttls=never",
         SmtpServer("localhost", 587, "none", "a", "b", "hora@example.org")),
    ],
)  # fmt: skip
def test_the_parts_of_a_server(url: str, server: SmtpServer) -> None:
    assert smtp_server_from(url) == server


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("mail.example.org", "smtp://USER"), (f"http://mail.example.org{FROM}", "smtp://USER"), ("smtp://", "smtp://USER"),
        (f"smtp://mail.example.org:x{FROM}", "smtp://USER"), (f"smtp://mail.example.org/inbox{FROM}", "smtp://USER"),
        ("smtp://mail.example.org", "name the sender"), ("smtp://mail.example.org?from=hora", "name the sender"),
        ("smtp://mail.example.org?from=a@b.org%0d%0aBcc:x@y.org", "name the sender"),
        ("smtp://mail.example.org?from=a@b.org,c@d.org", "name the sender"),
        (f"smtp://mail.example.org{FROM}&tls=yes", "no part 'tls'"),
        (f"smtp://mail.example.org{FROM}&from=a@b.org", "once"),
        (f"smtp://mail.example.org{FROM}&starttls=maybe", "required or never"),
        (f"smtps://mail.example.org{FROM}&starttls=required", "leave starttls out"),
        (f"smtp://ann@mail.example.org{FROM}", "USER:PASSWORD"), (f"smtp://:x@mail.example.org{FROM}", "USER:PASSWORD"),
        (f"smtp://ann:hush@mail.example.org{FROM}&starttls=never", "could read the password"),
    ],
)  # fmt: skip
def test_a_wrong_server_is_refused_at_the_start_without_its_password(url: str, why: str) -> None:
    with pytest.raises(ValidationError) as refused:
        Settings(smtp_url=url)
    sentence = in_sentences(refused.value)
    assert sentence.startswith("HORA_SMTP_URL: ")
    assert why in sentence
    assert "hush" not in sentence


def test_no_text_of_the_settings_has_the_password() -> None:
    config = Settings(smtp_url=f"smtps://ann:hush@mail.example.org{FROM}")
    assert "hush" not in f"{config} {config!r} {config.mail_rules} {config.mail_rules!r}"
    assert config.mail_rules.server is not None
    assert config.mail_rules.server.password == "hush"


def test_mail_goes_to_the_domain_of_the_sender_unless_the_operator_names_others() -> None:
    url = "mailto:Ann.B+jobs@Example.ORG"
    assert recipient_of(url, MailRules(SERVER)) == "Ann.B+jobs@Example.ORG"
    assert (
        recipient_of("mailto:a@other.net", MailRules(SERVER, mail_domains_from(" Other.net, x.org"))) == "a@other.net"
    )
    assert recipient_of("mailto:a@other.net", MailRules(SERVER, mail_domains_from("*"))) == "a@other.net"
    for rules in (MailRules(SERVER), MailRules(SERVER, mail_domains_from("example.net"))):
        with pytest.raises(ForbiddenAddress, match="HORA_MAIL_DOMAINS"):
            recipient_of("mailto:a@sub.example.net", rules)
    with pytest.raises(ForbiddenAddress, match="HORA_SMTP_URL"):
        recipient_of(url, MailRules())


@pytest.mark.parametrize("text", ["example", "@example.org", "a b.org", "*.example.org", "http://example.org"])
def test_a_wrong_domain_is_refused(text: str) -> None:
    with pytest.raises(ValidationError, match="write domains"):
        Settings(mail_domains=text)


@pytest.mark.parametrize(
    "url",
    [
        "mailto:", "mailto:ann", "mailto:@example.org", "mailto:ann@", "mailto:ann@example", "mailto:ann@example..org",
        "mailto:a@example.org,b@example.org", "mailto:a@example.org;b@example.org",
        "mailto:a@example.org b@example.org",
        "mailto:a@example.org?bcc=b@example.org", "mailto:a%0d%0aBcc:b@example.org", "mailto:a\r\nBcc: b@example.org",
        "mailto:a@example.org\n", "mailto:Ann <a@example.org>", 'mailto:"a b"@example.org', "mailto:a@[127.0.0.1]",
        "mailto:a@b@example.org", "mailto:a%b@example.org", "mailto:a!b@example.org", "mailto://a@example.org",
        "mailto:.a@example.org", "mailto:a.@example.org", "mailto:a..b@example.org", "mailto:ä@example.org",
        "mailto:" + "a" * 65 + "@example.org", "mailto:a@" + "b." * 130 + "example.org",
    ],
)  # fmt: skip
def test_only_one_plain_address_is_a_recipient(url: str) -> None:
    with pytest.raises(ForbiddenAddress, match="one plain address"):
        recipient_of(url, MailRules(SERVER, frozenset({"*"})))
