"""What can be the address of a service, and a token. Used by `hora.config` and by `hora.service`."""

import re

from hora.errors import HoraError

_URL = re.compile(r"https?://[^\s/?#@]+(/[^\s?#@]*)?", re.IGNORECASE)
_TOKEN = re.compile(r"[!-~]+")


def require_address(url: str) -> None:
    """Raises `HoraError` if the text is no address of a service."""
    if not _URL.fullmatch(url):
        raise HoraError(f"{url} is not the address of a service. Write http:// or https://, a host, and maybe a path.")


def require_token(token: str) -> None:
    """Raises `HoraError` if the text, which it does not repeat, is no token."""
    if not _TOKEN.fullmatch(token):
        raise HoraError("That is not a token. A token is printable ASCII without blanks.")
