"""Errors of pydantic as a person says them. Used by `jobs.model.problems` and `jobs.runtime.settings`. Pure."""

import json
import re
from collections.abc import Mapping
from typing import Any

from pydantic_core import ErrorDetails

from jobs.suggestions import meant

NAMES = "names"  # in the context of an error: what the value, or its field `name`, may be
ANY_KIND = {"constrained-float", "constrained-str", "[key]", "[text]", "[object]"}  # branches of a union, in a path
_WORDS_BY_TYPE = {
    "string_type": "must be a text",
    "dict_type": "must be an object with fields",
    "model_type": "must be an object with fields",
    "model_attributes_type": "must be an object with fields",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
}
# What a text may be, by the pattern that it has to match.
_WORDS_BY_PATTERN = {
    r"^[0-9a-f]{64}$": "must be a digest: 64 characters, each 0-9 or a-f",
    r"^[A-Za-z_][A-Za-z0-9_]*$": "must have letters, digits and _ only, and not begin with a digit",
    r"^[a-z0-9][a-z0-9-]*$": "must have small letters, digits and - only, and not begin with -",
    r"^[a-z0-9][a-z0-9._-]*$": "must have small letters, digits and ._- only, and begin with a letter or digit",
    r"^[A-Za-z0-9][A-Za-z0-9._/-]*$": "must have letters, digits and ._/- only, and begin with a letter or digit",
    r"^[A-Za-z0-9]([A-Za-z0-9 ._/()+-]*[A-Za-z0-9)+])?$": "must be a part of the name of a GPU, such as A100-SXM4-80GB",
    r"^[^\x00-\x1f\x7f-\x9f]+$": "must be one line of text, and not be empty",
    r"^[A-Za-z_][A-Za-z0-9_.]*(:[A-Za-z_][A-Za-z0-9_]*)?$": "must be the name of a network, or package.module:function",
    r"^[0-9a-z]{1,32}$": "must be an id: small letters and digits, such as 3k9v0t2m7x1q",
    r"^[^\x00-\x1f\x7f-\x9f]*$": "must be one line of text, without control characters",
    r"^[^\x00-\x1f\x7f-\x9f/\\]+$": "must be the name of a file, without a folder",
    r"^[\x20-\x7e]{1,255}$": "must have 1 to 255 letters, digits and signs of ASCII, without line breaks",
    r"^[A-Za-z0-9][A-Za-z0-9._@+-]*$": "must have letters, digits and ._@+- only, and begin with a letter or digit",
    r"^[A-Za-z0-9][A-Za-z0-9._-]*$": "must have letters, digits and ._- only, and begin with a letter or digit",
    r"^[A-Za-z0-9][A-Za-z0-9.:_-]*$": "must be an address or a name of a host",
    r"^[a-z_][a-z0-9_-]*$": "must be the name of a user: small letters, digits and _- only, and not begin with a digit",
    r"^[^\x00]*$": "must have no character NUL",
    r"^[^:]+:": "must be written as key:value",
    r"^https?://[^\s?#]+$": "must be a URL that begins with http:// or https:// and has no ? and no #",
}
_QUOTED = re.compile("'([^']*)'")
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_MOST_PROPOSED = 60  # characters of a text that is proposed as a list


def in_words(detail: ErrorDetails, more_patterns: Mapping[str, str] | None = None) -> str:
    """What is allowed in place of a wrong value, with the name that was probably meant."""
    kind, value, context = detail["type"], detail["input"], detail.get("ctx", {})
    if kind == "string_pattern_mismatch":
        pattern = context["pattern"]
        return (more_patterns or {}).get(pattern) or _WORDS_BY_PATTERN.get(pattern) or detail["msg"]
    if kind in ("literal_error", "enum"):
        expected: str = context["expected"]
        return "must be " + expected + meant(value, _QUOTED.findall(expected), "'")
    if kind not in _WORDS_BY_TYPE:
        message = detail["msg"].removeprefix("Value error, ").replace(" after validation", "")
        given = value.get("name") if isinstance(value, dict) else value
        return message + meant(given, context.get(NAMES, ()), "'")
    is_one_of_several = not ANY_KIND.isdisjoint(detail["loc"])  # another branch may take the value
    return _WORDS_BY_TYPE[kind] + ("" if is_one_of_several else _hint(kind, value))


def _hint(kind: str, value: Any) -> str:
    """How to write a value that has the wrong type but was probably meant."""
    is_text = isinstance(value, str)
    if kind == "string_type" and isinstance(value, bool | int | float):
        return f': write it in quotes, "{shortened(value)}"'
    if kind.startswith(("int_", "float_")) and is_text and _NUMBER.fullmatch(value):
        return ", without quotes"
    if kind == "list_type" and is_text and value.split() and len(value) <= _MOST_PROPOSED:
        return f", such as {json.dumps(value.split(), ensure_ascii=False)}"
    return ""


def shortened(value: object, limit: int = 80) -> str:
    """A value as text, cut to a length."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= limit else text[: limit - 1] + "…"
