"""Conditions about jobs as texts: `metrics.val_accuracy > 0.9 or starred`. Pure; decision 0061 says why texts.

    where       = comparison, or several with ` or ` between them: one of them holds
    comparison  = FIELD OP VALUE | FIELD | !FIELD
    OP          = one of = != < <= > >= ~ !~
    VALUE       = a text up to the next ` or `, or a JSON string in double quotes

A FIELD with odd characters is written as a JSON string too. Called by the api, by saved views and by articles.
`jobs.lifecycle.field_values` makes SQL of conditions.

    WrongWhere      the text is no condition; says what is wrong and what was probably meant
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from jobs.model.job_fields import Kind, kind_of
from jobs.model.states import Status
from jobs.suggestions import meant
from jobs.wording import shortened

MOST = 20  # conditions of a list
MOST_CHARACTERS = 2000  # of a condition
MOST_COMPARISONS = 20  # of a condition
_MOST_IN_ALL = 40  # comparisons of a list: each makes the statement longer

OPERATORS = ("=", "!=", "<", "<=", ">", ">=", "~", "!~")
HAS, LACKS = "has", "lacks"  # operators of `FIELD` and `!FIELD`, without a value
PATTERNS = ("~", "!~")

_SPACES, _NOT = re.compile(r"\s*"), re.compile(r"\s*!")
_NAME = re.compile(r'[^\s=!<>~"]+')
STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_OPERATOR = re.compile(r"!=|<=|>=|!~|=|<|>|~")
_WORD = re.compile(r"[=!<>~]+|[^\s=!<>~]+")
_BARE = re.compile(r"(.*?)(?:\sor\s|$)")  # a value without quotes, and what ends it
_END = re.compile(r"\s*$|\s+(or)\s")
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_MOST_DIGITS = 400  # the greatest float has 309
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")  # in a text of PostgreSQL
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_BEFORE_OR = re.compile(r"\s(?=or\s)")
_MISTAKEN = {
    "==": "=", "===": "=", "<>": "!=", "=<": "<=", "=>": ">=", "=~": "~", "~~": "~", "~*": "~", "!==": "!=", "is": "=",
    "like": "~", "ilike": "~", "contains": "~", "matches": "~", "||": "or", "|": "or",
}  # fmt: skip


class WrongWhere(ValueError):
    """The text is no condition."""


@dataclass(frozen=True)
class Comparison:
    """A field compared with a value. `value` is None for `HAS` and `LACKS`."""

    field: str
    operator: str
    value: str | None = None
    is_quoted: bool = False  # then it is a text, whatever it looks like

    def __str__(self) -> str:
        field = self.field if _NAME.fullmatch(self.field) else _quoted(self.field)
        if self.value is None:
            return field if self.operator == HAS else f"!{field}"
        if self.is_quoted:
            return f"{field}{self.operator}{_quoted(self.value)}"
        space = " " if self.value[0] in "=!<>~" else ""  # else it would belong to the operator
        return f"{field}{self.operator}{space}{self.value}"


@dataclass(frozen=True)
class Where:
    """A condition: one of its comparisons holds. `text` is how it was written."""

    any_of: tuple[Comparison, ...]
    text: str = field(compare=False)

    def __str__(self) -> str:
        return " or ".join(map(str, self.any_of))


def parsed(text: str) -> Where:
    """The condition that a text stands for. Raises `WrongWhere`, `jobs.model.job_fields.UnknownField`."""
    if len(text) > MOST_CHARACTERS:
        raise WrongWhere(f"a condition may have {MOST_CHARACTERS} characters; this one has {len(text)}")
    if CONTROL.search(text):
        raise WrongWhere("a condition must be one line of text, without control characters")
    reader, comparisons = _Reader(text), list[Comparison]()
    while reader.has_more:
        comparisons.append(reader.comparison())
        _check(comparisons[-1])
    if len(comparisons) > MOST_COMPARISONS:
        raise WrongWhere(f"a condition may have {MOST_COMPARISONS} comparisons; this one has {len(comparisons)}")
    return Where(tuple(comparisons), text)


def all_of(wheres: Iterable[Where]) -> tuple[Where, ...]:
    """Conditions that all have to hold. Raises `WrongWhere` if they have too many comparisons together."""
    conditions = tuple(wheres)
    count = sum(len(where.any_of) for where in conditions)
    if count > _MOST_IN_ALL:
        raise WrongWhere(f"the conditions may have {_MOST_IN_ALL} comparisons together; these have {count}")
    return conditions


def equal_to(field: str, value: Any) -> str:
    """The condition that a field has this value of JSON; a number may be a `Decimal`. None: it has no value."""
    if value is None:
        return str(Comparison(field, LACKS))
    if isinstance(value, str):
        return str(Comparison(field, "=", value, is_quoted=True))
    text = str(value) if isinstance(value, Decimal) else _one_piece(value)
    return str(Comparison(field, "=", text))


def number_of(text: str) -> Decimal | None:
    """The number that a text is; None if it is none."""
    if len(text) > _MOST_DIGITS or not _NUMBER.fullmatch(text):
        return None
    return Decimal(text)


def span_of(text: str) -> tuple[datetime, datetime]:
    """The first moment of a time and the first moment after it: a date is a whole day (UTC). Raises `ValueError`."""
    is_day = _DATE.fullmatch(text) is not None
    begin = datetime.fromisoformat(text)
    if begin.tzinfo is None:
        begin = begin.replace(tzinfo=UTC)
    try:
        return begin, begin + (timedelta(days=1) if is_day else timedelta(microseconds=1))
    except OverflowError:
        raise ValueError("too late") from None


def json_of(comparison: Comparison) -> Any:
    """The number, list or object, true or false that a value without quotes is; None: it is only a text."""
    value = comparison.value or ""
    if comparison.is_quoted:
        return None
    if value in ("true", "false"):
        return value == "true"
    if value[:1] in ("[", "{"):
        return _json_in(value)
    return number_of(value)


def _json_in(text: str) -> Any:
    """The JSON that a text is; None if it is none, or none that PostgreSQL can hold."""
    try:
        document = json.loads(text)
        written = json.dumps(document, ensure_ascii=False, allow_nan=False)
    except (ValueError, RecursionError):
        return None
    return None if _UNSTORABLE.search(written) or "\\u0000" in written else document


class _Reader:
    """Reads a condition from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self.has_more = True  # a comparison has to follow

    def comparison(self) -> Comparison:
        """The comparison that begins here."""
        lacks = self._take(_NOT) is not None
        field = self._field()
        if self._ends():
            return Comparison(field, LACKS if lacks else HAS)
        operator = self._operator(field)
        if lacks:
            raise WrongWhere(f"`!{field}` has no value; did you mean `{field} != VALUE`?")
        value, is_quoted = self._value(field, operator)
        return Comparison(field, operator, value, is_quoted)

    def _field(self) -> str:
        self._take(_SPACES)
        if self._text.startswith('"', self._at):
            return self._string("the name of the field")
        match = self._take(_NAME)
        if match is None or match[0] == "or":
            where = f" before `{self._rest()}`" if self._rest() else ""
            raise WrongWhere(f"the name of a field is missing{where}; write `FIELD > VALUE`, `FIELD` or `!FIELD`")
        return match[0]

    def _operator(self, field: str) -> str:
        self._take(_SPACES)
        word, match = _WORD.match(self._text, self._at), self._take(_OPERATOR)
        assert word is not None  # else this would be the end
        given = word[0].lower()
        if match is not None and given not in _MISTAKEN:
            return match[0]
        if given in ("and", "&&"):
            raise WrongWhere("conditions that must all hold are sent one by one: each is a `where` of its own")
        right = _MISTAKEN.get(given)
        proposal = f"; did you mean `{right}`?" if right else f"; allowed: {' '.join(OPERATORS)}"
        raise WrongWhere(f"after `{shortened(field, 40)}` comes `{shortened(word[0], 40)}`, no operator{proposal}")

    def _value(self, field: str, operator: str) -> tuple[str, bool]:
        bare = _BARE.match(self._text, self._at)
        assert bare is not None
        if not bare[1].lstrip().startswith('"'):
            if not bare[1].strip():
                raise WrongWhere(f'the value is missing after `{shortened(field, 40)}{operator}`; an empty text is ""')
            self._at, self.has_more = bare.end(), bare.end() > bare.end(1)
            return bare[1].strip(), False
        self._take(_SPACES)
        value = self._string("the value")
        if not self._ends():
            raise WrongWhere(f"after the quoted value comes `{self._rest()}`; a backslash before a quote keeps it")
        return value, True

    def _string(self, what: str) -> str:
        match = self._take(STRING)
        if match is None:
            raise WrongWhere(f"{what} begins with a quote but does not end with one: `{self._rest()}`")
        try:
            text: str = json.loads(match[0])
        except ValueError:
            raise WrongWhere(f"{what} in quotes must be a JSON string; write a backslash twice") from None
        if _UNSTORABLE.search(text):
            raise WrongWhere(f"{what} must have no character NUL, and no half of a surrogate pair")
        return text

    def _ends(self) -> bool:
        """Whether the comparison ends here; then goes to the next one."""
        match = self._take(_END)
        self.has_more = match is not None and bool(match[1])
        return match is not None

    def _take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        match = pattern.match(self._text, self._at)
        if match is not None:
            self._at = match.end()
        return match

    def _rest(self) -> str:
        return shortened(self._text[self._at :].strip(), 40)


