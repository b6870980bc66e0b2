"""The order of a list of jobs as a text: `-starred,-metrics.val_accuracy,created`. Pure; read by the api.

Fields with commas between them; a minus puts the greatest first. A name with odd characters is a JSON string in double
quotes, as in conditions. `jobs.lifecycle.list_sorts` knows the fields and makes SQL of them.

    WrongOrder      the text is no order; says what is wrong
"""

import json
import re
from dataclasses import dataclass

from jobs.model.where import CONTROL, STRING
from jobs.wording import shortened

MOST = 4  # fields
MOST_CHARACTERS = 1300  # of an order

_FIELD = re.compile(rf'\s*(-?)\s*({STRING.pattern}|[^\s",][^,]*|(?=,|\Z))\s*(,|\Z)')
_BARE = re.compile(r'[^\s",-](?:[^,]*[^\s,])?')


class WrongOrder(ValueError):
    """The text is no order."""


@dataclass(frozen=True)
class OrderField:
    """A field of an order."""

    name: str
    falls: bool  # from the greatest to the least

    def __str__(self) -> str:
        name = self.name if _BARE.fullmatch(self.name) else json.dumps(self.name, ensure_ascii=False)
        return f"-{name}" if self.falls else name


def parsed(text: str) -> tuple[OrderField, ...]:
    """The fields of an order, the most important one first. Raises `WrongOrder`."""
    if len(text) > MOST_CHARACTERS:
        raise WrongOrder(f"an order may have {MOST_CHARACTERS} characters; this one has {len(text)}")
    if CONTROL.search(text):
        raise WrongOrder("an order must be one line of text, without control characters")
    fields = list[OrderField]()
    at, has_more = 0, True
    while has_more:
        match = _FIELD.match(text, at)
        if match is None:
            raise WrongOrder(f"`{shortened(text[at:].strip(), 40)}` begins with a quote: a name in quotes must be a "
                             "JSON string, with a comma or nothing after it")  # fmt: skip
        fields.append(OrderField(_name_in(match[2], text), match[1] == "-"))
        at, has_more = match.end(), match[3] == ","
    if len(fields) > MOST:
        raise WrongOrder(f"an order may have {MOST} fields; this one has {len(fields)}")
    return tuple(fields)


def text_of(fields: tuple[OrderField, ...]) -> str:
    """The text of an order, always the same one."""
    return ",".join(map(str, fields))


def _name_in(word: str, text: str) -> str:
    if not word:
        raise WrongOrder(f"the name of a field is missing in `{shortened(text, 40)}`; write `FIELD,-FIELD`")
    if not word.startswith('"'):
        return word.rstrip()
    try:
        name: str = json.loads(word)
    except ValueError:
        raise WrongOrder(f"`{shortened(word, 40)}` must be a JSON string; write a backslash twice") from None
    if CONTROL.search(name):
        raise WrongOrder("the name of a field must have no control characters")
    return name
