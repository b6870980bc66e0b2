"""Advice on when to stop: by the metric that decides which epoch is the best, in its direction."""

from typing import Any

import pytest

from jobs.insight.advice.evidence import Evidence
from jobs.insight.advice.rules import advice_on
from jobs.lifecycle.site_policy import SitePolicy
from jobs.model.plan import resolve_plan
from jobs.model.spec import spec_from
from jobs.model.states import Status
from jobs.views.analysis import FindingKind, LedgerItem
from tests.unit.jobs.insight.advice_inputs import OVERFIT, a_job, after, an_analysis, learned, only

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
    assert only(a_job(K.OVERFITS, **OVERFIT)).gain.accuracy == 0.04, "what overfitting cost"


def test_early_stopping_is_advised_if_a_metric_is_flat_but_for_noise() -> None:
    best_late = {"best_epoch": 29, "epochs_run": 30, "after_best_share": 0.03, "stopped_early": False}
    rising = tuple(i / 11 for i in range(1, 11))
    noisy = (*rising, *[rising[-1] - 0.004] * 10, *[rising[-1] + 0.005] * 10)
    spec = {"early_stopping": None}
    advice = only(a_job(summary=best_late, spec=spec, curves={"val_accuracy": noisy}))
    assert (advice.change["early_stopping"]["patience"], advice.gain.accuracy) == (3, -0.005)
    wasted = "the 20 epochs after epoch 10 improved val_accuracy by 0.005 at most and took 67 % of the training time"
    assert wasted in advice.why
    late = (*rising[:-1], *[0.9] * 10, *[0.92] * 11)
    for curve in (tuple(i / 30 for i in range(30)), late):  # more than noise is gained, at last
        assert advice_on(a_job(summary=best_late, spec=spec, curves={"val_accuracy": curve})) == []
    worse = [0.9 - i / 100 for i in range(10)]
    losses = (*worse, *[worse[-1] + 0.002] * 10, *[worse[-1] - 0.006] * 10)
    by_loss = spec | {"goal": {"metric": "val_loss"}}
    advice = only(a_job(summary=best_late, spec=by_loss, curves={"val_loss": losses}))
    assert "the 20 epochs after epoch 10 improved val_loss by 0.006 at most" in advice.why


def test_no_early_stopping_is_advised_where_none_would_help() -> None:
    stopped = {"best_epoch": 4, "epochs_run": 7, "after_best_share": 0.43, "stopped_early": True}
    improved = {"best_epoch": 28, "epochs_run": 30, "after_best_share": 0.07, "stopped_early": False}
    speed = {"early_stopping": None, "goal": {"metric": "samples_per_s"}}
    nothing = an_analysis(K.COMPUTE_BOUND, K.INPUT_BOUND)
    cases = {
        "it worked": a_job(summary=stopped),
        "it worked, and the job overfits": a_job(
            K.OVERFITS, summary=stopped, learning=learned(4, 7, 0.9, 0.85, overfits=True)
        ),
        "the job still improved": a_job(summary=improved, spec={"early_stopping": None}),
        "the goal is a speed": a_job(**OVERFIT | {"spec": speed}),
        "a script lost little time": a_script(K.OVERFITS, after_best_s=5.0),
        "a script may yet improve": a_script(K.OVERFITS, status=Status.RUNNING),
        "a script has no such finding": a_script(analysis=nothing),
        "a script reports no metric": a_script(spec={"goal": None}, metrics=()),
    }
    for why, e in cases.items():
        assert advice_on(e) == [], why


RISING = tuple(i / 10 for i in range(8)) + (0.0,) * 22  # until the eighth epoch, by the mode of the goal


@pytest.mark.parametrize(
    ("goal", "curve", "patience"),
    [
        (None, (0.5, 0.6, 0.6, 0.6, 0.6, 0.6, 0.7, 0.9, *[0.9] * 22), 5),
        ({"metric": "val_loss", "mode": "max"}, RISING, 3),
        ({"metric": "val_loss"}, (0.7, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.2, *[0.4] * 22), 6),
    ],
)
def test_patience_covers_the_flat_stretches_before_the_best_epoch(
    goal: dict[str, str] | None, curve: tuple[float, ...], patience: int
) -> None:
    job = BY_LOSS if goal else OVERFIT
    spec = {"early_stopping": None} | ({"goal": goal} if goal else {})
    metric = "val_loss" if goal else "val_accuracy"
    e = a_job(**job | {"spec": spec}, curves={metric: curve})
    advice = only(e)
    assert advice.change["early_stopping"]["patience"] == patience
    assert after(e, advice).early_stopping.monitor == metric, "the goal is what early stopping monitors"
    assert goal is None or advice.gain.accuracy is None, "the goal is no accuracy"


