"""The pipe through which a script tells its rank something, one JSON object on a line.

A script may write anything into it. What is no message of the known kinds, with the known fields, is left out, and the
log says so once.
"""

import json
import math
import os
import re
import select
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Message = dict[str, Any]

_METRIC_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:/@-]{0,63}")  # as `jobs.model.goals.METRIC_NAME`
_SURROGATE = re.compile("[\ud800-\udfff]")
_LEVELS = ("info", "warning", "error")  # as `jobs.model.alerts`, which a script does not wait for
_LONGEST_PHASE = 60  # `_s` behind it makes the name of a metric
_MOST_METRICS = 256
_MOST_COUNT = 2**31
_READ_BYTES = 64 * 1024
_LONGEST_LINE = 8192


class Channel:
    """The reading end of a new named pipe. The writing end is held open too, so that it never ends."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path, 0o600)
        self.descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._rest = b""
        self._warned = False

    def has_content(self) -> bool:
        """Whether there is something to read."""
        return bool(select.select([self.descriptor], [], [], 0)[0])

    def messages(self) -> Iterator[Message]:
        """The messages that have come, as far as one read takes them."""
        try:
            content = os.read(self.descriptor, _READ_BYTES)
        except BlockingIOError:
            return
        *lines, self._rest = (self._rest + content).split(b"\n")
        if len(self._rest) > _LONGEST_LINE:
            self._rest = b""
        for line in lines:
            message = checked(line)
            if message is not None:
                yield message
            elif not self._warned:
                self._warned = True
                print(f"warning: a message of the script is left out, because it is wrong: {line[:200]!r}", flush=True)


def checked(line: bytes) -> Message | None:
    """The message on a line. None if it is not of a known kind, or has a wrong field."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict) or not isinstance(message.get("kind"), str):
        return None
    fields = _FIELDS.get(message["kind"])
    if fields is None or not message.keys() <= {"kind", *fields}:
        return None
    are_right = all(is_right(message[name]) for name, is_right in fields.items() if name in message)
    return message if are_right and _REQUIRED[message["kind"]] <= message.keys() else None


def _is_time(value: object) -> bool:
    return _is_finite(value) and 0 <= value < 253_402_300_800  # type: ignore[operator]


def _is_finite(value: object) -> bool:
    if isinstance(value, int):  # `math.isfinite` cannot take a huge one
        return not isinstance(value, bool)
    return isinstance(value, float) and math.isfinite(value)


def _is_duration(value: object) -> bool:
    return _is_finite(value) and 0 <= value < 1e9  # type: ignore[operator]


def _is_amount(value: object) -> bool:
    return _is_finite(value) and 0 <= value < 2**63  # type: ignore[operator]


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST_COUNT


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, float)  # also NaN


def _is_name(value: object) -> bool:
    return isinstance(value, str) and _METRIC_NAME.fullmatch(value) is not None


def _is_text(longest: int, shortest: int = 0) -> Callable[[object], bool]:
    """Whether a value is a text of this length that can be written as UTF-8."""

    def check(value: object) -> bool:
        return isinstance(value, str) and shortest <= len(value) <= longest and not _SURROGATE.search(value)

    return check


def _is_level(value: object) -> bool:
    return isinstance(value, str) and value in _LEVELS


def _is_phase(value: object) -> bool:
    return isinstance(value, str) and len(value) <= _LONGEST_PHASE and _is_name(value)


def _are_metrics(value: object) -> bool:
    """Numbers by name. A diverged loss is NaN, and a number all the same."""
    return (
        isinstance(value, dict)
        and len(value) <= _MOST_METRICS
        and all(_is_name(name) and isinstance(number, float) for name, number in value.items())
    )


def _are_phases(value: object) -> bool:
    return (
        isinstance(value, dict)
        and len(value) <= _MOST_METRICS
        and all(_is_phase(name) and _is_duration(seconds) for name, seconds in value.items())
    )


_FIELDS: dict[str, dict[str, Callable[[object], bool]]] = {
    "report": {"at": _is_time, "step": _is_count, "epoch": _is_count, "metrics": _are_metrics, "phases": _are_phases},
    "progress": {"at": _is_time, "done": _is_amount, "total": _is_amount},
    "phase": {"at": _is_time, "name": _is_phase, "duration_s": _is_duration},
    "checkpoint": {"at": _is_time, "step": _is_count, "duration_s": _is_duration},
    "resumed": {"at": _is_time, "step": _is_count},
    "alert": {
        "at": _is_time,
        "level": _is_level,
        "title": _is_text(100, shortest=1),
        "text": _is_text(1000),
        "wait_s": _is_duration,
    },
    "weights": {
        "at": _is_time,
        "optimizer": _is_count,
        "step": _is_count,
        "size": _is_amount,
        "averages": _is_flag,
        "total": _is_number,
        "norm": _is_number,
    },
}
_REQUIRED = {
    "report": {"at", "metrics"},
    "progress": {"at", "done"},
    "phase": {"at", "name", "duration_s"},
    "checkpoint": {"at", "step", "duration_s"},
    "resumed": {"at", "step"},
    "alert": {"at", "level", "title"},
    "weights": {"at", "optimizer", "step", "size", "averages", "total", "norm"},
}
