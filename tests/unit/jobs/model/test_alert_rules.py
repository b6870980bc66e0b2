"""Rules that alert: what their texts mean and what is refused; and which alerts of a job are kept."""

import math
import time
from typing import Any

import pytest

from jobs.model.alert_rules import condition_of, first_with, pattern_of
from jobs.model.alerts import MOST_A_JOB, MOST_A_MINUTE, Alert, kept
from jobs.model.problems import InvalidSpec
from jobs.model.spec import spec_from
from tests.unit.jobs.model.spec_documents import SCRIPT
from tests.waiting import slowdown

SPEC = {"dataset": "digits"}


@pytest.mark.parametrize(
    ("text", "holds", "fails"),
    [
        ("val_loss > 3", (3.1, math.inf), (3.0, math.nan)), ("loss>=-1e-3", (0.0, -0.001), (-1.0, math.nan)),
        ("a/b:c <= .5", (0.5,), (0.6, math.nan)), ("loss = 0", (0.0,), (1.0, math.nan)),
        ("loss != 0", (1.0, math.nan), (0.0,)), ("  loss = NaN ", (math.nan, math.inf), (1.0,)),
        ("loss != nan", (1.0,), (math.nan, -math.inf)),
    ],
)  # fmt: skip
def test_a_condition_holds_for_some_values(text: str, holds: tuple[float, ...], fails: tuple[float, ...]) -> None:
    condition = condition_of(text)
    assert [*map(condition.holds, holds)] == [True] * len(holds)
    assert [*map(condition.holds, fails)] == [False] * len(fails)
    assert condition_of(str(condition)) == condition


@pytest.mark.parametrize(
    ("pattern", "lines", "found"),
    [
        ("CUDA error|NaN", ["nan", "cuda error", "x CUDA error: 3"], 2), ("CUDA error|NaN", ["is NaN"], 0),
        ("loss*nan", ["nan loss", "loss is nan"], 1), ("a*a", ["a", "aa"], 1), (r"a\*b|\|\\\.", ["a-b", "|\\."], 1),
        ("ab", ["a", "b"], None), ("*é*", ["\x1b[31mé"], 0),
    ],
)  # fmt: skip
def test_a_pattern_is_in_a_line(pattern: str, lines: list[str], found: int | None) -> None:
    assert first_with(pattern_of(pattern), lines) == found


def test_no_pattern_takes_long() -> None:
    """Python's `re` would take years for such a line, and seconds for such a batch."""
    began = time.monotonic()
    line = "a" * 16_384
    for pattern in ("a*" * 99 + "b", "|".join(["a*b"] * 50), "a" * 199 + "b"):
        assert first_with(pattern_of(pattern), [line] * 64) is None
        assert first_with(pattern_of(pattern), ["", *[line] * 63, "b"]) is None
    assert first_with(pattern_of("|".join("abcdefgh" * 12)), [""] * 1_000_000) is None
    assert time.monotonic() - began < 2 * slowdown()


@pytest.mark.parametrize(
    ("rule", "field", "words"),
    [
        ({"when": "val_los > 3"}, "alerts.0.when", "did you mean val_loss?"),
        ({"when": "val_loss == 3"}, "alerts.0.when", "no such operator `==`; did you mean `=`?"),
        ({"when": "val_loss > x"}, "alerts.0.when", "`x` is no number"),
        ({"when": "loss > nan"}, "alerts.0.when", "write loss = nan"),
        ({"when": "3x > 3"}, "alerts.0.when", "`3x` is no metric"),
        ({"when": "loss > 3", "log": "a"}, "alerts.0", "either when"),
        ({"log": "a", "in_a_row": 2}, "alerts.0.in_a_row", "is for when"),
        ({"log": r"\d+"}, "alerts.0.log", r"`\d` means nothing here"),
        ({"log": "a.*b"}, "alerts.0.log", "write * for any characters"),
        ({"log": " * "}, "alerts.0.log", "more than spaces"),
    ],
)
def test_a_wrong_rule_is_refused_at_its_field(rule: dict[str, Any], field: str, words: str) -> None:
    with pytest.raises(InvalidSpec) as raised:
        spec_from({**SPEC, "alerts": [rule]})
    problem = raised.value.problems[0]
    assert (problem.field, words in problem.message) == (field, True), problem.message


def test_a_spec_has_up_to_10_rules_and_a_script_reports_any_metric() -> None:
    rules = [{"when": "my/score < 0.5"}] * 10
    assert len(spec_from({**SCRIPT, "alerts": rules}).alerts) == 10
    with pytest.raises(InvalidSpec, match="at most 10"):
        spec_from({**SCRIPT, "alerts": rules * 2})


def alert(at: float, title: str = "slow", **fields: Any) -> Alert:
    return Alert(at, "info", title, **fields)


def test_a_script_may_send_some_a_minute_and_some_in_all_and_is_told_once() -> None:
    first = kept([alert(number / 10) for number in range(1000)], [])
    assert [one.at for one in first][:MOST_A_MINUTE] == [number / 10 for number in range(MOST_A_MINUTE)]
    assert first[MOST_A_MINUTE].left_out
    assert [one.at >= 60 for one in first[MOST_A_MINUTE + 1 :]] == [True] * MOST_A_MINUTE
    many = kept([alert(60.0 * minute) for minute in range(1000)], first)
    assert len(many) == MOST_A_JOB - 2 * MOST_A_MINUTE  # what was stored counts, and nothing is said again
    assert kept([alert(10**6)], [*first, *many]) == []


def test_a_repeat_within_the_wait_is_left_out_whichever_rank_comes_first() -> None:
    wanted = [alert(10.5, rank=1, wait_s=60), alert(10.0, rank=0, wait_s=60), alert(10.1, "other", wait_s=60)]
    assert [(one.title, one.rank) for one in kept(wanted, [])] == [("slow", 1), ("other", None)]
    assert kept([alert(70.0, wait_s=60)], [alert(10.5)]) == []
    assert len(kept([alert(70.6, wait_s=60), alert(70.7)], [alert(10.5)])) == 2


def test_a_rule_speaks_once_and_no_limit_stops_it() -> None:
    noise = [alert(number * 60.0) for number in range(MOST_A_JOB)]
    wanted = [alert(1.0, "loss > 3", rule=0), alert(2.0, "loss > 3", rule=0), alert(2.0, "CUDA", rule=1)]
    assert [one.rule for one in kept(wanted, noise)] == [0, 1]
    assert kept(wanted, wanted) == []


def test_the_data_of_an_event_is_what_is_known_and_makes_the_alert_again() -> None:
    one = alert(1.0, rank=0, rule=0, epoch=0)
    assert one.data == {"level": "info", "title": "slow", "text": "", "rank": 0, "rule": 0, "epoch": 0}
    assert Alert(1.0, **one.data) == one
