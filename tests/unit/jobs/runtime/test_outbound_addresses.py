"""Where webhooks and mail may go: checks of URLs, of the addresses to which they resolve, and of recipients."""

from ipaddress import ip_address

import pytest
from pydantic import ValidationError

from jobs.runtime.mail_addresses import MailRules, SmtpServer, mail_domains_from, recipient_of, smtp_server_from
from jobs.runtime.outbound_addresses import Allowed, ForbiddenAddress, Target, allowed_from, check_address, target_of
from jobs.runtime.settings import Settings, in_sentences

NOBODY = Allowed()


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("https://ci.example.com/hooks?a=b", Target("https", "ci.example.com", 443, "/hooks?a=b")),
        ("https://CI.Example.com", Target("https", "ci.example.com", 443, "/")),
        ("https://example.com.:8443/", Target("https", "example.com", 8443, "/")),
        ("https://8.8.8.8/x", Target("https", "8.8.8.8", 443, "/x")),
        ("https://[2606:4700::1111]:8443/x", Target("https", "2606:4700::1111", 8443, "/x")),
        ("https://example.com?x=%20", Target("https", "example.com", 443, "/?x=%20")),
    ],
)
def test_public_url_is_parsed_into_its_target(url: str, target: Target) -> None:
    assert target_of(url, NOBODY) == target


METADATA = [
    "169.254.169.254", "0xa9.0xfe.0xa9.0xfe", "0251.254.169.0xfe", "[::ffff:169.254.169.254]",
    "[0:0:0:0:0:ffff:a9fe:a9fe]", "[::169.254.169.254]", "[::ffff:0:169.254.169.254]", "[64:ff9b::a9fe:a9fe]",
    "[64:ff9b:1::a9fe:a9fe]", "[2002:a9fe:a9fe::1]", "[2001:0:1::5601:5601]", "[fd00:ec2::254]", "100.100.100.200",
    "168.63.129.16", "192.0.0.192",
]  # fmt: skip
INSIDE = [
    "127.0.0.1", "127.1", "2130706433", "0x7f000001", "017700000001", "127.0.0.1.", "0", "10.0.0.1", "10.1",
    "0.0.0.0",  # noqa: S104 - nothing listens here
    "172.16.0.1", "192.168.0.1", "192.168.257", "100.64.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255",
    "198.18.0.1", "192.0.2.1", "192.88.99.1",
    "[::1]", "[::]", "[fe80::1]", "[fec0::1]", "[fc00::1]", "[ff02::1]", "[::ffff:127.0.0.1]", "[::127.0.0.1]",
    "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[2001::1]", "[2001:db8::1]", "[3fff::1]", "[100::1]", "[4000::1]",
    "localhost", "LOCALHOST", "a.localhost", "db", "db.internal", "metadata.google.internal", "printer.local",
]  # fmt: skip


@pytest.mark.parametrize("host", METADATA + INSIDE)
def test_every_spelling_of_an_internal_host_is_refused(host: str) -> None:
    with pytest.raises(ForbiddenAddress):
        target_of(f"https://{host}/latest", NOBODY)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.com/", "https:/example.com", "https://user:password@example.com/",
        "https://example.com@127.0.0.1/", "https://example.com\\@127.0.0.1/", "https://example.com/#fragment",
        "https://example.com/a b", "https://example.com/a\nb", " https://example.com/", "https://exämple.com/",
        "https://１２７.0.0.1/",  # noqa: RUF001 - some parsers read it as 127
        "https://127。0。0。1/", "https://%31%32%37.0.0.1/", "https://[::1%25eth0]/", "https://example..com/",
        "https://1.2.3.4.5/", "https://256.1.1.1/", "https://08.1.1.1/", "https://example.0x/",
        "https://example.com:0/", "https://example.com:22/", "https://example.com:65536/", "https://example.com:/",
        "https://", "http://example.com/", "https://example.com/" + 2000 * "x",
    ],
)  # fmt: skip
def test_url_that_is_not_plain_https_is_refused(url: str) -> None:
    with pytest.raises(ForbiddenAddress):
        target_of(url, NOBODY)


def test_an_operator_may_allow_hosts_and_networks() -> None:
    allowed = allowed_from(" ci.internal, 10.1.0.0/16,127.0.0.1 , fd00::/8 ")
    for url in (
        "http://ci.internal/x", "https://CI.internal:22/", "http://10.1.2.3:80/", "http://127.1:8000/",
        "http://2130706433:8000/", "https://[fd00::1]/",
    ):  # fmt: skip
        target_of(url, allowed)
    for url in (
        "http://other.internal/", "https://x.ci.internal/", "http://10.2.0.1/", "http://127.0.0.2/",
        "https://[::ffff:10.1.2.3]/", "http://example.com/",
    ):  # fmt: skip
        with pytest.raises(ForbiddenAddress):
            target_of(url, allowed)
    assert allowed_from("") == NOBODY


@pytest.mark.parametrize("text", ["10.0.0.1/8", "http://x", "a b", "1.2.3", "*.example.com", "example.com:443"])
def test_malformed_allow_list_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write host names"):
        allowed_from(text)


@pytest.mark.parametrize(
    "text",
    ["127.0.0.1", "169.254.169.254", "::1", "fe80::1%eth0", "2606:4700::1111%eth0", "::ffff:8.8.8.8", "2002:808:808::"],
)
def test_forbidden_resolved_address_is_refused_without_naming_it(text: str) -> None:
    for public in ("8.8.8.8", "2606:4700::1111"):
        check_address(ip_address(public), NOBODY)
    with pytest.raises(ForbiddenAddress) as refused:
        check_address(ip_address(text), NOBODY)
    assert text not in str(refused.value)


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
    assert config.mail_rules.server.password == "hush"


def test_mail_goes_to_the_domain_of_the_sender_unless_the_operator_names_others() -> None:
    url = "mailto:Ann.B+jobs@Example.ORG"
    assert recipient_of(url, MailRules(SERVER)) == "Ann.B+jobs@Example.ORG"
    for domains in (" Other.net, x.org", "*"):
        assert recipient_of("mailto:a@other.net", MailRules(SERVER, mail_domains_from(domains))) == "a@other.net"
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
