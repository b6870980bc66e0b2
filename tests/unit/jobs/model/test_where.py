"""Conditions about jobs: read, written again, and refused with what was probably meant."""

import json
from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jobs.model.job_fields import FIELDS, UnknownField
from jobs.model.where import (
    HAS,
    LACKS,
    MOST_CHARACTERS,
    OPERATORS,
    Comparison,
    Where,
    WrongWhere,
    all_of,
    equal_to,
    json_of,
    parsed,
)

READ = {
    "spec.batch_size>=64": [Comparison("spec.batch_size", ">=", "64")],
    "last.loss > 0.9 or starred": [Comparison("last.loss", ">", "0.9"), Comparison("starred", HAS)],
    "label.team=vision": [Comparison("label.team", "=", "vision")],
    "name ~ ^resnet.*seed[0-3]$": [Comparison("name", "~", "^resnet.*seed[0-3]$")],
    "  !notes  ": [Comparison("notes", LACKS)],
    '"label.a = b" != "x or \\"y\\""': [Comparison("label.a = b", "!=", 'x or "y"', is_quoted=True)],
    'name = a "b" or notes': [Comparison("name", "=", 'a "b"'), Comparison("notes", HAS)],
    "rate=1e-3": [Comparison("rate", "=", "1e-3")],
    "created>=2030-01-31 or ended<2030-01-31T09:00:00Z": [
        Comparison("created", ">=", "2030-01-31"), Comparison("ended", "<", "2030-01-31T09:00:00Z"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("text", READ)
def test_a_condition_is_read(text: str) -> None:
    assert list(parsed(text).any_of) == READ[text]


REFUSED = {
    "": "the name of a field is missing; write `FIELD > VALUE`, `FIELD` or `!FIELD`",
    "gpus == 4": "after `gpus` comes `==`, no operator; did you mean `=`?",
    "starred and paused": "each is a `where` of its own",
    "starred || paused": "did you mean `or`?",
    "gpus > ": 'the value is missing after `gpus>`; an empty text is ""',
    'name = "a': "the value begins with a quote but does not end with one",
    'name ~ "\\d"': "write a backslash twice",
    'name = "\\u0000"': "the value must have no character NUL",
    "!gpus > 3": "`!gpus` has no value; did you mean `gpus != VALUE`?",
    "gpus > many": "`gpus` is compared with a number, not with `many`",
    "created > yesterday": "write it as 2030-01-31 or 2030-01-31T09:00:00Z",
    "starred = yes": "`starred` is true or false: write `starred`, `!starred` or `starred=true`",
    "status = sucseeded": "no such status `sucseeded`; did you mean `succeeded`?",
    "batch_size > 3": "no such field `batch_size`; did you mean `spec.batch_size`?",
    "spec.dataset.sourc = x": "`spec.dataset` has no field `sourc`; did you mean `spec.dataset.source`?",
    "spec.params.a.b.c.d.e.f": "has too many dots",
    "name=" + "x" * MOST_CHARACTERS: "a condition may have 2000 characters",
    " or ".join(["starred"] * 21): "a condition may have 20 comparisons; this one has 21",
    "name = a\nb": "one line of text",
}


@pytest.mark.parametrize("text", REFUSED)
def test_a_mistake_is_named_with_what_was_probably_meant(text: str) -> None:
    with pytest.raises((WrongWhere, UnknownField)) as caught:
        parsed(text)
    assert REFUSED[text] in str(caught.value)


LINES = st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=30)
NAMES = st.sampled_from(["name", "owner", "model", "notes"]) | LINES.map(lambda key: f"label.{key}")
COMPARISONS = (
    st.builds(Comparison, NAMES, st.sampled_from([HAS, LACKS]))
    | st.builds(Comparison, NAMES, st.sampled_from(OPERATORS), LINES, st.just(True))
    | st.builds(
        Comparison, NAMES, st.sampled_from(OPERATORS), st.sampled_from(["x", "=x", "<", "a  b", "or", '[1, "a"]'])
    )
)


@given(st.lists(COMPARISONS, min_size=1, max_size=4))
def test_a_condition_that_is_written_is_read_as_it_was(comparisons: list[Comparison]) -> None:
    where = Where(tuple(comparisons), "")
    assert parsed(str(where)) == where


@given(st.text('a ![]"=<>~or\\.4', max_size=20))
def test_any_text_is_a_condition_or_refused(text: str) -> None:
    try:
        where = parsed(text.replace("a", "label.a"))
    except (WrongWhere, UnknownField):
        return
    assert parsed(str(where)) == where


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
DECIMALS = st.floats(allow_nan=False, allow_infinity=False).map(lambda value: Decimal(repr(value)))
VALUES = st.recursive(
    st.booleans() | st.integers() | DECIMALS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=4,
)


@given(VALUES)
@example(["this\u2003or or that\x7f"])
@example({"validation": Decimal("0.1")})
@example(Decimal("1e308"))
@example(10**308)
def test_the_condition_of_a_value_is_one_comparison_with_it(value: object) -> None:
    (comparison,) = parsed(equal_to("label.a b", value)).any_of
    is_text = isinstance(value, str)
    assert (comparison.field, comparison.operator, comparison.is_quoted) == ("label.a b", "=", is_text)
    assert numbers_alike(comparison.value if is_text else json_of(comparison)) == numbers_alike(value)


def numbers_alike(value: object) -> object:
    """A value of JSON, with floats in place of all numbers."""
    return json.loads(json.dumps(value, default=float), parse_int=float)


def test_conditions_may_have_so_many_comparisons_together() -> None:
    ten = parsed(" or ".join(["starred"] * 10))
    assert all_of([ten] * 4) == (ten,) * 4
    with pytest.raises(WrongWhere, match="may have 40 comparisons together; these have 41"):
        all_of([ten] * 4 + [parsed("starred")])
    for field in FIELDS:
        assert parsed(f"{field} or !{field}").any_of == (Comparison(field, HAS), Comparison(field, LACKS))
