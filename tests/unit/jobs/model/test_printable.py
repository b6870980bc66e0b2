"""A name is any printable text, in one normal form. And what a job is called whose spec has no name."""

import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.model.job_names import name_of
from jobs.model.plan import resolve_plan
from jobs.model.printable import MOST_IN_LABEL, MOST_IN_NAME, cleaned, label_text, name_text, one_form
from jobs.model.spec import spec_from

FREE = st.text(st.characters(exclude_categories=[]), max_size=40)


@pytest.mark.parametrize(
    "text",
    [
        "Zoë 訓練",
        "می‌خواهم",  # with a ZWNJ
        "क्‍ष",  # with a ZWJ
        "👩‍🔬 run",
        "🫩",  # of Unicode 16, which this Python may not know
        "訓" * MOST_IN_NAME,
        "x" + "\u0320" * 8 + "y\u0320",
    ],
)
def test_printable_text_is_accepted_as_a_name_unchanged(text: str) -> None:
    assert name_text(text) == label_text(text) == text


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("Zoe\u0308", "Zoë"),  # as a Mac types it
        (" \u00a0a b\u3000\u200d", "a b"),
        ("e\u0301" * MOST_IN_NAME, "é" * MOST_IN_NAME),  # the length is counted in the normal form
    ],
)
def test_equivalent_spellings_become_one_name(typed: str, name: str) -> None:
    assert name_text(typed) == label_text(typed) == one_form(typed) == name


@pytest.mark.parametrize(
    "character",
    "\0\n\r\t\x1b\x7f\x85\x9b\u2028\u2029"  # controls and ends of lines
    "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c"  # they reorder text
    "\u200b\ufeff\u00ad\u2060\U000e0041"  # invisible
    "\ud800\udfff\ue000\U0010ffff\ufdd0\U000e0fff",  # not characters
)
def test_unprintable_character_is_refused_with_its_code_and_place(character: str) -> None:
    for check in (name_text, label_text):
        with pytest.raises(ValueError, match=rf"character 2 is U\+{ord(character):04X}.*, which cannot be printed"):
            check(f"a{character}b")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "nothing to see"),
        ("\u3164", "nothing to see"),  # a letter, drawn as nothing
        ("\u0301a", "begins with a mark"),
        ("x" + "\u0301" * 9, "more than 8 marks on one character"),
        ("ab" + "\u0301\u200d" * 9, "more than 8 marks on one character"),
        ("x" * (MOST_IN_NAME + 1), "has 129 characters; 128 are allowed"),
    ],
)
def test_blank_too_long_and_badly_marked_names_are_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        name_text(text)


def test_label_may_be_empty_and_longer_than_a_name() -> None:
    assert (label_text(""), label_text("  ")) == ("", "")
    assert label_text("x" * MOST_IN_LABEL) == "x" * MOST_IN_LABEL
    with pytest.raises(ValueError, match="has 256 characters; 255 are allowed"):
        label_text("x" * (MOST_IN_LABEL + 1))


@given(FREE)
def test_accepted_name_is_normalized_and_stays_the_same(text: str) -> None:
    try:
        name = name_text(text)
    except ValueError:
        return
    assert name == name_text(name) == one_form(name) == unicodedata.normalize("NFC", name)
    assert name == name.strip() != ""
    assert name.encode().decode() == name
    assert len(name.splitlines()) == 1
    assert name_text(unicodedata.normalize("NFD", text)) == name


@given(FREE, st.integers(1, 20))
def test_cleaned_text_is_a_valid_name_within_the_length(text: str, most: int) -> None:
    name = cleaned(f"a{text}", most)
    assert name_text(name) == name
    assert len(name) <= most
    assert cleaned("x" + "\u0320" * 20 + "y", 20) == "x" + "\u0320" * 8 + "y", "as many marks as a name may have"


OWN = {"dataset": "digits", "batch_size": 64, "learning_rate": 0.001, "gpus": 2}
CODE = {"code": "0" * 64, "gpus": 4}


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        (OWN, "digits-lenet5-2x64"),
        (OWN | {"batch_per": "global"}, "digits-lenet5-2x32"),
        (OWN | {"dataset": "chips@3", "model": "resnet20"}, "chips-resnet20-2x64"),
        (OWN | {"dataset": "/data/cifar10/train"}, "cifar10-lenet5-2x64"),
        (OWN | {"dataset": "synthetic:samples=5000,classes=4,shape=32x32x3"}, "synthetic-lenet5-2x64"),
        (OWN | {"dataset": "/" + "x" * 200}, "x" * 123 + "-2x64"),
        (OWN | {"probe": {}}, "probe-digits-lenet5-2x64"),
        (CODE | {"command": ["python", "-u", "src/train.py", "--lr", "0.1"]}, "train-x4"),
        (CODE | {"command": ["python", "-m", "pack.fit"]}, "fit-x4"),
        (CODE | {"command": ["python", "-c", "print(1)"]}, "script-x4"),
    ],
)
def test_it_says_what_the_job_is(fields: dict[str, Any], name: str) -> None:
    spec = spec_from(fields)
    assert name_of(spec, resolve_plan(spec, None)) == name
