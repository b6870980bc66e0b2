r"""The rules of a spec that alert, with their texts: conditions on metrics, and patterns for lines of the log. Pure.

    condition = METRIC OP NUMBER      OP is one of = != < <= > >=; the number may be nan: what is not finite
    pattern   = TEXT, or several with | between them; * stands for any characters; \| \* \\ \. for themselves

A pattern is searched with `str.find`, so that no pattern and no line takes longer than in proportion to its length.
A regular expression of a person could take years for a line (decision 0067).

    ValueError      the text is no condition, or no pattern; says what is wrong and what was probably meant
"""

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite
from typing import Annotated, Self

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from jobs.model.alerts import AlertLevel
from jobs.model.goals import METRIC_NAME
from jobs.model.problems import wrong_inner_field
from jobs.model.spec_parts import SpecPart

MOST_RULES = 10
_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_MISTAKEN = {"==": "=", "===": "=", "!==": "!=", "<>": "!=", "=<": "<=", "=>": ">=", "is": "="}
_CONDITION = re.compile(r"\s*([^\s=!<>]+)\s*([=!<>]+|\sis\s)\s*(\S+)\s*")
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_NAN = "nan"
_PIECE = re.compile(r"\\?.|\\")


@dataclass(frozen=True)
class Condition:
    """A metric compared with a number; None: with what is no finite number."""

    metric: str
    operator: str
    number: float | None

    def holds(self, value: float) -> bool:
        """Whether it holds for this value. NaN is neither more nor less than a number."""
        if self.number is None:
            return isfinite(value) == (self.operator == "!=")
        return _OPERATORS[self.operator](value, self.number)

    def __str__(self) -> str:
        return f"{self.metric} {self.operator} {_NAN if self.number is None else f'{self.number:g}'}"


def condition_of(text: str) -> Condition:
    """The condition that a text stands for. Raises `ValueError`."""
    match = _CONDITION.fullmatch(text)
    if match is None:
        raise ValueError("must be a metric, an operator and a number, such as val_loss > 3")
    metric, sign, number = match[1], match[2].strip(), match[3]
    if not re.fullmatch(METRIC_NAME, metric):
        raise ValueError(f"`{metric}` is no metric: a name has letters, digits and _.:/@- only, 64 at most")
    if sign not in _OPERATORS:
        right = f"; did you mean `{_MISTAKEN[sign]}`?" if sign in _MISTAKEN else f"; allowed: {' '.join(_OPERATORS)}"
        raise ValueError(f"no such operator `{sign}`{right}")
    if number.lower() == _NAN:
        if sign not in ("=", "!="):
            raise ValueError(f"nan is neither more nor less than a number: write {metric} = nan")
        return Condition(metric, sign, None)
    if not _NUMBER.fullmatch(number) or not isfinite(float(number)):
        raise ValueError(f"`{number}` is no number that a metric can have, such as 3, 0.5, 1e-4 or nan")
    return Condition(metric, sign, float(number))


Pattern = tuple[tuple[str, ...], ...]  # one of them is in the line: these texts, one after the other


def pattern_of(text: str) -> Pattern:
    """The pattern that a text stands for. Raises `ValueError`."""
    pieces = _PIECE.findall(text)
    for piece, after in pairwise([*pieces, ""]):
        if piece.startswith("\\") and piece[1:] not in ("|", "*", "\\", "."):
            raise ValueError(f"`{piece}` means nothing here: the text may have * and |, but is no regular expression")
        if piece == "." and after == "*":
            raise ValueError("write * for any characters, not .* as in a regular expression")
    patterns = [[""]]
    for piece in pieces:
        if piece == "|":
            patterns.append([""])
        elif piece == "*":
            patterns[-1].append("")
        else:
            patterns[-1][-1] += piece[-1]
    if not all("".join(texts).strip() for texts in patterns):
        raise ValueError("must have more than spaces and * on each side of a |")
    return tuple(tuple(filter(None, texts)) for texts in patterns)


def first_with(pattern: Pattern, lines: Sequence[str]) -> int | None:
    """The position of the first line that has the pattern; None: none has it."""
    whole = "\n".join(lines)  # mostly a text is nowhere, and this is quicker than to look into each line
    possible = [texts for texts in pattern if all(text in whole for text in texts)]
    if not possible:
        return None
    return next((place for place, line in enumerate(lines) if any(_has(texts, line) for texts in possible)), None)


def _has(texts: tuple[str, ...], line: str) -> bool:
    place = 0
    for text in texts:
        found = line.find(text, place)
        if found < 0:
            return False
        place = found + len(text)
    return True


def _readable(text: str) -> str:
    condition_of(text)
    return text


def _searchable(text: str) -> str:
    pattern_of(text)
    return text


_OneLine = StringConstraints(pattern=r"^[^\x00-\x1f\x7f-\x9f]+$", max_length=200)
_ConditionText = Annotated[
    str, _OneLine, AfterValidator(_readable), Field(json_schema_extra={"format": "alert-condition"})
]
_PatternText = Annotated[str, _OneLine, AfterValidator(_searchable), Field(json_schema_extra={"format": "log-pattern"})]


class AlertRule(SpecPart):
    """When to alert people: of a metric (`when`), or of a line of the log (`log`). It speaks once in a job."""

    when: _ConditionText | None = Field(
        None,
        description="A metric, an operator (`=` `!=` `<` `<=` `>` `>=`) and a number: `val_loss > 3`. `loss = nan`"
        " holds for what is no finite number.",
    )
    in_a_row: int = Field(
        1, ge=1, le=10_000, description="How many values in a row must hold for `when`: epochs, or reports of a script."
    )
    log: _PatternText | None = Field(
        None,
        description="A text in a line of the log, of any rank, in this case of letters: `CUDA error|out of mem*`. `|`"
        " is between texts of which one is enough, `*` stands for any characters.",
    )
    level: AlertLevel = Field("warning", description="How serious it is: `info`, `warning` or `error`.")

    @model_validator(mode="after")
    def _has_one_cause(self) -> Self:
        if (self.when is None) == (self.log is None):
            raise ValueError("must have either when (a condition on a metric) or log (a text in the log)")
        if self.log is not None and self.in_a_row != 1:
            raise wrong_inner_field("in_a_row", self.in_a_row, "is for when: a line of the log is enough")
        return self

    @property
    def title(self) -> str:
        """What its alert is called."""
        if self.when is None:
            return f"The log has {self.log}"
        often = "" if self.in_a_row == 1 else f", {self.in_a_row} times in a row"
        return f"{condition_of(self.when)}{often}"
