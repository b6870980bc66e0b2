"""The rule about batch and rate. Called by `jobs.insight.advice.rules`, `judged` by the api. Pure.

Measurements come first: other jobs with the same work, and batch probes. If a job communicates too much, its own steps
show what a larger batch brings. If nothing was measured and slots have, or may have, capacity left, the advice is a
probe.
"""

import math
from statistics import fmean
from typing import Any

from jobs.insight.advice.changes import changed, is_possible, lower_rate, more_batches, smaller_batch, times_batch
from jobs.insight.advice.evidence import ACCURACY, WORTH, Evidence, Proposal, gain, less_time, percent
from jobs.insight.advice.past import PastJob
from jobs.insight.advice.warnings import FEWEST_STEPS
from jobs.model.plan import batches_in_batch_size, resolve_plan
from jobs.model.records import Summary
from jobs.model.spec import ProbeSpec
from jobs.model.states import EndReason, Status
from jobs.views.advice import Rule
from jobs.views.analysis import Analysis, Finding, FindingKind

_SMALL = 8  # samples of a GPU in a step: its fixed costs, such as starting each kernel, may take most of its time
FACTORS = (2, 4, 8)  # a rate follows a batch this far; beyond it is a different training
_AT_THE_KNEE = 1.05  # the smallest batch whose throughput is this close to the best is large enough
_LITTLE = 0.1  # this share of a step in allreduce is no reason for a larger batch
_LOST_ACCURACY = 0.02  # what a larger batch may have cost past jobs of the goal, if that is an accuracy
_LOST_SHARE = 0.1  # the same of another goal, as a share of it
_RATE_STEP = 10  # the step in which rates are searched


def batch_and_rate(e: Evidence) -> Proposal | None:
    """Propose another batch and a rate that fits it."""
    if e.spec.is_script:
        return None  # nobody knows whether it uses the plan's batch
    if e.status is Status.FAILED:
        return _smaller_batch(e) or _rate_that_is_finite(e) or _rate_that_learns(e)
    if e.spec.probe is not None:
        return _batch_of_the_probe(e)
    if (lower := _rate_that_learns(e)) is not None:
        return lower
    if e.finding(FindingKind.INPUT_BOUND) is not None:
        return None  # more samples a step would mean longer waits
    return _measured_batch(e) or _fewer_messages(e) or _a_probe(e)


