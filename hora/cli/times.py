"""Times as people write them on the command line. Used by its commands."""

import re
from datetime import UTC, datetime, timedelta

import typer

WHEN = "2h, 7d, 2030-01-31, or a time in RFC 3339"
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def moment(option: str, text: str | None, now: datetime | None = None) -> str | None:
    """The value of an option as a time in RFC 3339. `2h` means two hours ago.

    A time without a zone is in this machine's zone.
    """
    if text is None:
        return None
    try:
        if ago := re.fullmatch(r"([0-9]{1,6})([smhdw])", text):
            at = (now or datetime.now(UTC)) - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        else:
            at = datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        raise typer.BadParameter(f"{text!r} is not a time; write {WHEN}", param_hint=option) from None
    return at.isoformat().replace("+00:00", "Z")
