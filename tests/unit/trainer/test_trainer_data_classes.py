"""From labels to classes."""

import pytest

from trainer.data.classes import check_labels, class_names
from trainer.data.interfaces import Survey
from trainer.errors import BadData


def survey_of(*labels: str | int) -> Survey:
    kind = "string" if any(isinstance(label, str) for label in labels) else "integer"
    return Survey(samples=len(labels), labels={str(label): 1 for label in labels}, label_kind=kind)


def test_string_labels_become_sorted_classes() -> None:
    assert class_names(survey_of("dog", "cat", "10", "9"), name="x") == ("10", "9", "cat", "dog")


def test_integer_label_is_the_number_of_its_class() -> None:
    assert class_names(survey_of(2, 0, 1), name="x") == ("0", "1", "2")
    assert class_names(survey_of(*range(11)), name="x") == tuple(map(str, range(11)))


def test_class_number_may_be_unused() -> None:
    assert class_names(survey_of(1, 3), name="x") == ("0", "1", "2", "3")


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


def test_names_of_any_language_are_classes() -> None:
    assert class_names(survey_of("Kräuter", "花", "a\u3000b"), name="x") == ("Kräuter", "a\u3000b", "花")


def test_a_part_may_lack_a_class_but_not_have_an_extra_one() -> None:
    check_labels(survey_of("cat"), ("cat", "dog"), name="x")
    with pytest.raises(BadData, match="x: the label 'cow' is not among the classes of the training data"):
        check_labels(survey_of("cat", "cow"), ("cat", "dog"), name="x")
    with pytest.raises(BadData, match="x: there is no sample at all"):
        check_labels(survey_of(), ("cat", "dog"), name="x")
