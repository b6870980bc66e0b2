"""Levels of attained service and of bursts, how long an attempt is left undisturbed, and GPU time in words."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.model.attained_service import (
    LEVELS_SLOT_S,
    QUANTUM_S,
    decayed_s,
    level_of,
    seconds_to_next_level,
    undisturbed_s,
)
from jobs.model.bursts import GAP_S, BurstLevels, Bursts, expected_level
from jobs.model.gpu_time import gpu_time


def test_the_level_rises_with_the_slot_seconds_and_sooner_for_a_wide_job() -> None:
    assert [level_of(slot_s) for slot_s in (0, 1799, 1800, 7199, 7200, 1e9)] == [0, 0, 1, 1, 2, 2]
    assert [seconds_to_next_level(0.0, slots) for slots in (1, 8)] == [1800, 225]
    assert seconds_to_next_level(1800.0, 2) == 2700
    assert seconds_to_next_level(7200.0, 1) == float("inf")


def test_usage_of_a_half_life_ago_counts_half() -> None:
    hour = decayed_s(25 * 3600, 86_400.0) - decayed_s(24 * 3600, 86_400.0)
    assert hour / decayed_s(3600, 86_400.0) == pytest.approx(0.5)
    assert decayed_s(60.0, 86_400.0) == pytest.approx(60.0, rel=1e-3)


@pytest.mark.parametrize(
    ("cost_s", "ran_s", "waited_s", "at_least_s"),
    [
        (0, 0, 0, QUANTUM_S),
        (300, 0, 0, 3000),  # ten times what it costs
        (0, 100 * 3600, 0, 3 * 3600),  # a part of what its job has run
        (0, 0, 10 * 3600, 3600),  # a part of what its job waited
        (0, 0, 1000 * 3600, 3 * 3600),  # but not more than three hours
    ],
)
def test_an_attempt_is_undisturbed_until_its_quantum_is_over(
    cost_s: float, ran_s: float, waited_s: float, at_least_s: float
) -> None:
    def left_s(age_s: float) -> float:
        return undisturbed_s(age_s, cost_s=cost_s, ran_s=ran_s, waited_s=waited_s)

    assert left_s(0.0) == pytest.approx(at_least_s)
    assert left_s(at_least_s - 1) == pytest.approx(1.0)
    assert left_s(at_least_s) == 0.0
    for age_s in (600.0, 1e4, 1e7):  # a job that cannot save costs as much as it ran
        assert undisturbed_s(age_s, cost_s=age_s, ran_s=age_s, waited_s=0.0) > 0


@pytest.mark.parametrize(
    ("entered", "ended_before", "level"),
    [
        ([2, 0], [0, 0], 0),  # too few
        ([3, 0], [0, 0], 1),
        ([3, 0], [1, 4], 1),
        ([3, 0], [2, 5], 0),  # two of five ended early
        ([5, 3], [0, 1], 2),
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


@pytest.mark.parametrize(
    ("hours", "text"), [(0.0, "0 s"), (0.00512, "18.4 s"), (1 / 60, "1 min"), (12.34, "12.3 h"), (1234.6, "1,235 h")]
)
def test_the_unit_suits_the_amount(hours: float, text: str) -> None:
    assert gpu_time(hours) == text
