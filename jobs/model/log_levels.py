"""How serious a line of a log is, read from its text. Pure; used by the intake, and by whoever filters lines.

Ranks print as their libraries and their people like. These forms are known: Python's `logging` and `warnings`, loguru,
tracebacks, JSON and logfmt with a `level`, glog and TensorFlow, and lines that begin with `warning:` or `error:`. Any
other line is `info`.
"""

import re
from enum import StrEnum


class LogLevel(StrEnum):
    """From the least to the most serious one."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"

    @property
    def number(self) -> int:
        """As in Python's `logging`."""
        return _NUMBERS[self]

    @classmethod
    def from_stored(cls, value: "int | str") -> "LogLevel":
        """The level with this number or name. Raises `ValueError`."""
        return _BY_NUMBER[value] if isinstance(value, int) else cls(value)


_NUMBERS = {LogLevel.DEBUG: 10, LogLevel.INFO: 20, LogLevel.WARNING: 30, LogLevel.ERROR: 40}
_BY_NUMBER = {number: level for level, number in _NUMBERS.items()}
_LEVELS = {
    "DEBUG": LogLevel.DEBUG, "TRACE": LogLevel.DEBUG, "INFO": LogLevel.INFO, "I": LogLevel.INFO,
    "WARN": LogLevel.WARNING, "WARNING": LogLevel.WARNING, "W": LogLevel.WARNING, "ERROR": LogLevel.ERROR,
    "E": LogLevel.ERROR, "CRITICAL": LogLevel.ERROR, "FATAL": LogLevel.ERROR, "F": LogLevel.ERROR,
}  # fmt: skip
_WORD = "(TRACE|DEBUG|INFO|WARN|WARNING|ERROR|CRITICAL|FATAL)"
_TIME = r"[\[(]?\d[\d:.,/TZ+ -]{4,40}[\])]?"
_NAMED = re.compile(
    rf"[\[(<| ]*(?:{_TIME}[\[(<|: -]*)?{_WORD}\b"  # at the start, or after a time
    rf"|.{{0,100}}? (?:-|\||:) ?\[?{_WORD}\]? *(?:-|\||:)[ ]"  # in the middle, between dashes, bars or colons
    rf"|(?i:{_WORD}):"  # `warning: text`
    rf"|.{{0,200}}?\blevel(?:name)?\"?[=:] ?\"?(?i:{_WORD})\b"  # JSON and logfmt
    r"|([IWEF])\d{4} \d\d:\d\d"  # glog
    rf"|{_TIME}: ([IWEF]) "  # TensorFlow
)
_LONGEST = 320  # characters that are looked at
_TRACEBACK = "Traceback (most recent call last):"
_LINKS = ("The above exception was the direct", "During handling of the above")  # between two tracebacks
_RAISED = re.compile(r"(?:\w+\.)*\w*(?:Error|Exception|Interrupt|Exit)(?:: |$)")
_WARNED = re.compile(r".{0,200}?\b\w*Warning: ")


class LevelReader:
    """Reads the lines of one rank, which come one after the other: those of a traceback belong together."""

    def __init__(self) -> None:
        self._in_traceback = False

    def level_of(self, line: str) -> LogLevel:
        """The level of the next line."""
        text = line[:_LONGEST]
        if self._in_traceback:
            self._in_traceback = not text or text[0] == " "
            return LogLevel.ERROR
        if _TRACEBACK in text:
            self._in_traceback = True
            return LogLevel.ERROR
        if named := _NAMED.match(text):
            return _LEVELS[next(filter(None, named.groups())).upper()]
        if _RAISED.match(text) or text.startswith(_LINKS):
            return LogLevel.ERROR
        return LogLevel.WARNING if _WARNED.match(text) else LogLevel.INFO
