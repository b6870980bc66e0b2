"""Every field of a spec that takes a number or a text, with values that no job can have or that could do harm.

Each is refused at its field, or read as it is. That what is read is not run: `tests/acceptance/test_threats.py`.
"""

import json
import math
import re
from collections.abc import Iterator
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import pytest
from pydantic import BaseModel

from jobs.model.documents import set_field
from jobs.model.problems import InvalidSpec
from jobs.model.spec import MAX_SECONDS, Spec, parse_spec, spec_from
from tests.unit.jobs.model.spec_documents import SCRIPT, problems_of, smallest

HOSTILE = [
    "$(touch canary)", "`touch canary`", "x; touch canary", "x | touch canary", "--load=canary", "x\ntouch canary",
    "x\r\nX-Evil: 1", "x\0y", "\x1b]0;owned\x07\x1b[2J", "x\x9b2J", "LD_PRELOAD=/tmp/canary.so",
    "%s%n{0.__class__}${jndi:x}", "../../etc/passwd", "/etc/passwd", "%252e%252e%252fetc", "<script>alert(1)</script>",
    "x'; DROP TABLE jobs; --", "x" * 100_000,
]  # fmt: skip
# What these hold is for a program: only NUL is refused, which no argument and no row may have.
FREE_TEXTS = {"command", "params", "env"}


def kinds_in(annotation: Any, within: tuple[Any, ...] = ()) -> Iterator[Any]:
    """The types of a field's values; also those inside lists and others, unless `within` says what to look into."""
    yield str if isinstance(annotation, str) else annotation
    if not within or get_origin(annotation) in within:
        for part in get_args(annotation):
            yield from kinds_in(part, within)


def fields_with(wanted: set[type], model: type[BaseModel], *within: Any, above: str = "") -> Iterator[str]:
    """The path of each field of a model that takes one of these types, with those of its parts."""
    for name, field in model.model_fields.items():
        kinds = [kind for kind in kinds_in(field.annotation, within) if isinstance(kind, type)]
        if wanted & set(kinds):
            yield f"{above}{name}"
        for kind in kinds:
            if issubclass(kind, BaseModel):
                yield from fields_with(wanted, kind, *within, above=f"{above}{name}.")


NUMBERS = sorted(
    set(fields_with({int, float}, Spec, Annotated, Union, UnionType))
    - {"early_stopping.min_delta", "schedule.min_delta"}  # no upper limit
)
TEXTS = sorted(set(fields_with({str}, Spec)))


def test_the_fields_of_a_spec_are_found() -> None:
    assert {"time_limit_s", "seed", "min_gpus", "dataset.validation", "probe.seconds"} <= set(NUMBERS)
    assert {"name", "labels", "project", "dataset.source", "model.weights", *FREE_TEXTS} <= set(TEXTS)
    assert min(len(NUMBERS), len(TEXTS)) > 20


@pytest.mark.parametrize("field", NUMBERS)
def test_a_number_beyond_its_limit_is_refused_at_its_field(field: str) -> None:
    for number in (1e300, -1, math.inf, -math.inf, math.nan, 2**63, 10**400):
        document = smallest(dataset={"source": "d"}, model={"name": "mlp"}, early_stopping={}, checkpoint={}, probe={})
        set_field(document, field.split("."), number)
        field_problems = [problem for problem in problems_of(document) if problem.field == field]
        assert field_problems, number
        for problem in field_problems:
            assert problem.received is not None
            assert re.search(
                "must be (at (least|most) |(less|greater) than |a (finite |whole )?number|a text)", problem.message
            )


def test_time_limits_are_at_most_one_year() -> None:
    longest = {"time_limit_s": MAX_SECONDS, "stall_timeout_s": MAX_SECONDS}
    spec = parse_spec(json.dumps(smallest(**longest)))
    assert (spec.time_limit_s, spec.stall_timeout_s) == (31_536_000, 31_536_000)
    problems = problems_of(smallest(**dict.fromkeys(longest, MAX_SECONDS + 1)))
    assert [problem.field for problem in problems] == [*longest]


def spec_with(field: str, text: str) -> dict[str, Any]:
    """The smallest spec, of a script if it must be, with `text` in one field."""
    first, *below = field.split(".")
    values: dict[str, Any] = {
        "command": ["python", text],
        "params": {"key": text, text: "value"},
        "env": {"KEY": text},
        "requirements": [text],
        "labels": {"key": text},
        "alerts": [{"log": "x", below[0]: text} if below == ["level"] else {below[0]: text}] if below else [text],
        "dataset.augment": [{below[1]: text} if below[1:] else text],
    }
    of_script = first in {*FREE_TEXTS, "code", "environment", "requirements", "goal"}
    document = dict(SCRIPT) if of_script else smallest(dataset={"source": "digits"}, model={"name": "mlp"})
    if first == "goal":
        document |= {"goal": {"metric": "val_iou"}}
    for path in (first, ".".join([first, *below[:1]])):
        if path in values:
            set_field(document, path.split("."), values[path])
            return document
    set_field(document, [first, *below], text)
    return document


def texts_in(value: Any) -> list[Any]:
    """All texts of a JSON value, keys included."""
    if isinstance(value, dict):
        return [*value, *(text for inner in value.values() for text in texts_in(inner))]
    return [text for inner in value for text in texts_in(inner)] if isinstance(value, list) else [value]


@pytest.mark.parametrize("field", TEXTS)
def test_hostile_text_is_refused_at_its_field_or_read_as_it_is(field: str) -> None:
    for text in HOSTILE:
        try:
            read: Any = spec_from(spec_with(field, text)).model_dump(mode="json")
        except InvalidSpec as refused:
            named = [problem.field.replace(".0.", ".") for problem in refused.problems]
            place = ".".join(field.split(".")[:2])  # deeper are only items of lists
            assert any(f"{one}.".startswith(f"{place}.") for one in named), (text, named)
        else:
            for part in field.split("."):
                read = read[0][part] if isinstance(read, list) else read[part]
            assert text in texts_in(read)
            assert field in FREE_TEXTS or not set(text) & set(map(chr, range(32))), text
