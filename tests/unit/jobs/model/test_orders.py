"""The order of a list as a text."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.lifecycle.list_sorts import known_order
from jobs.model.orders import OrderField, WrongOrder, parsed, text_of

READ = {
    "-starred,-metrics.val_accuracy,created": "-starred,-metrics.val_accuracy,created",
    " created , - gpus": "created,-gpus",
    'gpus,-"label.a,b \\"c\\"",name': 'gpus,-"label.a,b \\"c\\"",name',
    '"gpus",-"name"': "gpus,-name",
    "label.a b": "label.a b",  # as one field was written before there could be several
    'label.x"y': 'label.x"y',
    '"label. a"': "label. a",
    '"label.a "': '"label.a "',
}


@pytest.mark.parametrize(("text", "again"), READ.items(), ids=READ)
def test_an_order_is_read_and_written_in_one_way(text: str, again: str) -> None:
    assert text_of(parsed(text)) == again
    assert known_order(text) == again
    assert parsed(again) == parsed(text)


REFUSED = {
    "gpus,": "the name of a field is missing",
    '"gpus': "must be a JSON string",
    '"label.\\x"': "must be a JSON string",
    '"label.\\u0000"': "control characters",
    "gpus,name,status,owner,project": "may have 4 fields; this one has 5",
    "gpus,-gpus": "`gpus` is repeated",
    "gpus,created_at,-created": "`created` is the same as `created_at`",
    "gpus\n": "one line of text, without control characters",
    "gpus," * 300: "may have 1300 characters; this one has 1500",
    "gpus,colour": "no such field `colour`",
    "metrics.los,spec.batchsize": "did you mean `spec.batch_size`?",
}


@pytest.mark.parametrize(("text", "why"), REFUSED.items(), ids=REFUSED)
def test_a_wrong_order_says_what_is_wrong(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        known_order(text)


@given(st.lists(st.tuples(st.text(min_size=1, max_size=9), st.booleans()), min_size=1, max_size=4))
def test_every_name_is_read_back(fields: list[tuple[str, bool]]) -> None:
    order = tuple(OrderField(name, falls) for name, falls in fields)
    try:
        assert parsed(text_of(order)) == order
    except WrongOrder as error:
        assert "control characters" in str(error)  # noqa: PT017 - it may be raised
