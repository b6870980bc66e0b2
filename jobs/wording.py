"""Errors of pydantic as a person says them. Used by `jobs.model.problems` and `jobs.runtime.settings`. Pure."""

import json
import re
from collections.abc import Mapping, Sized
from typing import Any

from pydantic_core import ErrorDetails

from jobs.suggestions import meant

NAMES = "names"  # in the context of an error: what the value, or its field `name`, may be
ANY_KIND = {"constrained-float", "constrained-str", "[key]", "[text]", "[object]"}  # branches of a union, in a path
_OBJECT, _LIST, _WHOLE = "must be an object with fields", "must be a list", "must be a whole number"
_TIME, _DATE = "must be a time, such as 2026-11-27T15:00:00Z", "must be a date, such as 2026-11-27"
_WORDS_BY_TYPE = {
    "missing": "is required",
    "none_required": "must be null",
    "string_type": "must be a text",
    "string_unicode": "must be a text in UTF-8",
    "bytes_type": "must be a text",
    "dict_type": _OBJECT,
    "mapping_type": _OBJECT,
    "model_type": _OBJECT,
    "model_attributes_type": _OBJECT,
    "dataclass_type": _OBJECT,
    "list_type": _LIST,
    "tuple_type": _LIST,
    "set_type": _LIST,
    "frozen_set_type": _LIST,
    "int_type": _WHOLE,
    "int_parsing": _WHOLE,
    "int_from_float": _WHOLE,
    "int_parsing_size": "must be a whole number with fewer digits",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "finite_number": "must be a finite number",
    "datetime_type": _TIME,
    "datetime_parsing": _TIME,
    "datetime_from_date_parsing": _TIME,
    "datetime_object_invalid": _TIME,
    "timezone_aware": "must have a time zone, such as 2026-11-27T15:00:00Z",
    "date_type": _DATE,
    "date_parsing": _DATE,
    "date_from_datetime_parsing": _DATE,
    "date_from_datetime_inexact": _DATE,
}
# What a number has to be: the name of its limit in the context of the error, and the words before that limit.
_WORDS_BY_LIMIT = {
    "greater_than": ("gt", "must be greater than"),
    "greater_than_equal": ("ge", "must be at least"),
    "less_than": ("lt", "must be less than"),
    "less_than_equal": ("le", "must be at most"),
    "multiple_of": ("multiple_of", "must be a multiple of"),
}
# The least or greatest length of a text or a list.
_WORDS_BY_LENGTH = {
    "string_too_short": ("min_length", "must have at least"),
    "string_too_long": ("max_length", "must have at most"),
    "bytes_too_short": ("min_length", "must have at least"),
    "bytes_too_long": ("max_length", "must have at most"),
    "too_short": ("min_length", "must have at least"),
    "too_long": ("max_length", "must have at most"),
}
_CHOICES = ("literal_error", "enum")
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
    r"^job:[0-9a-z]{1,32}(@[0-9]{1,6})?$": "must be job:ID, or job:ID@EPOCH for the checkpoint of an epoch",
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


def in_words(
    detail: ErrorDetails, more_patterns: Mapping[str, str] | None = None, *, with_proposal: bool = True
) -> str:
    """What is allowed in place of a wrong value; `with_proposal`, the name that was probably meant too."""
    kind, value, context = detail["type"], detail["input"], detail.get("ctx", {})
    sentence = _of_context(kind, value, context)
    if kind == "string_pattern_mismatch":
        sentence = (more_patterns or {}).get(context["pattern"]) or _WORDS_BY_PATTERN.get(context["pattern"])
    if sentence is None and kind in _WORDS_BY_TYPE:
        is_one_of_several = not ANY_KIND.isdisjoint(detail["loc"])  # another branch may take the value
        sentence = _WORDS_BY_TYPE[kind] + ("" if is_one_of_several else _hint(kind, value))
    if sentence is None:
        sentence = detail["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
    names = _QUOTED.findall(context["expected"]) if kind in _CHOICES else context.get(NAMES, ())
    given = value.get("name") if isinstance(value, dict) else value
    return sentence + (meant(given, names, "'") if with_proposal else "")


def _of_context(kind: str, value: Any, context: Mapping[str, Any]) -> str | None:
    """The words with what the error says beside its kind: a limit, a length, the allowed values."""
    if kind in _WORDS_BY_LIMIT:
        limit, words = _WORDS_BY_LIMIT[kind]
        return f"{words} {_plain(context[limit])}"
    if kind in _WORDS_BY_LENGTH:
        return _of_length(kind, value, context)
    if kind in _CHOICES:
        return f"must be {context['expected']}"
    return f"Invalid JSON: {context['error']}" if kind == "json_invalid" else None


def _of_length(kind: str, value: Any, context: Mapping[str, Any]) -> str:
    """How long a text or a list has to be, and how long it is."""
    limit, words = _WORDS_BY_LENGTH[kind]
    is_text = kind.startswith(("string", "bytes"))
    length = context[limit]
    if is_text and limit == "min_length" and length == 1:
        return "must not be empty"
    noun = "character" if is_text else "field" if isinstance(value, Mapping) else "item"
    actual = context.get("actual_length") or (len(value) if isinstance(value, Sized) else None)
    end = "" if actual is None else f", not {actual}"
    return f"{words} {length} {noun}{'' if length == 1 else 's'}{end}"


def _plain(limit: object) -> str:
    """A limit as a person writes it: 100, not 100.0."""
    return str(int(limit)) if isinstance(limit, float) and limit.is_integer() else str(limit)


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
