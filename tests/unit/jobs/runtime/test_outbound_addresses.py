"""Where webhooks may point: checks of the URL and of the address to which it resolves."""

from ipaddress import ip_address

import pytest

from jobs.runtime.outbound_addresses import Allowed, ForbiddenAddress, Target, allowed_from, check_address, target_of

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
