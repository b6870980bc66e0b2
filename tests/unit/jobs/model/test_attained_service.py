"""Levels of attained service, and how long an attempt is left undisturbed."""

import pytest

from jobs.model.attained_service import QUANTUM_S, decayed_s, level_of, seconds_to_next_level, undisturbed_s


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
