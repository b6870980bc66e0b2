"""The name that was probably meant by a misspelt one."""

import pytest

from jobs.suggestions import MOST_PROPOSALS, each_meant, meant, similar_to


@pytest.mark.parametrize(
    ("given", "names", "expected"),
    [
        ("adma", ["adam", "sgd"], "adam"),
        ("ADAM", ["adam", "sgd"], "adam"),  # only the case is wrong
        ("adam", ["adam", "adamw"], None),  # it is known
        ("xyz", ["adam", "sgd"], None),
        ("", ["adam"], None),
        (3, ["adam"], None),
        ("adam" * 1000, ["adam"], None),  # nobody mistypes so much, and to compare it takes long
    ],
)
def test_the_most_similar_name_is_found(given: object, names: list[str], expected: str | None) -> None:
    assert similar_to(given, names) == expected


def test_a_proposal_ends_a_sentence_and_ids_need_more_in_common() -> None:
    assert meant("vison", ["vision"], "`") == "; did you mean `vision`?"
    assert meant("vison", []) == ""
    assert similar_to("zqp82jf6xqwa", ["zqp82jf6xqwh"], 0.8) == "zqp82jf6xqwh"
    assert similar_to("zqp82jf6aaaa", ["zqp82jf6xqwh"], 0.8) is None


def test_only_the_first_of_many_names_are_compared() -> None:
    proposals = each_meant(["runing"] * 10_000, ["running"])
    assert proposals[: MOST_PROPOSALS + 1] == ["; did you mean running?"] * MOST_PROPOSALS + [""]
    assert not any(proposals[MOST_PROPOSALS:])
