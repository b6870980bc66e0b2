"""Which service the command line talks to, and with which token.

`HORA_URL` and `HORA_TOKEN`, else what the stack on this machine wrote below `HORA_HOME`.
"""

import os
from pathlib import Path

from hora.service import HoraError, Service


def connect() -> Service:
    """A client of the service that this person means. Raises `HoraError`."""
    url, token = os.environ.get("HORA_URL"), os.environ.get("HORA_TOKEN")
    if url and token:
        return Service(url, token)
    home = home_path()
    local = _line_of(home / "url")
    if url is None and local is None:
        raise HoraError(f"No stack runs in {home}. Start one with `hora up -d`, or set HORA_URL and HORA_TOKEN.")
    # The local admin token goes to the local stack and nowhere else.
    if token is None and url in (None, local):
        token = _line_of(home / "token")
    return Service(url or local or "", token)


def home_path() -> Path:
    """The home of the stack on this machine."""
    from jobs.settings import default_home

    home = os.environ.get("HORA_HOME")
    return Path(home).expanduser() if home else default_home()


def _line_of(path: Path) -> str | None:
    try:
        return path.read_text().strip() or None
    except FileNotFoundError:
        return None
    except OSError as error:
        raise HoraError(f"{path} cannot be read ({error.strerror}); set HORA_URL and HORA_TOKEN.") from error
