"""The advice rule about batch and learning rate: its evidence, and when it gives no advice."""

from dataclasses import replace
from typing import Any

import pytest

from jobs.insight.advice.batch import judged
from jobs.insight.advice.evidence import Evidence
from jobs.insight.advice.past import PastJob
from jobs.insight.advice.rules import advice_on
from jobs.model.plan import resolve_plan
from jobs.model.records import ProbeFindings
from jobs.model.states import EndReason, Status
from jobs.views.analysis import Finding, FindingKind, Imbalance
from tests.unit.jobs.insight.advice_inputs import OVERFIT, a_job, a_probe, after, only, past, shares

K = FindingKind
FAILED: dict[str, Any] = {"status": Status.FAILED, "summary": None, "past": ()}
OUT_OF_MEMORY = FAILED | {"end_reason": EndReason.OUT_OF_MEMORY}


def test_faster_measured_batch_is_advised_up_to_the_knee() -> None:
    faster = (
        past("b", 16_000.0, batch_size=128),
        past("c", 20_000.0, batch_size=256),
        past("d", 20_500.0, batch_size=512),
    )
    e = a_job(past=faster)
    advice = only(e)
    assert advice.rule == "batch_and_rate"
    assert advice.change == {"batch_size": 256, "lr_scaling": "sqrt", "base_batch": 128, "warmup_epochs": 3}
    assert resolve_plan(after(e, advice), None).learning_rate == pytest.approx(0.002)
    assert (advice.gain.time_factor, advice.gain.gpu_hours_factor, advice.gain.accuracy) == (0.5, 0.5, 0.0)
    assert "With 64 samples per GPU the throughput was 10000 samples/s, with 256 it was 20000" in advice.why
    probed = a_probe("p", {32: 20_000.0, 64: 30_000.0, 128: 45_000.0, 256: 46_000.0, 512: None})
    advice = only(a_job(past=(probed,)))  # batches of a probe are compared with the same probe
    assert (advice.change["batch_size"], advice.gain.time_factor) == (128, round(30 / 45, 4))


@pytest.mark.parametrize(
    ("spec", "figure", "value"),
    [
        ({"optimizer": "sgd"}, "learning_rate", 0.002),  # linear
        ({"lr_scaling": "two_thirds"}, "learning_rate", 0.001 * 4 ** (2 / 3)),  # as the spec says
        ({"steps_per_epoch": 100}, "steps_per_epoch", 50),  # an epoch has as many samples
    ],
)
def test_rate_and_steps_follow_a_larger_batch(spec: dict[str, Any], figure: str, value: float) -> None:
    e = a_job(spec=spec, past=(past("b", 20_000.0, batch_size=128, **spec),))
    assert getattr(resolve_plan(after(e, only(e)), None), figure) == pytest.approx(value)


def test_no_larger_batch_is_advised_that_costs_accuracy_memory_or_steps() -> None:
    few = {"dataset": {"fraction": 0.05}}  # 2700 samples: 21 steps of 128
    waiting = a_job(K.COMMUNICATION_BOUND, K.UNEVEN, steps=shares(0.0, 0.6))
    slow = Imbalance(figure="compute_s", by_rank={0: 0.1, 1: 0.2}, ratio=2.0, text="")
    cases = {
        "it lowered the accuracy": a_job(past=(past("b", 20_000.0, batch_size=128, summary={"val_accuracy": 0.89}),)),
        "it did not fit": a_job(past=(a_probe("p", {64: 30_000.0, 128: None}), past("b", 20_000.0, batch_size=128))),
        "it leaves too few steps": a_job(
            spec=few, summary={"train_samples_per_s": 100.0}, past=(past("b", 200.0, batch_size=256, **few),)
        ),
        "it was no faster": a_job(past=(a_probe("p", {64: 30_000.0, 128: 31_000.0}),)),
        "one rank is slower": replace(waiting, analysis=waiting.analysis.model_copy(update={"imbalances": [slow]})),
        "no batch is smaller": replace(a_job(spec={"batch_size": 1}), **OUT_OF_MEMORY),
    }
    for why, e in cases.items():
        assert advice_on(e) == [], why


def test_larger_batch_that_made_the_goal_worse_in_past_jobs_is_not_advised() -> None:
    def with_loss(val_loss: float, **goal: str) -> Evidence:
        spec = {"goal": {"metric": "val_loss", **goal}}
        other = past("b", 20_000.0, batch_size=128, summary={"val_loss": val_loss, "val_accuracy": 0.5}, **spec)
        return a_job(spec=spec, past=(other,))

    assert advice_on(with_loss(0.3)) == []
    assert advice_on(with_loss(0.1, mode="max")) == []
    advice = only(with_loss(0.21))
    assert advice.change["batch_size"] == 128
    assert advice.gain.accuracy is None, "the goal is a loss"

    def with_training_loss(best: float) -> dict[str, Any]:
        return {"metrics": {"loss": {"last": 9.0, "best": best}}}

    by_loss = {"goal": {"metric": "loss"}}
    worse = past("b", 20_000.0, batch_size=128, summary=with_training_loss(0.5), **by_loss)
    assert advice_on(a_job(spec=by_loss, summary=with_training_loss(0.4), past=(worse,))) == []
    assert len(advice_on(a_job(spec=by_loss, summary=with_training_loss(0.5), past=(worse,)))) == 1


def test_communication_share_decides_how_much_larger_a_batch_is_advised() -> None:
    e = a_job(K.COMMUNICATION_BOUND, steps=shares(0.0, 0.6))
    advice = only(e)
    assert (advice.rule, advice.change["batch_size"]) == ("batch_and_rate", 512)
    assert advice.evidence["communication_share"] == 0.6
    assert advice.gain.time_factor == pytest.approx(0.4 + 0.6 / 8)
    assert only(a_job(K.COMMUNICATION_BOUND, steps=shares(0.0, 0.3))).change["batch_size"] == 256