def _check(comparison: Comparison) -> None:
    """Refuse a value that the field cannot have. Raises `WrongWhere`, `UnknownField`."""
    kind, value = kind_of(comparison.field), comparison.value
    if value is None or comparison.operator in PATTERNS:
        return
    about = f"`{comparison.field}`"
    if kind is Kind.NUMBER and (comparison.is_quoted or number_of(value) is None):
        unit = ", in seconds" if comparison.field == "duration" else ""
        raise WrongWhere(f"{about} is compared with a number{unit}, not with `{shortened(value, 40)}`{_joined(value)}")
    if kind is Kind.TIME:
        try:
            span_of(value)
        except ValueError:
            how = "write it as 2030-01-31 or 2030-01-31T09:00:00Z"
            raise WrongWhere(f"{about} is compared with a time, not with `{shortened(value, 40)}`: {how}") from None
    if kind is Kind.FLAG and (comparison.operator not in ("=", "!=") or value not in ("true", "false")):
        raise WrongWhere(f"{about} is true or false: write {about}, `!{comparison.field}` or `{comparison.field}=true`")
    if comparison.field == "status" and comparison.operator in ("=", "!=") and value not in set(Status):
        allowed = f"; allowed: {', '.join(Status)}"
        raise WrongWhere(f"no such status `{shortened(value, 40)}`{meant(value, Status, '`') or allowed}")


def _joined(value: str) -> str:
    return "; send each condition as a `where` of its own" if " and " in value.lower() else ""


def _quoted(text: str) -> str:
    return CONTROL.sub(_escaped, json.dumps(text, ensure_ascii=False))


def _one_piece(value: Any) -> str:
    """A list, an object, true or false as JSON that has no ` or ` in it."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=float)  # of a `Decimal` inside
    return CONTROL.sub(_escaped, _BEFORE_OR.sub(_escaped, text))


def _escaped(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"
