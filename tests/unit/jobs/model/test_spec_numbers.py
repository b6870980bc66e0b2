"""A number beyond its limit is refused at its field, whatever the field is."""

import json
import math
import re
from collections.abc import Iterator
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import pytest
from pydantic import BaseModel

from jobs.model.documents import set_field
from jobs.model.spec import MAX_SECONDS, Spec, parse_spec
from tests.unit.jobs.model.spec_documents import problems_of, smallest


def kinds_of(annotation: Any) -> Iterator[Any]:
    """The types that a field's values may be of."""
    if get_origin(annotation) is Annotated:
        yield from kinds_of(get_args(annotation)[0])
    elif get_origin(annotation) in (Union, UnionType):
        for kind in get_args(annotation):
            yield from kinds_of(kind)
    else:
        yield annotation


def numbers_of(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """The path of each field of a model that takes a number, with those of its parts."""
    for name, field in model.model_fields.items():
        kinds = set(kinds_of(field.annotation))
        if kinds & {int, float}:
            yield f"{prefix}{name}"
        for kind in kinds:
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                yield from numbers_of(kind, f"{prefix}{name}.")


NUMBERS = sorted(set(numbers_of(Spec)) - {"early_stopping.min_delta", "schedule.min_delta"})  # no upper limit


def test_numeric_fields_of_the_spec_are_found() -> None:
    assert {"time_limit_s", "seed", "min_gpus", "dataset.validation", "probe.seconds"} <= set(NUMBERS)
    assert len(NUMBERS) > 20


@pytest.mark.parametrize(
    "number", [1e300, -1, math.inf, -math.inf, math.nan, 2**63, 10**400], ids=lambda number: f"{number}"[:20]
)
@pytest.mark.parametrize("field", NUMBERS)
def test_a_number_beyond_its_limit_is_refused_at_its_field(field: str, number: float) -> None:
    document = smallest(dataset={"source": "d"}, model={"name": "mlp"}, early_stopping={}, checkpoint={}, probe={})
    set_field(document, field.split("."), number)
    field_problems = [problem for problem in problems_of(document) if problem.field == field]
    assert field_problems
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
