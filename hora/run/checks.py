"""Checks of what a script passes: numbers, names and texts. All raise `TypeError` or `ValueError`."""

from __future__ import annotations

import operator
import re
from typing import Any

METRIC_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:/@-]{0,63}")
_known_names: set[str] = set()


def count(name: str, value: Any) -> int:
    """A whole number that is not negative."""
    try:
        whole = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be a whole number, not {value!r}") from None
    if not 0 <= whole < 2**31:
        raise ValueError(f"{name} must be from 0 to 2147483647, not {whole}")
    return whole


def number(name: str, value: Any, for_texts: str = "") -> float:
    """A number of Python, NumPy, TensorFlow or PyTorch, as a float. `for_texts` ends the message about a text."""
    if type(value) is float:
        return value
    if isinstance(value, (str, bytes)):
        raise TypeError(f"{name} must be a number, not the text {value!r:.60}{for_texts}")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{name} must be a number that a float can hold, not {value!r:.60}") from None
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a number, not {type(value).__name__} {value!r:.60}") from None


def amount(name: str, value: Any) -> float:
    """A number that is not negative and not infinite."""
    given = number(name, value)
    if not 0 <= given < 2**63:
        raise ValueError(f"{name} must be from 0 to 2**63, not {given!r}")
    return given


def metric_name(name: str) -> str:
    """The name, if a metric can have it."""
    if name not in _known_names:
        if not METRIC_NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name of a metric: letters, digits and _.:/@-, at most 64 characters")
        _known_names.add(name)
    return name


def text(name: str, value: Any) -> str:
    """A text, which may be empty."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a text, not {type(value).__name__} {value!r:.60}")
    return value