@pytest.mark.parametrize(("kind", "own"), [(K.UNDERUSED, 64), (K.COMPUTE_BOUND, 2)])
def test_probe_is_advised_for_underused_slots_until_a_larger_batch_was_compared(kind: FindingKind, own: int) -> None:
    spec = {"batch_size": own}
    e = a_job(kind, spec=spec)
    advice = only(e)
    assert advice.change == {"probe": {}}
    probe = after(e, advice).probe
    assert probe is not None
    assert advice.gain.time_factor is None
    assert [one.kind for one in judged(e).findings] == [K.UNDERUSED]

    def probed(least: int, speed: float) -> Evidence:
        batches = [batch for batch in probe.batches(own) if least <= batch <= 8 * own]
        speeds = {batch: 10_000.0 if batch == own else speed for batch in batches}
        return a_job(kind, spec=spec, past=(a_probe("p", speeds, **spec),))

    assert only(probed(own + 1, 30_000.0)).change == {"probe": {}}, "the job's own batch is not in it"
    assert advice_on(probed(1, 10_100.0)) == []
    assert [one.kind for one in judged(probed(1, 10_100.0)).findings] == [kind]
    faster = probed(1, 30_000.0)
    advice = only(faster)
    assert (advice.change["batch_size"], advice.gain.time_factor) == (2 * own, 0.3333)
    assert [(one.kind, one.text) for one in judged(faster).findings if kind is K.COMPUTE_BOUND] in (
        [], [(K.UNDERUSED, advice.why)],
    )  # fmt: skip


def test_job_out_of_memory_is_advised_a_batch_that_fitted_else_half() -> None:
    def changed(past_jobs: tuple[PastJob, ...] = (), **spec: Any) -> dict[str, Any]:
        return only(replace(a_job(spec=spec), **OUT_OF_MEMORY | {"past": past_jobs})).change

    assert changed() == {"batch_size": 32, "accumulate": 2}
    assert changed((past("b", batch_size=16),)) == {"batch_size": 16, "accumulate": 4}
    odd = (past("b", batch_size=48),)  # 64 is no multiple of it, so the rate is lower
    assert changed(odd) == {"batch_size": 48, "learning_rate": 0.000866}
    assert changed(odd, lr_scaling="linear") == {"batch_size": 48, "base_batch": 64}
    scaled = a_job(spec={"lr_scaling": "linear", "batch_per": "global"})
    advice = only(replace(scaled, **OUT_OF_MEMORY))
    assert advice.change == {"accumulate": 2, "base_batch": 32}
    before, then = resolve_plan(scaled.spec, None), resolve_plan(after(scaled, advice), None)
    assert (before.per_gpu_batch, then.per_gpu_batch) == (32, 16)
    assert (before.learning_rate, before.global_batch) == (then.learning_rate, then.global_batch) == (0.002, 64)


def test_lower_rate_is_advised_if_the_loss_is_nan() -> None:
    error = "the loss is nan at step 3 (epoch 1): try a lower learning rate"
    failed = FAILED | {"end_reason": EndReason.INTERNAL_ERROR, "error": error}
    assert only(replace(a_job(), **failed)).change == {"learning_rate": 0.0001}
    lower = past("b", learning_rate=0.0005)
    assert only(replace(a_job(), **failed | {"past": (lower,)})).change == {"learning_rate": 0.0005}
    scaled = only(replace(a_job(spec={"lr_scaling": "linear"}), **failed))
    assert scaled.change == {"learning_rate": 0.0001, "warmup_epochs": 3}
    assert advice_on(replace(a_job(), **failed | {"error": "a rank died"})) == []


def test_lower_rate_is_advised_while_and_after_a_job_learns_nothing() -> None:
    for status in (Status.RUNNING, Status.SUCCEEDED, Status.CANCELLED):
        wasteful = a_job(FindingKind.NOT_LEARNING, **OVERFIT)  # what would make it shorter is not advised
        advice = only(replace(wasteful, status=status))
        assert (advice.change, advice.why) == ({"learning_rate": 0.0001}, "It is not_learning.")
    past_jobs = (past("b", learning_rate=0.0005, summary={"val_loss": None}), past("c", learning_rate=0.0002))
    finding = Finding(kind=FindingKind.NOT_LEARNING, text="It is stuck.", evidence={"loss_of_guess": 2.303})
    e = a_job(past=past_jobs)
    e = replace(e, analysis=e.analysis.model_copy(update={"findings": [finding]}))
    advice = only(e)
    assert advice.change == {"learning_rate": 0.0002}, "the other one is not known to have learned"
    assert advice.why == "It is stuck. A job with the same work trained with 0.0002."


def test_training_with_the_proposed_batch_and_rate_is_advised_after_a_probe() -> None:
    found = a_probe("p", {64: 10_000.0, 256: 25_000.0}).probe
    assert found is not None
    found = found.model_copy(update={"batch_size": 256, "learning_rate": 0.002, "why": "It grew."})
    e = replace(a_job(spec={"probe": {}}), summary=None, past=(), probe=found)
    advice = only(e)
    assert advice.change == {"probe": None, "batch_size": 256, "learning_rate": 0.002}
    assert (advice.why, advice.gain.time_factor) == ("It grew.", 0.4)
    assert after(e, advice).probe is None
    assert advice_on(replace(e, probe=ProbeFindings(points=[]))) == []
