"""Advice on when to stop: by the metric that decides which epoch is the best, in its direction."""

from typing import Any

import pytest

from jobs.insight.advice.rules import advice_on
from jobs.views.analysis import FindingKind
from tests.unit.jobs.insight.advice_inputs import OVERFIT, a_job, after, learned, only

K = FindingKind
BY_LOSS: dict[str, Any] = OVERFIT | {
    "spec": {"early_stopping": None, "goal": {"metric": "val_loss"}},
    "learning": learned(8, 30, 0.2, 0.3, metric="val_loss", overfits=True),
}


def test_early_stopping_is_advised_if_many_epochs_follow_the_best() -> None:
    advice = only(a_job(**OVERFIT | {"learning": None}))
    assert advice.rule == "early_stopping"
    assert advice.change["early_stopping"]["patience"] == 3
    assert advice.evidence == {"after_best_share": 0.7, "epochs_after_best": 22, "epochs_run": 30, "patience": 3}
    assert advice.gain.time_factor == pytest.approx(1 - 0.7 * 19 / 22, abs=1e-4)
    assert advice.gain.accuracy is None
    assert "the 22 epochs after the best one (8) took 70 % of the training time" in advice.why


def test_gain_of_early_stopping_includes_accuracy_lost_to_overfitting() -> None:
    assert only(a_job(K.OVERFITS, **OVERFIT)).gain.accuracy == 0.04


def test_patience_covers_the_flat_stretches_before_the_best_epoch() -> None:
    flat = (0.5, 0.6, 0.6, 0.6, 0.6, 0.6, 0.7, 0.9, *[0.9] * 22)
    assert only(a_job(**OVERFIT, curves={"val_accuracy": flat})).change["early_stopping"]["patience"] == 5


def test_early_stopping_that_worked_is_left_alone() -> None:
    stopped = {"best_epoch": 4, "epochs_run": 7, "after_best_share": 0.43, "stopped_early": True}
    assert advice_on(a_job(summary=stopped)) == []
    assert advice_on(a_job(K.OVERFITS, summary=stopped, learning=learned(4, 7, 0.9, 0.85, overfits=True))) == []


def test_a_job_that_still_improved_is_not_told_to_stop() -> None:
    improved = {"best_epoch": 28, "epochs_run": 30, "after_best_share": 0.07, "stopped_early": False}
    assert advice_on(a_job(summary=improved, spec={"early_stopping": None})) == []


def test_too_much_patience_is_cut_to_what_the_curve_needs() -> None:
    summary = {"best_epoch": 10, "epochs_run": 40, "after_best_share": 0.75}
    patient = {"epochs": 100, "early_stopping": {"patience": 30}}
    advice = only(
        a_job(summary=summary, spec=patient, curves={"val_accuracy": tuple(i / 50 for i in range(10)) + (0.1,) * 30})
    )
    assert advice.change == {"early_stopping": {"patience": 3}}
    assert advice.gain.time_factor == pytest.approx(1 - 0.75 * 27 / 30)


def test_early_stopping_on_training_loss_is_switched_to_the_validation() -> None:
    summary = {"best_epoch": 30, "epochs_run": 30, "after_best_share": 0.0}
    spec = {"early_stopping": {"monitor": "loss"}}
    accuracies = (0.5, 0.6, 0.7, 0.8, 0.9, *[0.8] * 25)
    e = a_job(K.OVERFITS, spec=spec, summary=summary, curves={"val_accuracy": accuracies})
    advice = only(e)
    assert advice.change == {"early_stopping": {"monitor": "val_accuracy"}}
    assert (advice.gain.time_factor, advice.gain.accuracy) == (round(1 - 25 / 30 * 22 / 25, 4), 0.1)
    assert "the 25 epochs after the best one (5) took 83 % of the training time" in advice.why

    wants_loss = {"early_stopping": {"monitor": "loss"}, "goal": {"metric": "val_loss"}}
    losses = tuple(1 - accuracy for accuracy in accuracies)
    by_loss = only(a_job(spec=wants_loss, summary=summary, curves={"val_loss": losses}))
    assert by_loss.change == {"early_stopping": {"monitor": "val_loss"}}
    assert by_loss.gain.accuracy is None
    rising = {"val_accuracy": tuple(i / 100 for i in range(30))}
    assert advice_on(a_job(spec=spec, summary=summary, curves=rising)) == []
    chosen = wants_loss | {"goal": {"metric": "loss"}}
    assert advice_on(a_job(spec=chosen, summary=summary, curves={"loss": losses})) == [], "it is the goal"


def test_restoring_the_best_weights_is_advised() -> None:
    spec = {"early_stopping": {"restore_best_weights": False}}
    advice = only(a_job(spec=spec, learning=learned(20, 23, 0.93, 0.90)))
    assert advice.change == {"early_stopping": {"restore_best_weights": True}}
    assert advice.gain.accuracy == 0.03


def test_the_goal_is_what_early_stopping_monitors() -> None:
    falling = (0.5, 0.4, 0.4, 0.4, 0.4, 0.4, 0.3, 0.2, *[0.3] * 22)
    e = a_job(K.OVERFITS, **BY_LOSS, curves={"val_loss": falling, "val_accuracy": (0.9,) * 30})
    advice = only(e)
    stopping = advice.change["early_stopping"]
    assert (stopping["monitor"], stopping["patience"]) == ("val_loss", 5)
    assert advice.gain.accuracy is None, "the goal is no accuracy"
    assert after(e, advice).early_stopping.monitor == "val_loss"


def test_patience_follows_the_direction_of_the_goal() -> None:
    rising = tuple(i / 10 for i in range(8)) + (0.0,) * 22  # until the eighth epoch, by the mode of the goal
    best_last = BY_LOSS | {"spec": {"early_stopping": None, "goal": {"metric": "val_loss", "mode": "max"}}}
    assert only(a_job(**best_last, curves={"val_loss": rising})).change["early_stopping"]["patience"] == 3
    flat = (0.7, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.2, *[0.4] * 22)
    assert only(a_job(**BY_LOSS, curves={"val_loss": flat})).change["early_stopping"]["patience"] == 6


def test_too_much_patience_with_a_loss_is_cut() -> None:
    patient = {"epochs": 100, "early_stopping": {"patience": 30, "monitor": "val_loss"}}
    summary = {"best_epoch": 10, "epochs_run": 40, "after_best_share": 0.75}
    losses = (*(1 - i / 20 for i in range(10)), *[0.9] * 30)
    assert only(a_job(summary=summary, spec=patient, curves={"val_loss": losses})).change == {
        "early_stopping": {"patience": 3}
    }


def test_early_stopping_does_not_wait_for_a_speed() -> None:
    slow = OVERFIT | {"spec": {"early_stopping": None, "goal": {"metric": "samples_per_s"}}}
    assert advice_on(a_job(**slow)) == []


def test_the_weights_of_the_least_loss_are_worth_keeping_if_the_last_is_much_greater() -> None:
    spec = {"early_stopping": {"monitor": "val_loss", "restore_best_weights": False}}
    advice = only(a_job(spec=spec, learning=learned(20, 23, 0.2, 0.25, metric="val_loss")))
    assert advice.change == {"early_stopping": {"restore_best_weights": True}}
    assert (advice.gain.accuracy, advice.gain.text) == (None, "A val_loss of 0.2 instead of 0.25.")
    assert advice_on(a_job(spec=spec, learning=learned(20, 23, 0.2, 0.21, metric="val_loss"))) == []
