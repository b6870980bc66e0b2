"""From labels to classes."""

from collections.abc import Sequence

import pytest

from trainer.data.classes import check_labels, class_names
from trainer.data.interfaces import Survey
from trainer.errors import BadData


def survey_of(*labels: str | int) -> Survey:
    kind = "string" if any(isinstance(label, str) for label in labels) else "integer"
    return Survey(samples=len(labels), labels={str(label): 1 for label in labels}, label_kind=kind)


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (("dog", "cat", "10", "9"), ("10", "9", "cat", "dog")),
        (("Kräuter", "花", "a\u3000b"), ("Kräuter", "a\u3000b", "花")),
        (range(11), tuple(map(str, range(11)))),
        ((1, 3), ("0", "1", "2", "3")),  # a number may be unused
    ],
)
def test_strings_become_sorted_classes_and_an_integer_is_the_number_of_its_class(
    labels: Sequence[str | int], classes: tuple[str, ...]
) -> None:
    assert class_names(survey_of(*labels), name="x") == classes


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        ((), "x: there is no sample at all"),
        ((0,), r"x: there is only one class \('0'\)"),
        ((3,), r"x: there is only one class \('3'\)"),
        (("cat",), r"x: there is only one class \('cat'\)"),
        ((0, 1, -1), "x: the label -1 is out of range: number the classes from 0"),
        ((0, 255), "x: the label 255 is out of range: with 2 different labels the classes are numbered from 0 to 1"),
        (range(10_001), "x: more than 10000 different labels"),
        (("cat", ""), "x: the label '' is empty or holds control characters"),
        (("cat", "a\0b"), r"x: the label 'a\\x00b' is empty or holds control characters"),
        (("cat", "\udc80"), r"x: the label '\\udc80' is empty or holds control characters"),
    ],
)
def test_labels_that_make_no_classes_are_bad_data(labels: tuple[str | int, ...], sentence: str) -> None:
    with pytest.raises(BadData, match=sentence):
        class_names(survey_of(*labels), name="x")


def test_a_part_may_lack_a_class_but_not_have_an_extra_one() -> None:
    check_labels(survey_of("cat"), ("cat", "dog"), name="x")
    with pytest.raises(BadData, match="x: the label 'cow' is not among the classes of the training data"):
        check_labels(survey_of("cat", "cow"), ("cat", "dog"), name="x")
    with pytest.raises(BadData, match="x: there is no sample at all"):
        check_labels(survey_of(), ("cat", "dog"), name="x")