def _smaller_batch(e: Evidence) -> Proposal | None:
    if e.end_reason is not EndReason.OUT_OF_MEMORY:
        return None
    own_batch = e.plan.per_gpu_batch
    fitting = [batch for batch in e.throughput.batches(e.plan.gpus) if batch < own_batch]
    per_gpu = max(fitting, default=own_batch // 2)
    if per_gpu < 1:
        return None
    figures = {"per_gpu_batch": own_batch, "largest_that_fitted": max(fitting, default=None)}
    reason = f"It ran out of memory with {own_batch} samples per GPU" + (
        f"; {per_gpu} fitted before." if fitting else "."
    )
    factor, rest = divmod(own_batch, per_gpu)
    if rest == 0:
        change = more_batches(e.spec, factor)
        action = f"Use batches of {per_gpu} per GPU, {factor} for each that there was: the global batch and rate stay."
    else:
        change = smaller_batch(e.spec, per_gpu * batches_in_batch_size(e.spec))
        action = f"Use a batch of {per_gpu} per GPU, with a rate lowered to match."
    return Proposal(Rule.BATCH_AND_RATE, action, reason, figures, change, gain("It is more likely to fit into memory."))


def _rate_that_is_finite(e: Evidence) -> Proposal | None:
    # The trainer's own words: `trainer.errors.Diverged`.
    if e.error is None or "the loss is" not in e.error or "learning rate" not in e.error:
        return None
    return _lower_rate(e, f"The loss was no longer a number with a rate of {e.plan.learning_rate:g}.")


def _rate_that_learns(e: Evidence) -> Proposal | None:
    finding = e.finding(FindingKind.NOT_LEARNING)
    if finding is None:
        return None
    guess = finding.evidence.get("loss_of_guess")
    return _lower_rate(e, finding.text, most_loss=guess if isinstance(guess, float) else None)


def _lower_rate(e: Evidence, reason: str, *, most_loss: float | None = None) -> Proposal:
    """The largest rate below the job's with which past jobs came to a loss below `most_loss`; else a tenth of it."""
    own_rate = e.plan.learning_rate
    lower = [
        job.plan.learning_rate
        for job in e.alike
        if job.spec.optimizer == e.spec.optimizer
        and job.plan.learning_rate < own_rate
        and job.spec.probe is None
        and (most_loss is None or _loss_of(job) < most_loss)
    ]
    rate = max(lower, default=own_rate / _RATE_STEP)
    change = lower_rate(e.spec, rate / e.plan.lr_factor)
    figures = {"learning_rate": own_rate, "largest_that_trained": max(lower, default=None)}
    if lower:
        reason += f" A job with the same work trained with {rate:g}."
    warmup = " with a warm-up" if "warmup_epochs" in change else ""
    action = f"Lower the learning rate to {rate:.3g}{warmup}."
    return Proposal(Rule.BATCH_AND_RATE, action, reason, figures, change, gain("It is more likely to train."))


def _loss_of(job: PastJob) -> float:
    """The validation loss that a job reached; infinite if it is not known."""
    loss = None if job.summary is None else job.summary.val_loss
    return math.inf if loss is None else loss


def _batch_of_the_probe(e: Evidence) -> Proposal | None:
    probe = e.probe
    if e.status is not Status.SUCCEEDED or probe is None or probe.batch_size is None:  # it may resume
        return None
    change: dict[str, Any] = {"probe": None}
    if probe.batch_size != e.spec.batch_size:
        change["batch_size"] = probe.batch_size
    if probe.learning_rate is not None and probe.learning_rate != e.spec.learning_rate:
        change["learning_rate"] = probe.learning_rate
    speeds = {point.per_gpu_batch: point.samples_per_s for point in probe.points if point.fits}
    plan = resolve_plan(e.spec, None)
    after = changed(e.spec, change)
    proposed_speed = None if after is None else speeds.get(resolve_plan(after, None).per_gpu_batch)
    own_speed = speeds.get(plan.per_gpu_batch)
    factor = own_speed / proposed_speed if own_speed and proposed_speed else None
    text = "The throughput that the probe measured." if factor is None else f"{1 / factor:.2g}x the samples per second."
    figures = {"knee_batch": probe.knee_batch, "largest_batch": probe.largest_batch, "batch_size": probe.batch_size}
    action = f"Train with the batch that the probe proposes: {probe.batch_size}."
    reason = probe.why or "The probe measured batch by batch."
    return Proposal(Rule.BATCH_AND_RATE, action, reason, figures, change, gain(text, time=factor))


def _possible_factors(e: Evidence) -> list[int]:
    """Factors by which the batch may grow: an epoch keeps enough steps, and no probe found the batch too large."""
    too_large = [point.per_gpu_batch for job in e.alike if job.probe for point in job.probe.points if not point.fits]
    own, steps = e.plan.per_gpu_batch, e.plan.steps_per_epoch
    return [
        factor
        for factor in FACTORS
        if is_possible(e.spec, times_batch(e.spec, factor), e.site, e.sizes)
        and not any(own * factor >= batch for batch in too_large)
        and (steps is None or steps // factor >= FEWEST_STEPS)
    ]


def _measured_batch(e: Evidence) -> Proposal | None:
    """Propose the smallest batch close to the best throughput of jobs and probes on as many GPUs."""
    own_batch = e.plan.per_gpu_batch
    speeds = {factor: pair for factor in _possible_factors(e) if (pair := _speeds(e, factor)) is not None}
    ratios = {factor: larger / own_speed for factor, (own_speed, larger) in speeds.items()}
    best = max(ratios.values(), default=1.0)
    factor = next((factor for factor, ratio in ratios.items() if ratio * _AT_THE_KNEE >= best), 1)
    if 1 - 1 / ratios.get(factor, 1.0) < WORTH:
        return None
    ratio, (own_speed, larger_speed) = ratios[factor], speeds[factor]
    figures = {
        "per_gpu_batch": own_batch,
        "samples_per_s": round(own_speed, 1),
        "larger_batch": own_batch * factor,
        "larger_samples_per_s": round(larger_speed, 1),
    }
    reason = (
        f"With {own_batch} samples per GPU the throughput was {own_speed:.0f} samples/s, with {own_batch * factor} it "
        f"was {larger_speed:.0f}, for the same work on as many GPUs."
    )
    levels = _levels(e, own_batch * factor) if e.goal == ACCURACY else None
    accuracy = None if levels is None else levels[1] - levels[0]
    expected_gain = gain(less_time(1 / ratio, " for the same number of epochs"), time=1 / ratio, accuracy=accuracy)
    return _larger(e, factor, reason, figures, expected_gain)


def _speeds(e: Evidence, factor: int) -> tuple[float, float] | None:
    """Throughput with the job's batch and with a larger one, from trainings, else from probes.

    None if either was not measured, or if the larger batch made past jobs worse.
    """
    gpus, own = e.plan.gpus, e.plan.per_gpu_batch
    if _made_worse(e, own * factor):
        return None
    for source in (e.trained, e.probed):
        current, larger = source.at(gpus, own), source.at(gpus, own * factor)
        if current is not None and larger is not None and current.measured and larger.measured:
            return current.mean, larger.mean
    return None


def _made_worse(e: Evidence, per_gpu_batch: int) -> bool:
    """Whether past jobs with another batch came to a clearly worse value of the goal."""
    goal, levels = e.goal, _levels(e, per_gpu_batch)
    if goal is None or levels is None:
        return False
    here, there = levels
    lost = there - here if e.spec.is_lower_better(goal) else here - there
    return lost > (_LOST_ACCURACY if goal == ACCURACY else _LOST_SHARE * abs(here))


def _levels(e: Evidence, per_gpu_batch: int) -> tuple[float, float] | None:
    """The goal of past jobs on as many GPUs and samples: the mean with the job's batch, and with another one."""

    def reached(batch: int) -> list[float]:
        return [
            value
            for job in e.alike
            if (value := _reached(job.summary, e.goal)) is not None
            and (job.plan.gpus, job.plan.per_gpu_batch) == (e.plan.gpus, batch)
            and job.plan.train_samples == e.plan.train_samples
        ]

    here, there = reached(e.plan.per_gpu_batch), reached(per_gpu_batch)
    return (fmean(here), fmean(there)) if here and there else None


def _reached(summary: Summary | None, goal: str | None) -> float | None:
    """The value of a goal that a job reached: that of the kept weights where it is measured, else the best one."""
    if summary is None or goal is None:
        return None
    kept = {"val_accuracy": summary.val_accuracy, "val_loss": summary.val_loss}
    if goal in kept:
        return kept[goal]
    return summary.metrics[goal].best if goal in summary.metrics else None


def _fewer_messages(e: Evidence) -> Proposal | None:
    """Propose a larger batch if communication takes the time: it sends fewer messages for as many samples."""
    share, finding = _communication_share(e), e.finding(FindingKind.COMMUNICATION_BOUND)
    uneven = any(one.figure == "compute_s" for one in e.analysis.imbalances)  # the others wait for slower ranks
    if share is None or finding is None or uneven:
        return None
    if max(e.throughput.batches(e.plan.gpus), default=0) > e.plan.per_gpu_batch:
        return None  # a larger batch was measured, and does not pay
    factors = _possible_factors(e)
    if not factors:
        return None
    time_factors = {factor: 1 - share * (1 - 1 / factor) for factor in factors}
    factor = next((factor for factor in factors if share / factor / time_factors[factor] <= _LITTLE), factors[-1])
    figures = {**finding.evidence, "communication_share": round(share, 4), "per_gpu_batch": e.plan.per_gpu_batch}
    reason = (
        f"Each step spends {percent(share)} of its time exchanging gradients, with {e.plan.per_gpu_batch} samples "
        f"per GPU. With a batch {factor} times as large, one exchange replaces {factor}."
    )
    expected_gain = gain(less_time(time_factors[factor], " for the same number of epochs"), time=time_factors[factor])
    return _larger(e, factor, reason, figures, expected_gain)


def _communication_share(e: Evidence) -> float | None:
    """The share in the finding; None if there were too few steps."""
    finding = e.finding(FindingKind.COMMUNICATION_BOUND)
    share = None if finding is None or e.shares is None else finding.evidence.get("communication_share")
    return float(share) if isinstance(share, int | float) else None


def _larger(e: Evidence, factor: int, reason: str, figures: dict[str, Any], expected_gain: Any) -> Proposal:
    change = times_batch(e.spec, factor)
    after = changed(e.spec, change)
    assert after is not None
    rate = resolve_plan(after, None).learning_rate
    action = f"Use a batch of {e.plan.per_gpu_batch * factor} per GPU and a learning rate of {rate:.3g}."
    return Proposal(Rule.BATCH_AND_RATE, action, reason, figures, change, expected_gain)


def judged(e: Evidence) -> Analysis:
    """The analysis. It calls the job underused, not compute bound, if a larger batch is or may well be much faster."""
    doubt = None if e.spec.is_script or e.status is Status.FAILED else _measured_batch(e) or _a_probe(e)
    if doubt is None:
        return e.analysis
    underused = Finding(kind=FindingKind.UNDERUSED, text=doubt.why, evidence=dict(doubt.evidence))
    findings = [underused if one.kind is FindingKind.COMPUTE_BOUND else one for one in e.analysis.findings]
    return e.analysis.model_copy(update={"findings": findings})


def _a_probe(e: Evidence) -> Proposal | None:
    """Propose a probe if slots have, or may have, capacity left and no larger batch was compared with this one."""
    finding, own_batch, gpus = e.finding(FindingKind.UNDERUSED), e.plan.per_gpu_batch, e.plan.gpus
    compared = any(
        own_batch in (batches := source.batches(gpus)) and batches[-1] > own_batch for source in (e.trained, e.probed)
    )
    if (finding is None and own_batch > _SMALL) or e.shares is None or compared or not _possible_factors(e):
        return None
    if own_batch * FACTORS[0] > ProbeSpec().largest or not is_possible(e.spec, {"probe": {}}, e.site, e.sizes):
        return None
    samples = f"{own_batch} sample{'' if own_batch == 1 else 's'}"
    small = f"A step has only {samples} per GPU, so its fixed costs may take most of its time"
    return Proposal(
        Rule.BATCH_AND_RATE,
        "Run a batch probe: it finds the batch at which throughput stops growing.",
        f"{small if finding is None else finding.text.rstrip('.')}. No job with the same work has compared this batch "
        f"with a larger one.",
        {"per_gpu_batch": own_batch} if finding is None else dict(finding.evidence),
        {"probe": {}},
        gain("The probe proposes a batch and a rate, and says what they bring."),
    )
