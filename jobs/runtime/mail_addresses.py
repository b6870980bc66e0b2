"""Where mail goes: the operator's SMTP server, and the addresses that webhooks may have. Pure.

`jobs.runtime.settings` reads the server, the api checks the address of a new webhook, and `worker.outward.mail` checks
it again at each try.
"""

import re
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Literal
from urllib.parse import parse_qsl, unquote, urlsplit

from jobs.runtime.outbound_addresses import ForbiddenAddress

# A plain address: no comment, no quotes, no route, and nothing that begins a second address, a header or a parameter.
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_ADDRESS = re.compile(
    rf"(?=.{{3,254}}\Z)(?P<local>[A-Za-z0-9_+-][A-Za-z0-9_+.'=-]{{0,63}})@(?P<domain>{_LABEL}(?:\.{_LABEL})+)"
)
_ANY = "*"
_PARTS = "write it as smtp://USER:PASSWORD@HOST:PORT?from=ADDRESS, or smtps://"


@dataclass(frozen=True)
class SmtpServer:
    """The server that takes the mail."""

    host: str
    port: int
    security: Literal["tls", "starttls", "none"]
    user: str | None
    password: str | None = field(repr=False)
    sender: str  # the address in From, and in the envelope


@dataclass(frozen=True)
class MailRules:
    """Whether mail is sent, and to which domains."""

    server: SmtpServer | None = None
    domains: frozenset[str] = frozenset()  # without any: that of the sender

    def may_reach(self, domain: str) -> bool:
        """Whether mail may go to addresses of this domain."""
        if self.server is None:
            return False
        return _ANY in self.domains or domain in (self.domains or {_domain_of(self.server.sender)})


def smtp_server_from(url: str) -> SmtpServer:
    """The server that the operator names. Raises `ValueError`, whose text does not have the password."""
    try:
        parts = urlsplit(url)
        port, options = parts.port, parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError:
        raise ValueError(_PARTS) from None
    if parts.scheme not in ("smtp", "smtps") or not parts.hostname or parts.path not in ("", "/") or parts.fragment:
        raise ValueError(_PARTS)
    given = dict(options)
    if unknown := sorted(given.keys() - {"from", "starttls"}):
        raise ValueError(f"there is no part {unknown[0]!r}: after ? stand from and starttls, with & between")
    if len(given) < len(options):
        raise ValueError("write each of from and starttls once")
    if not _ADDRESS.fullmatch(sender := given.get("from", "")):
        raise ValueError("name the sender: add ?from=hora@example.org")
    security = _security(parts.scheme, given.get("starttls"))
    user, password = (None if text is None else unquote(text) for text in (parts.username, parts.password))
    if (user is None) != (password is None) or user == "":
        raise ValueError("write USER:PASSWORD before the @, or neither; @ and / in them are %40 and %2F")
    if password is not None and security == "none" and not _is_loopback(parts.hostname):
        raise ValueError("others could read the password: use starttls=required, or smtps://")
    default_port = 465 if security == "tls" else 587
    return SmtpServer(parts.hostname, port or default_port, security, user, password, sender)


def _security(scheme: str, starttls: str | None) -> Literal["tls", "starttls", "none"]:
    if scheme == "smtps":
        if starttls is not None:
            raise ValueError("smtps:// uses TLS from the beginning: leave starttls out")
        return "tls"
    if starttls not in (None, "required", "never"):
        raise ValueError("starttls is required or never")
    return "none" if starttls == "never" else "starttls"


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:  # a name
        return host == "localhost"


def mail_domains_from(text: str) -> frozenset[str]:
    """The domains of the operator's list, or `*`. Raises `ValueError`."""
    domains = [part.strip().lower() for part in text.split(",") if part.strip()]
    for domain in domains:
        if domain != _ANY and not _ADDRESS.fullmatch(f"a@{domain}"):
            raise ValueError(f"write domains such as example.org, with commas between, or *, and not {domain!r}")
    return frozenset(domains)


def is_mail(url: str) -> bool:
    """Whether a webhook with this address gets mail."""
    return url.lower().startswith("mailto:")


def recipient_of(url: str, rules: MailRules) -> str:
    """The address in `mailto:ADDRESS`, if mail may go there. Raises `ForbiddenAddress`."""
    if rules.server is None:
        raise ForbiddenAddress("this service sends no mail: its operator has not set HORA_SMTP_URL")
    match = _ADDRESS.fullmatch(url[len("mailto:") :]) if is_mail(url) else None
    if match is None or ".." in match["local"] or match["local"].endswith("."):
        raise ForbiddenAddress("write it as mailto:person@example.org: one plain address and nothing after it")
    if not rules.may_reach(match["domain"].lower()):
        raise ForbiddenAddress(
            f"mail does not go to {match['domain'].lower()}: the operator can add it to HORA_MAIL_DOMAINS"
        )
    return match[0]


def _domain_of(address: str) -> str:
    return address.rpartition("@")[2].lower()
