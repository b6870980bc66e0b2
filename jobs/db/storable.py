"""Values as PostgreSQL can hold them. Used by whoever writes JSON or text that came from ranks and people."""

import math
from typing import Any


def storable(values: dict[str, Any]) -> dict[str, Any]:
    """The values as PostgreSQL can hold them.

    JSON has no NaN and no infinity, and a diverged loss is both: they are stored as null. No text there has a NUL,
    and what a dying rank says may have one.
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
