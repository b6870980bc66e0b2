"""The time that a training still takes."""

import pytest

from jobs.intake.time_left import TimeLeft


def _estimates(*, epochs: int, steps: int, validation_s: float, first_s: float = 0.5, after: int = 0) -> list[float]:
    """The estimate after each step of 0.5 s, with a validation after each epoch."""
    left, at, estimates = TimeLeft(), 0.0, []
    for step in range(after + 1, epochs * steps + 1):
        step_time_s = first_s if step == after + 1 else 0.5
        at += step_time_s
        estimate = left.after(step, at, step_time_s, steps=epochs * steps, steps_per_epoch=steps)
        assert estimate is not None
        estimates.append(estimate)
        at += validation_s if step % steps == 0 else 0.0
    return estimates


def test_the_first_step_compiles_the_model_and_does_not_count() -> None:
    estimates = _estimates(epochs=2, steps=200, validation_s=0.0, first_s=30.0)
    assert estimates[1] == pytest.approx(398 * 0.5)
    assert estimates[50] == pytest.approx(349 * 0.5)
    assert estimates[200] == pytest.approx(199 * 0.5), "nor in the pace of the first epoch"


@pytest.mark.parametrize("steps", [7, 200, 5000])
def test_an_epoch_counts_with_its_validation_and_the_estimate_falls_evenly(steps: int) -> None:
    estimates = _estimates(epochs=8, steps=steps, validation_s=0.1 * steps, first_s=20.0)
    for number, estimate in enumerate(reversed(estimates[steps:])):
        assert estimate == pytest.approx(number * 0.6)


def test_a_part_of_an_epoch_has_no_pace_of_its_own() -> None:
    estimates = _estimates(epochs=3, steps=100, validation_s=50.0, after=90)
    assert estimates[20] == pytest.approx(189 * 0.5), "or one validation would count for ten steps"
    assert estimates[111] == pytest.approx(98 * 1.0)


def test_a_slow_epoch_counts_half() -> None:
    left, at, estimate = TimeLeft(), 0.0, None
    for step in range(1, 302):
        at += 1.5 if step > 201 else 0.5
        estimate = left.after(step, at, 0.5, steps=1000, steps_per_epoch=100)
    assert estimate == pytest.approx(699 * 1.0)


def test_without_a_known_end_there_is_no_estimate() -> None:
    assert TimeLeft().after(1, 1.0, 0.5, steps=None, steps_per_epoch=None) is None


def test_reports_without_a_clock_count_their_step_times() -> None:
    left = TimeLeft()
    estimates = [left.after(step, 1.0, 0.5, steps=400, steps_per_epoch=10) for step in range(1, 31)]
    assert estimates[-1] == pytest.approx(370 * 0.5)
