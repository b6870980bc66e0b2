"""Levels of attained service, and how long an attempt is left undisturbed."""

import pytest

from jobs.model.attained_service import QUANTUM_S, decayed_s, level_of, seconds_to_next_level, undisturbed_s


@pytest.mark.parametrize(("slot_s", "level"), [(0, 0), (1799, 0), (1800, 1), (7199, 1), (7200, 2), (1e9, 2)])
def test_the_level_rises_with_the_slot_seconds(slot_s: float, level: int) -> None:
    assert level_of(slot_s) == level


def test_a_wide_job_enters_the_next_level_sooner() -> None:
    assert seconds_to_next_level(0.0, 1) == 1800
    assert seconds_to_next_level(0.0, 8) == 225
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


def test_a_job_that_cannot_save_is_never_disturbed() -> None:
    for age_s in (600.0, 1e4, 1e7):
        assert undisturbed_s(age_s, cost_s=age_s, ran_s=age_s, waited_s=0.0) > 0
