"""The network of a caller's address: the unit that limits count by. Used by the rate limits and by the server."""

from ipaddress import ip_address


def network_of(address: str | None) -> str:
    """The address; for IPv6 its network, because a host can have any number of addresses in it."""
    try:
        parsed = ip_address(address or "")
    except ValueError:
        return address or ""
    if parsed.version == 6 and parsed.ipv4_mapped is None:
        return str(parsed.packed[:8].hex())
    return str(parsed)
