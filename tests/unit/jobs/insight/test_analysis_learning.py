"""The best epoch, and overfitting: a lasting rise counts, noise and a plateau do not."""

import math

import pytest
from hypothesis import given as draws
from hypothesis import strategies as st

from jobs.insight.analysis.learning import best_epoch_of, learning_of, overfits
from tests.unit.jobs.insight import analysis_inputs as inputs

FALLING = [2.0 * 0.8**epoch for epoch in range(20)]
RISING = [1.0, 0.8, 0.7, 0.65] + [0.65 + 0.03 * epoch for epoch in range(1, 17)]
FLAT = [1.0, 0.8, 0.7, 0.65] + [0.66 + 0.02 * (epoch % 2) for epoch in range(16)]


def test_a_validation_loss_that_rises_while_the_training_loss_falls_overfits() -> None:
    learning = learning_of(inputs.epochs(FALLING, RISING), inputs.SPEC, None)

    assert learning is not None
    assert learning.overfits
    assert (learning.best_epoch, learning.epochs_run) == (4, 20)
    assert learning.val_loss_rise == pytest.approx(RISING[-1] / 0.65 - 1)


@pytest.mark.parametrize(
    ("losses", "val_losses"),
    [
        (FALLING, FLAT),  # a plateau
        (FALLING[:9], RISING[:9][:4] + RISING[3:4] * 5),  # the same, stopped early
        (FALLING[:7], RISING[:7]),  # too short to tell
        ([1.0] * 20, RISING),  # the training loss does not fall: something else is wrong
        (FALLING, [0.05 + 0.02 * (epoch % 3) for epoch in range(20)]),  # noise of a small validation part
        (FALLING, [1.0, 0.05] + [0.06 + 0.001 * epoch + 0.05 * (epoch % 2) for epoch in range(18)]),  # so is this
        (FALLING, RISING[:4] + [1.5] * 4 + [0.66] * 12),  # a bump
    ],
)
def test_plateaus_noise_and_short_curves_do_not_overfit(losses: list[float], val_losses: list[float]) -> None:
    assert not overfits(list(zip(losses, val_losses, strict=True)))


def test_job_whose_last_epoch_is_its_best_does_not_overfit() -> None:
    accuracies = [epoch / 100 for epoch in range(20)]

    learning = learning_of(inputs.epochs(FALLING, RISING, accuracies), inputs.SPEC, None)

    assert learning is not None
    assert not learning.overfits


def test_the_best_epoch_follows_the_rule_of_early_stopping() -> None:
    accuracies = [0.5, 0.6, 0.6005, math.nan, 0.605, 0.55]
    epochs = inputs.epochs([1.0] * 6, [1.0] * 6, accuracies)

    assert best_epoch_of(epochs, {"early_stopping": {"monitor": "val_accuracy", "min_delta": 0.001}}) == 5
    assert best_epoch_of(epochs, {"early_stopping": {"monitor": "val_accuracy", "min_delta": 0.01}}) == 2
    assert best_epoch_of(epochs, {"early_stopping": None}) == 5
    assert best_epoch_of(epochs, {"early_stopping": {"monitor": "val_loss", "min_delta": 0.0}}) == 1


@pytest.mark.parametrize(("monitor", "best"), [("val_loss", 2), ("epoch_s", 2), ("samples_per_s", 1)])
def test_a_loss_and_a_time_are_better_when_lower(monitor: str, best: int) -> None:
    epochs = inputs.epochs([1.0, 1.0], [1.0, 1.0])
    for value, one in zip((3.0, 2.0), epochs, strict=True):
        one.values[monitor] = value  # type: ignore[index]

    assert best_epoch_of(epochs, {"early_stopping": {"monitor": monitor, "min_delta": 0.0}}) == best


def test_best_epoch_of_the_jobs_summary_is_used() -> None:
    learning = learning_of(inputs.epochs(FALLING, RISING), inputs.SPEC, {"best_epoch": 7})

    assert learning is not None
    assert learning.best_epoch == 7
    assert learning.best == pytest.approx(1 - RISING[6] / 10)


def test_learning_is_none_before_the_first_validation() -> None:
    assert learning_of([], inputs.SPEC, None) is None


figures = st.floats(-1e6, 1e6)


@draws(st.lists(st.tuples(figures, figures), max_size=30))
def test_learning_is_known_for_any_losses(losses: list[tuple[float, float]]) -> None:
    epochs = inputs.epochs([a for a, _ in losses], [b for _, b in losses])

    assert (learning_of(epochs, inputs.SPEC, None) is None) == (losses == [])
