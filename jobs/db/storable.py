"""Make values storable in PostgreSQL. Used wherever JSON or text from ranks and people is written."""

import math
from typing import Any


def storable(values: dict[str, Any]) -> dict[str, Any]:
    """The values, without anything that PostgreSQL cannot hold.

    JSON has no NaN and no infinity, but a diverged loss may be either: they become null. A text cannot contain NUL, but
    the last output of a dying rank may: it becomes U+FFFD.
    """
    return {key: _storable_value(value) for key, value in values.items()}


def _storable_value(value: Any) -> Any:
    if isinstance(value, dict):
        return storable(value)
    if isinstance(value, list):
        return [_storable_value(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, str) and "\x00" in value:
        return value.replace("\x00", "\ufffd")
    return value
