"""The best epoch, and overfitting: a lasting rise counts, noise and a plateau do not."""

import math
from typing import Any

import pytest
from hypothesis import given as draws
from hypothesis import strategies as st

from jobs.insight.analysis.analyse import analysed
from jobs.insight.analysis.evidence import EpochFigures
from jobs.insight.analysis.learning import Monitored, best_epoch_of, learning_of, monitored, overfits
from jobs.views.analysis import Learning
from tests.unit.jobs.insight import analysis_inputs as inputs

GOAL = Monitored("val_accuracy", is_lower_better=False, min_delta=0.001)
FALLING = [2.0 * 0.8**epoch for epoch in range(20)]
RISING = [1.0, 0.8, 0.7, 0.65] + [0.65 + 0.03 * epoch for epoch in range(1, 17)]
FLAT = [1.0, 0.8, 0.7, 0.65] + [0.66 + 0.02 * (epoch % 2) for epoch in range(16)]


def learned(epochs: list[EpochFigures], by: Monitored = GOAL, summary: dict[str, Any] | None = None) -> Learning:
    learning = learning_of(epochs, by, summary)
    assert learning is not None
    return learning


def test_a_validation_loss_that_rises_while_the_training_loss_falls_overfits() -> None:
    epochs = inputs.epochs(FALLING, RISING)
    learning = learned(epochs)
    assert (learning.overfits, learning.best_epoch, learning.epochs_run) == (True, 4, 20)
    assert learning.val_loss_rise == pytest.approx(RISING[-1] / 0.65 - 1)

    by_summary = learned(epochs, summary={"best_epoch": 7})
    assert (by_summary.best_epoch, by_summary.best) == (7, pytest.approx(1 - RISING[6] / 10))
    still_better = [epoch / 100 for epoch in range(20)]
    assert not learned(inputs.epochs(FALLING, RISING, still_better)).overfits


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


def test_the_best_epoch_follows_the_rule_of_early_stopping() -> None:
    accuracies = [0.5, 0.6, 0.6005, math.nan, 0.605, 0.55]
    epochs = inputs.epochs([1.0] * 6, [1.0] * 6, accuracies)

    def best_epoch(stopping: dict[str, Any] | None, **goal: str) -> int:
        decides = monitored({"early_stopping": stopping, "goal": goal or None})
        assert decides is not None
        return best_epoch_of(epochs, decides)

    assert best_epoch({"monitor": "val_accuracy", "min_delta": 0.001}) == 5
    assert best_epoch({"monitor": "val_accuracy", "min_delta": 0.01}) == 2
    assert best_epoch(None) == 5
    assert best_epoch({"monitor": "val_loss", "min_delta": 0.0}) == 1
    assert best_epoch(None, metric="val_loss") == 1
    assert best_epoch(None, metric="val_accuracy", mode="min") == 1
    assert best_epoch({"monitor": "val_accuracy", "min_delta": 0.0}, metric="val_loss") == 5
    for one, value in zip(epochs, (6.0, 5.0, 4.0, 3.0, 2.0, 1.0), strict=True):
        one.values.update({"epoch_s": value, "samples_per_s": value})  # type: ignore[attr-defined]
    assert best_epoch({"monitor": "epoch_s", "min_delta": 0.0}) == 6, "a time is better when lower"
    assert best_epoch({"monitor": "samples_per_s", "min_delta": 0.0}) == 1


def curves(**values: list[float]) -> list[EpochFigures]:
    rows = [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]
    return [EpochFigures(epoch, row) for epoch, row in enumerate(rows, start=1)]


def test_a_script_is_judged_by_what_it_reports() -> None:
    script = {"code": "c", "early_stopping": None, "goal": None}
    assert monitored(script, ["mae", "val_mae", "epoch_s"]) == Monitored("val_mae", is_lower_better=True)
    assert monitored(script | {"goal": {"metric": "x", "mode": "max"}}) == Monitored("x", is_lower_better=False)
    assert monitored(script) is None
    assert learning_of(curves(val_mae=[1.0]), monitored(script), None) is None


def test_overfitting_of_another_metric_is_judged_in_its_direction() -> None:
    lower = Monitored("val_mae", is_lower_better=True)
    error = learned(curves(mae=FALLING, val_mae=RISING), lower)
    assert (error.overfits, error.overfits_by, error.best_epoch) == (True, "val_mae", 4)
    assert error.worsening == pytest.approx(RISING[-1] / 0.65 - 1)
    assert (error.val_loss_rise, error.train_last) == (None, FALLING[-1])

    score = curves(r2=[-value for value in FALLING], val_r2=[-value for value in RISING])
    higher = learned(score, Monitored("val_r2", is_lower_better=False))
    assert (higher.overfits, higher.best_epoch) == (True, 4)
    assert higher.worsening == pytest.approx(error.worsening)
    flat = learned(curves(mae=FALLING, val_mae=FLAT), lower)
    assert (flat.overfits, flat.overfits_by) == (False, None)


def test_the_best_epoch_of_a_script_is_that_of_what_early_stopping_monitors() -> None:
    stopping = {"monitor": "val_mae", "min_delta": 0.0, "patience": 3}
    spec = {"code": "0" * 64, "goal": {"metric": "val_iou"}, "early_stopping": stopping}
    reported = curves(val_mae=[0.5, 0.2, 0.3], val_iou=[0.5, 0.6, 0.7])
    by_goal = {"best_epoch": 3}

    for changes, best in (({}, ("val_mae", 2, 0.2)), ({"early_stopping": None}, ("val_iou", 3, 0.7))):
        learning = analysed(inputs.evidence(spec=spec | changes, epochs=reported, summary=by_goal)).learning
        assert learning is not None
        assert (learning.metric, learning.best_epoch, learning.best) == best


figures = st.floats(-1e6, 1e6)


@draws(st.lists(st.tuples(figures, figures), max_size=30))
def test_learning_is_known_for_any_losses(losses: list[tuple[float, float]]) -> None:
    epochs = inputs.epochs([a for a, _ in losses], [b for _, b in losses])

    assert (learning_of(epochs, GOAL, None) is None) == (losses == [])
