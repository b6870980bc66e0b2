"""Figures, times and foreign text as a person reads them. Pure; used by all that the command line prints."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime

# Characters that control a terminal, reorder other text, begin a line, or cannot be printed. A tab is harmless.
_UNPRINTABLE = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def plain(value: object) -> str:
    r"""Text from elsewhere, with unreadable characters shown as codes: `\x1b`, `\u202e`."""
    return _UNPRINTABLE.sub(lambda found: _code(ord(found[0])), str(value))


def plain_lines(value: object) -> str:
    """The same for a text of several lines."""
    return "\n".join(map(plain, str(value).split("\n")))


def _code(character: int) -> str:
    return f"\\x{character:02x}" if character < 0x100 else f"\\u{character:04x}"


def inside(sentence: str) -> str:
    """A sentence as it stands after a colon: with a small first letter, except in a name in capitals."""
    return sentence[:1].lower() + sentence[1:] if sentence[1:2].islower() or sentence[1:2] == " " else sentence


def number(value: float | None, digits: int = 4) -> str:
    """A figure for a person; a dash for none."""
    return "-" if value is None else f"{value:.{digits}f}"


def heading(name: str, *, figures: bool = False) -> str:
    """The head of the column for a field or a metric."""
    return plain(name).upper().replace("_", " ") + (">" if figures else "")


def count(value: float | None) -> str:
    """A large figure, with a comma between thousands."""
    return "-" if value is None else f"{value:,.0f}"


def amount(value: float) -> str:
    """A figure of any size with three digits: 0.00512, 12.3, 1,235."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def gigabytes(value: float) -> str:
    """Bytes in GB of 10^9."""
    return f"{value / 1e9:.1f} GB"


def percent(share: float) -> str:
    """A share of 0 to 1 as a person reads it."""
    return f"{100 * share:.0f} %"


def duration(seconds: float | None) -> str:
    """Seconds as a person says them: 4.2 s, 3 min 05 s, 2 h 07 min."""
    if seconds is None:
        return "-"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def clock(time_text: str, now: datetime | None = None) -> str:
    """A time of the API: 14:02 UTC, with the date if that is on another day."""
    at = datetime.fromisoformat(time_text).astimezone(UTC)
    is_today = at.date() == (now or datetime.now(UTC)).date()
    return f"{at:%H:%M} UTC" if is_today else f"{at:%Y-%m-%d %H:%M} UTC"


def ago(time_text: str | None, now: datetime | None = None) -> str:
    """How long ago a time of the API was."""
    if time_text is None:
        return "-"
    passed = (now or datetime.now(UTC)) - datetime.fromisoformat(time_text)
    return f"{duration(max(passed.total_seconds(), 0))} ago"


def ordinal(position: int) -> str:
    """A position as a person says it: 1st, 2nd, 3rd, 4th, 11th, 21st."""
    ending = "th" if 10 <= position % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(position % 10, "th")
    return f"{position}{ending}"


def ranges(numbers: Sequence[int]) -> str:
    """Sorted whole numbers, with consecutive ones joined: 0-3 5."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return " ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