@pytest.mark.parametrize(
    ("monitor", "curve"),
    [
        ("val_accuracy", tuple(i / 50 for i in range(10)) + (0.1,) * 30),
        ("val_loss", (*(1 - i / 20 for i in range(10)), *[0.9] * 30)),
    ],
)
def test_too_much_patience_is_cut_to_what_the_curve_needs(monitor: str, curve: tuple[float, ...]) -> None:
    summary = {"best_epoch": 10, "epochs_run": 40, "after_best_share": 0.75}
    patient = {"epochs": 100, "early_stopping": {"patience": 30, "monitor": monitor}}
    advice = only(a_job(summary=summary, spec=patient, curves={monitor: curve}))
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


def test_restoring_the_best_weights_is_advised_if_the_last_are_much_worse() -> None:
    by_accuracy = {"early_stopping": {"restore_best_weights": False}}
    advice = only(a_job(spec=by_accuracy, learning=learned(20, 23, 0.93, 0.90)))
    assert advice.change == {"early_stopping": {"restore_best_weights": True}}
    assert advice.gain.accuracy == 0.03
    spec = {"early_stopping": {"monitor": "val_loss", "restore_best_weights": False}}
    advice = only(a_job(spec=spec, learning=learned(20, 23, 0.2, 0.25, metric="val_loss")))
    assert advice.change == {"early_stopping": {"restore_best_weights": True}}
    assert (advice.gain.accuracy, advice.gain.text) == (None, "A val_loss of 0.2 instead of 0.25.")
    assert advice_on(a_job(spec=spec, learning=learned(20, 23, 0.2, 0.21, metric="val_loss"))) == []


MAES = (5.0, 3.0, 2.0, 1.0, 0.9, 0.5, *[0.8] * 4)


def a_script(*kinds: FindingKind, after_best_s: float = 90.0, **changes: Any) -> Evidence:
    """Evidence on a script of ten epochs, the sixth of which was its best. `spec` changes its spec."""
    document = {"code": "0" * 64, "command": ["python", "train.py"], "gpus": 2, "goal": {"metric": "val_mae"}}
    spec = spec_from(document | changes.pop("spec", {}))
    analysis = an_analysis(*kinds, learning=learned(6, 10, 0.5, 0.8, metric="val_mae"))
    spent = {LedgerItem.SET_UP: 30.0, LedgerItem.USEFUL: 50.0, LedgerItem.DATA_WAIT: 10.0}
    ledger = analysis.ledger.model_copy(update={"items": spent | {LedgerItem.AFTER_BEST: after_best_s}})
    fields: dict[str, Any] = {
        "status": Status.SUCCEEDED,
        "analysis": analysis.model_copy(update={"ledger": ledger}),
        "metrics": ("mae", "val_mae"),
        "curves": {"val_mae": MAES},
        "site": SitePolicy(runs_code=True),
    }
    return Evidence(job_id="own", spec=spec, plan=resolve_plan(spec, None), **fields | changes)


def test_a_script_that_ran_on_after_its_best_epoch_is_advised_to_stop_early() -> None:
    e = a_script(K.OVERFITS)
    advice = only(e)
    assert advice.rule == "early_stopping"
    assert advice.change == {"early_stopping": {"monitor": "val_mae", "patience": 3, "min_delta": 0.0}}
    assert "run.should_stop()" in advice.what
    assert "the 4 epochs after the best one (6) took 60 % of the training time" in advice.why
    assert advice.gain.time_factor == pytest.approx(1 - 0.6 / 4)
    assert advice.gain.accuracy is None
    stopping = after(e, advice).early_stopping
    assert (stopping.monitor, stopping.restore_best_weights) == ("val_mae", False)
    assert only(a_script(spec={"goal": None})).change["early_stopping"]["monitor"] == "val_mae", "of its metrics"
    patient = only(a_script(spec={"early_stopping": {"monitor": "val_mae", "patience": 9}}))
    assert patient.change == {"early_stopping": {"patience": 3}}
    assert "run.should_stop()" in patient.what
