"""The differences of texts in archives of code, as people read them."""

import pytest

from jobs.data.code_texts import differences

HUNKS = {
    ("a\nb\n", "a\nc\n"): "@@ -1,2 +1,2 @@\n a\n-b\n+c",
    ("", "a\n"): "@@ -0,0 +1 @@\n+a",
    ("a\r\n", "a\n"): "@@ -1 +1 @@\n-a\r\n+a",
    ("a\nb", "a\nb\n"): "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b",
    ("a\x0cb\u2028c\n", "a\nb\nc\n"): "@@ -1 +1,3 @@\n-a\x0cb\u2028c\n+a\n+b\n+c",
}


@pytest.mark.parametrize(("before", "after"), HUNKS)
def test_every_difference_of_two_texts_is_shown(before: str, after: str) -> None:
    assert differences({"x": before}, {"x": after}, ["x"]) == {"x": HUNKS[before, after]}


def test_a_long_file_hides_no_short_one() -> None:
    before, after = {"data": "a" * 600_000, "main": "a"}, {"data": "b" * 600_000, "main": "b"}
    hunks = differences(before, after, ["data", "main"])
    assert hunks["data"] is None
    assert hunks["main"] is not None


def test_a_file_that_is_no_text_has_no_hunks() -> None:
    assert differences({"x": None, "y": "a"}, {"x": "a", "y": None}, ["x", "y"]) == {"x": None, "y": None}
