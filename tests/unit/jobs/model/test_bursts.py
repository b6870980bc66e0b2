"""Bursts: which submissions belong together, and what some jobs of a burst say of the others."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.model.attained_service import LEVELS_SLOT_S
from jobs.model.bursts import GAP_S, BurstLevels, Bursts, expected_level


@pytest.mark.parametrize(
    ("entered", "ended_before", "level"),
    [
        ([2, 0], [0, 0], 0),  # too few
        ([3, 0], [0, 0], 1),
        ([3, 0], [1, 4], 1),
        ([3, 0], [2, 5], 0),  # two of five ended early
        ([5, 3], [0, 1], 2),
        ([5, 3], [0, 2], 1),
        ([0, 0], [9, 9], 0),
    ],
)
def test_a_burst_is_believed_to_be_long_once_enough_of_it_were(
    entered: Sequence[int], ended_before: Sequence[int], level: int
) -> None:
    assert expected_level(entered, ended_before) == level


def test_a_burst_goes_on_while_its_jobs_come_shortly_after_each_other() -> None:
    bursts = Bursts()
    times_s = [0.0, GAP_S, 2 * GAP_S, 3 * GAP_S + 0.1, 3 * GAP_S + 0.1]
    assert [bursts.burst_of(f"j{number}", "ann", at_s) for number, at_s in enumerate(times_s)] == [
        "j0", "j0", "j0", "j3", "j3"
    ]  # fmt: skip
    assert bursts.burst_of("j5", "ben", 4 * GAP_S) == "j5"
    assert bursts.burst_of("j6", "ann", 4 * GAP_S) == "j3"


@given(st.lists(st.tuples(st.integers(0, 5), st.floats(0, 3 * LEVELS_SLOT_S[-1]), st.booleans()), max_size=30))
def test_levels_count_each_job_once(notes: list[tuple[int, float, bool]]) -> None:
    levels, most_s, ended = BurstLevels(), dict[int, float](), set[int]()
    for number, slot_s, has_ended in notes:
        if number in ended or slot_s < most_s.get(number, 0.0):
            continue
        before_s = most_s.get(number, 0.0)
        is_news = levels.note("b", str(number), slot_s, has_ended=has_ended)
        assert is_news == any(before_s < limit <= slot_s for limit in LEVELS_SLOT_S)
        most_s[number] = slot_s
        ended |= {number} if has_ended else set()
    entered = [sum(slot_s >= limit for slot_s in most_s.values()) for limit in LEVELS_SLOT_S]
    ended_before = [sum(most_s[number] < limit for number in ended) for limit in LEVELS_SLOT_S]
    assert levels.expected("b") == expected_level(entered, ended_before)
