"""The findings about a job: one for each fault, with its figures. A healthy job has no fault."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from jobs.insight.analysis.analyse import analysed
from jobs.insight.analysis.evidence import Evidence, LongStep, RankStep, Steps
from jobs.views.analysis import Finding, FindingKind
from tests.unit.jobs.insight import analysis_inputs as inputs

K = FindingKind
BUSY = np.full(120, 95.0)


def kinds(evidence: Evidence) -> list[FindingKind]:
    return [finding.kind for finding in analysed(evidence).findings]


def the_one(evidence: Evidence) -> Finding:
    (finding,) = analysed(evidence).findings
    return finding


def on_gpus(*busy: Any, step: tuple[Any, Any, Any] = (0.1, 0.0, 0.0), **fields: Any) -> Evidence:
    """A job on GPUs with these utilizations, one for each rank."""
    ranks = len(busy)
    samples = [inputs.samples(one, rank=rank, **fields) for rank, one in enumerate(busy)]
    columns = [np.broadcast_to(np.asarray(one, float), ranks) for one in step]
    runs = [inputs.a_run(slots=ranks, count=1201)]
    return inputs.evidence(inputs.steps(*columns, count=1200), on_gpu=True, samples=samples, runs=runs)


def test_compute_bound_job_has_no_other_finding() -> None:
    finding = the_one(inputs.evidence(inputs.steps([0.1, 0.1], [0.01, 0.0], [0.015, 0.025])))

    assert finding.kind is K.COMPUTE_BOUND
    assert finding.text == "Steps spend 75 % of their time computing."
    assert the_one(on_gpus(BUSY, BUSY)).kind is K.COMPUTE_BOUND


@pytest.mark.parametrize(("busy", "found"), [(95.0, True), (1.0, False), (None, False)])
def test_a_script_on_cpu_slots_is_compute_bound_only_if_its_ranks_are_busy(busy: float | None, found: bool) -> None:
    samples = [] if busy is None else [inputs.samples(np.full(120, busy), metric="cpu_percent")]
    runs = [inputs.a_run(count=1201)]
    fields: dict[str, Any] = {"samples": samples, "runs": runs}
    script = inputs.evidence(inputs.steps(0.1, count=1200), spec={"code": "0" * 64}, **fields)

    assert kinds(script) == ([K.COMPUTE_BOUND] if found else [])
    assert kinds(inputs.evidence(inputs.steps(0.1, count=1200), **fields)) == [K.COMPUTE_BOUND], "in Hora's own loop"


def held_up(time_s: float, column: str, step_s: float, *which: int) -> Steps:
    """Steps of 0.1 s of two ranks, some of which took longer by a wait of this time."""
    made = inputs.steps([0.1, 0.1], 0.0, [0.02, 0.02])
    for step in which:
        made.time_s[step], getattr(made, column)[step] = step_s, time_s
    return made


@pytest.mark.parametrize(
    "healthy",
    [
        inputs.steps(0.1, 0.08, count=20),  # too few steps to tell
        inputs.steps(0.001, 0.0008, count=100),  # a tenth of a second of training
        inputs.steps([0.1, 0.1], 0.0, [0.035, 0.045]),  # the exchange takes less than half of the step
        held_up(7.9, "data_wait_s", 8.0, 50),  # one long wait
        held_up(0.42, "allreduce_s", 0.5, *range(60)),  # the exchange was held up in some steps
    ],
)
def test_short_jobs_and_some_waits_are_no_fault(healthy: Steps) -> None:
    assert set(kinds(inputs.evidence(healthy))) <= {K.COMPUTE_BOUND}


def test_a_job_that_waits_or_exchanges_is_bound_by_that() -> None:
    data = the_one(inputs.evidence(inputs.steps([0.1, 0.1], [0.06, 0.0], [0.0, 0.06])))
    assert data.kind is K.INPUT_BOUND
    assert data.evidence == {"data_wait_share": 0.6, "step_time_s": 0.1, "steps": 100}

    exchange = the_one(inputs.evidence(inputs.steps([0.1, 0.1], 0.0, [0.08, 0.085])))
    assert exchange.kind is K.COMMUNICATION_BOUND
    assert (exchange.evidence["communication_share"], exchange.evidence["basis"]) == (0.8, "measured")

    assert the_one(inputs.evidence(inputs.steps([0.1, 0.1], 0.0, [0.0, 0.05]))).kind is K.UNEVEN

    late = [inputs.a_run(leased_at=900.0)]
    assert K.SET_UP_BOUND in kinds(inputs.evidence(inputs.steps(0.1), runs=late))
    assert K.SET_UP_BOUND not in kinds(inputs.evidence(inputs.steps(0.1), runs=late, ended=False))


def test_idle_gpus_are_underused_unless_they_wait() -> None:
    idle = the_one(on_gpus(BUSY * 0.3))
    assert idle.kind is K.UNDERUSED
    assert idle.text == "The GPUs are busy 28 % of the time and wait neither for data nor for each other."
    assert kinds(on_gpus(BUSY * 0.3, step=(0.1, 0.07, 0.0))) == [K.INPUT_BOUND]


def test_backward_pass_on_gpus_is_not_counted_as_communication() -> None:
    evidence = on_gpus(BUSY, BUSY, step=(0.1, 0.0, 0.09))

    assert kinds(evidence) == [K.COMPUTE_BOUND]
    assert analysed(evidence).ledger.items["communication"] == 0
    slower = replace(evidence, one_gpu_step_s=0.03)
    assert kinds(slower) == [K.COMMUNICATION_BOUND]
    assert analysed(slower).ledger.items["communication"] == pytest.approx(2 * 120 * 0.7)


def test_stalled_job_is_found_and_its_stalled_time_counts_once() -> None:
    long = LongStep(51, 1035.1, 30.1, [RankStep(0, 30.05, 0.0)])
    run = inputs.a_run(long_steps=[long], ended_at=1041.2)
    epoch = replace(run.epochs[0], ended_at=1040.2)
    made = inputs.steps(0.1)
    made.time_s[made.number == 51], made.data_wait_s[made.number == 51] = 30.1, 30.05
    samples = [inputs.samples([95.0] * 5 + [5.0] * 30 + [95.0] * 60)]
    analysis = analysed(inputs.evidence(made, runs=[replace(run, epochs=[epoch])], samples=samples))

    finding = analysis.findings[0]
    assert finding.kind is K.STALLED
    assert finding.text == "The job stood still for 30.0 s after step 50 (a step takes 0.1 s): it waited for data."
    assert [stall.use_percent for stall in analysis.stalls] == [pytest.approx(5.0, abs=4)]
    assert K.INPUT_BOUND not in [one.kind for one in analysis.findings]
    assert analysis.ledger.items["stalled"] == pytest.approx(30.0)
    assert analysis.ledger.items["data_wait"] == 0
    assert sum(analysis.ledger.items.values()) == pytest.approx(analysis.ledger.leased_s)


def test_a_job_whose_validation_loss_rises_overfits() -> None:
    losses = [2.0 * 0.8**epoch for epoch in range(20)]
    val_losses = [1.0, 0.8, 0.7, 0.65, *(0.65 + 0.03 * epoch for epoch in range(1, 17))]

    finding = the_one(inputs.evidence(epochs=inputs.epochs(losses, val_losses)))

    assert finding.kind is K.OVERFITS
    assert finding.evidence["epochs_after_best"] == 16
    assert finding.text.startswith("The validation loss rose 74 % above its minimum")


@pytest.mark.parametrize(
    ("losses", "count"),
    [
        ([2.4, 2.31, 2.305, 2.31], 4),
        ([9.0, 5.0, 3.0], 0),  # it falls, and may go on
        ([31717.0, 224.3, 180.8, 180.2], 4),
        ([2.4, 2.5], 0),
        ([2.4, 2.5, 2.4, 2.30], 0),
        ([2.2, 2.31, 2.4, 2.35], 3),  # worse than before
    ],
)
def test_a_loss_above_that_of_a_guess_is_a_rate_that_is_too_high(losses: list[float], count: int) -> None:
    spec = {**inputs.SPEC, "model": {"name": "mlp"}}
    fields = {
        "spec": spec,
        "plan": {"learning_rate": 5.0, "steps_per_epoch": 10},
        "classes": 10,
        "epochs": inputs.epochs(losses, losses),
    }
    findings = analysed(inputs.evidence(**fields, ended=False)).findings
    assert [one.evidence["epochs"] for one in findings] == [count] * (count > 0)
    for one in findings:
        assert one.kind is K.NOT_LEARNING
        assert one.text.startswith(f"The training loss has been above 2.303 for {count} epochs ({losses[-1]:.4g} in")
        assert one.text.endswith("The learning rate of 5 is probably too high.")
    falling = inputs.evidence(**fields | {"epochs": inputs.epochs([9.0, 5.0, 3.0], [9.0, 5.0, 3.0])})
    assert K.NOT_LEARNING in kinds(falling), "it has ended, so it does not go on"
    slow = inputs.evidence(**fields | {"epochs": inputs.epochs([2.9, 2.6, 2.4], [2.9, 2.6, 2.4])})
    assert K.NOT_LEARNING not in kinds(slow), "it had too few epochs"
    for other in (
        {"spec": spec | {"class_weights": {"a": 2}}}, {"spec": spec | {"model": {"name": "own:build"}}},
        {"spec": spec | {"code": "9" * 64}}, {"classes": None}, {"plan": {}},
        {"plan": {"learning_rate": 1e-6, "steps_per_epoch": 100}},
    ):  # fmt: skip
        assert K.NOT_LEARNING not in kinds(inputs.evidence(**fields | other))


def test_gpus_with_a_swinging_load_are_spiky() -> None:
    wave = np.where(np.arange(120) % 12 < 8, 100.0, 0.0)

    finding = next(one for one in analysed(on_gpus(wave)).findings if one.kind is K.SPIKY)

    assert finding.evidence["period_s"] == pytest.approx(12, rel=0.05)
    assert K.SPIKY not in kinds(on_gpus(wave[:20]))  # too short to tell
    assert kinds(on_gpus(wave, step=(0.1, 0.08, 0.0))) == [K.INPUT_BOUND, K.SPIKY], "what takes the most time is first"


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"throttle": {"thermal": 60, "power": 0, "hardware": 0}}, True),
        ({"throttle": {"thermal": 6, "power": 0, "hardware": 0}}, False),
        ({"throttle": {"thermal": 0, "power": 120, "hardware": 0}}, False),
        ({"throttle": {"power": 120}, "throttled_clock_mhz": 1900.0, "greatest_clock_mhz": 1980.0}, False),
        ({"throttle": {"power": 120}, "throttled_clock_mhz": 1200.0, "greatest_clock_mhz": 1980.0}, True),
    ],
)
def test_gpu_is_throttled_only_if_the_slowdown_costs_speed(fields: dict[str, Any], named: bool) -> None:
    assert (K.THROTTLED in kinds(on_gpus(BUSY, **fields))) == named
