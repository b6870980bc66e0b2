"""Checks the addresses of webhooks: they must be outside the service's network, unless the operator allows it. Pure.

The api checks the text of an address when it is registered. `worker.outward.http` checks the addresses to which its
name resolves, each time it sends something.

    ForbiddenAddress    nothing is sent there
"""

import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

MAX_URL = 2000
# Without user, backslash, space and fragment, all readers understand an address in the same way.
_URL = re.compile(
    r"(?P<scheme>https?)://(?P<host>[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<target>[/?][!\"$-;=?-\[\]_a-z|~]*)?"
)
_NUMBER = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*")
_MAY_BE_ALLOWED = "; the operator may allow it in HORA_WEBHOOK_ALLOW"
_TO_THE_INTERNET = ": webhooks go to the internet" + _MAY_BE_ALLOWED
_INSIDE = ("localhost", "local", "internal", "intranet", "lan", "home", "corp", "localdomain")
# The registries, or older copies of them, call these global. Still they are not on the internet: they contain an IPv4
# address, or a provider's own machine answers there.
_TRANSITIONAL: tuple[Network, ...] = tuple(
    ip_network(text)
    for text in (
        "::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "2001::/23", "2002::/16",
        "3fff::/20", "192.0.0.0/24", "192.88.99.0/24", "168.63.129.16/32",
    )
)  # fmt: skip
_IPV6_INTERNET = ip_network("2000::/3")


class ForbiddenAddress(ValueError):
    """Nothing is sent to this address. The text says why, without the address."""


@dataclass(frozen=True)
class Allowed:
    """Hosts and networks outside the internet to which the operator lets webhooks point."""

    hosts: frozenset[str] = frozenset()
    networks: tuple[Network, ...] = ()

    def has_host(self, host: str) -> bool:
        """Whether the name, or the literal address, is in the list itself."""
        literal = literal_address(host)
        return host in self.hosts or (literal is not None and self.has_address(literal))

    def has_address(self, address: Address) -> bool:
        """Whether the address lies in one of the networks."""
        return any(address.version == network.version and address in network for network in self.networks)


@dataclass(frozen=True)
class Target:
    """The parts of an address to which a webhook may point."""

    scheme: str
    host: str  # in small letters; an IPv6 address without its brackets
    port: int
    target: str  # path and query


def allowed_from(text: str) -> Allowed:
    """The operator's list: host names, addresses and networks, separated by commas. Raises `ValueError`."""
    hosts, networks = set[str](), list[Network]()
    for part in filter(None, (part.strip().lower() for part in text.split(","))):
        try:
            networks.append(ip_network(part))
        except ValueError:
            if not re.fullmatch(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", part) or _ends_in_number(part):
                raise ValueError(f"write host names, addresses and networks, and not {part!r}") from None
            hosts.add(part)
    return Allowed(frozenset(hosts), tuple(networks))


def target_of(url: str, allowed: Allowed) -> Target:
    """The parts of a webhook's address, checked by its text alone. Raises `ForbiddenAddress`."""
    match = _URL.fullmatch(url) if len(url) <= MAX_URL else None
    if match is None:
        raise ForbiddenAddress(
            "write it as https://HOST/PATH, in plain ASCII: no user, no fragment, at most 2,000 characters"
        )
    host = match["host"].lower().strip("[]").removesuffix(".")
    port = int(match["port"] or {"https": 443, "http": 80}[match["scheme"]])
    path = match["target"] or "/"
    target = Target(match["scheme"], host, port, path if path.startswith("/") else f"/{path}")
    is_allowed = allowed.has_host(host)
    if target.scheme == "http" and not is_allowed:
        raise ForbiddenAddress("use https: others can read and change what is sent over http" + _MAY_BE_ALLOWED)
    if not 0 < port <= 65535 or (port < 1024 and port not in (80, 443) and not is_allowed):
        raise ForbiddenAddress("use port 80, 443, or one from 1024 to 65535" + _MAY_BE_ALLOWED)
    if not is_allowed:
        _refuse_host(host, allowed)
    return target


def _refuse_host(host: str, allowed: Allowed) -> None:
    literal = literal_address(host)
    if literal is not None:
        check_address(literal, allowed)
    elif ":" in host or _ends_in_number(host) or not all(host.split(".")):
        raise ForbiddenAddress("this is not the name of a host")
    elif host.rpartition(".")[2] in _INSIDE or "." not in host:
        raise ForbiddenAddress("this name is inside a private network" + _TO_THE_INTERNET)


def _ends_in_number(host: str) -> bool:
    """Whether a reader may take the name for an IPv4 address: https://url.spec.whatwg.org/#ends-in-a-number-checker."""
    return _NUMBER.fullmatch(host.rpartition(".")[2]) is not None


def literal_address(host: str) -> Address | None:
    """The address that a host's text is, in any spelling that a resolver accepts. None for a name."""
    try:
        return ip_address(host)
    except ValueError:
        pass
    if not _ends_in_number(host):
        return None
    try:
        return IPv4Address(socket.inet_aton(host))  # also as one number, in hex or octal, and with parts left out
    except OSError:
        return None


def check_address(address: Address, allowed: Allowed) -> None:
    """Raises `ForbiddenAddress` unless the address is on the internet, or the operator allows it."""
    if allowed.has_address(address):
        return
    is_inside = not address.is_global or address.is_multicast or address.is_reserved or address.is_unspecified
    is_transitional = any(address.version == network.version and address in network for network in _TRANSITIONAL)
    is_unknown = isinstance(address, IPv6Address) and (address not in _IPV6_INTERNET or address.scope_id is not None)
    if is_inside or is_transitional or is_unknown:
        raise ForbiddenAddress("this address is inside a private network" + _TO_THE_INTERNET)


def checked(addresses: Sequence[Address], allowed: Allowed) -> Sequence[Address]:
    """The addresses of a name, if every one of them is allowed. Raises `ForbiddenAddress`."""
    for address in addresses:
        check_address(address, allowed)
    return addresses
