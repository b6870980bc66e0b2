"""The rule about batch and rate. Called by `jobs.insight.advice.rules`. Pure.

What was measured comes first: other jobs in the same work, and batch probes. Of a job that communicates too much its
own steps say what a larger batch brings. Where nothing was measured and slots have capacity left, a probe is advised.
"""

from statistics import fmean
from typing import Any

from jobs.insight.advice.changes import changed, is_possible, lower_rate, smaller_batch, times_batch
from jobs.insight.advice.evidence import WORTH, Evidence, Proposal, gain, less_time, percent
from jobs.insight.advice.warnings import FEWEST_STEPS
from jobs.model.plan import resolve_plan
from jobs.model.spec import ProbeSpec
from jobs.model.states import EndReason, Status
from jobs.views.advice import Rule
from jobs.views.analysis import FindingKind

FACTORS = (2, 4, 8)  # a rate follows a batch this far; beyond that it is another training
_AT_THE_KNEE = 1.05  # of the best throughput: the smallest batch that comes so near is large enough
_LITTLE = 0.1  # the share of a step in allreduce that is no reason for a larger batch
_LOST_ACCURACY = 0.02  # that a larger batch may have cost past jobs
_RATE_STEP = 10  # the step in which rates are searched


def batch_and_rate(e: Evidence) -> Proposal | None:
    """Another batch, and a rate that fits it."""
    if e.status is Status.FAILED:
        return _after_out_of_memory(e) or _after_divergence(e)
    if e.spec.probe is not None:
        return _what_the_probe_found(e)
    if e.finding(FindingKind.INPUT_BOUND) is not None:
        return None  # more samples a step is more to wait for
    return _measured_batch(e) or _fewer_messages(e) or _a_probe(e)


def _after_out_of_memory(e: Evidence) -> Proposal | None:
    if e.end_reason is not EndReason.OUT_OF_MEMORY:
        return None
    own = e.plan.per_gpu_batch
    fitting = [batch for batch in e.throughput.batches(e.plan.gpus) if batch < own]
    per_gpu = max(fitting, default=own // 2)
    if per_gpu < 1:
        return None
    batch_size = per_gpu * (e.spec.gpus if e.spec.batch_per == "global" else 1)
    figures = {"per_gpu_batch": own, "largest_that_fitted": max(fitting, default=None)}
    why = f"It ran out of memory with {own} samples a GPU" + (f"; {per_gpu} have fitted before." if fitting else ".")
    change = smaller_batch(e.spec, batch_size)
    what = f"Take a batch of {per_gpu} a GPU, and a rate that shrinks with it."
    return Proposal(Rule.BATCH_AND_RATE, what, why, figures, change, gain("It is more likely to fit into memory."))


def _after_divergence(e: Evidence) -> Proposal | None:
    # The trainer's own words: `trainer.errors.Diverged`.
    if e.error is None or "the loss is" not in e.error or "learning rate" not in e.error:
        return None
    own = e.plan.learning_rate
    lower = [
        job.plan.learning_rate
        for job in e.alike
        if job.spec.optimizer == e.spec.optimizer and job.plan.learning_rate < own and job.spec.probe is None
    ]
    rate = max(lower, default=own / _RATE_STEP)
    change = lower_rate(e.spec, rate / e.plan.lr_factor)
    figures = {"learning_rate": own, "largest_that_trained": max(lower, default=None)}
    why = f"The loss was no number any more with a rate of {own:g}" + (
        f"; with {rate:g} a job in the same work has trained." if lower else "."
    )
    warmup = " with a warm-up" if "warmup_epochs" in change else ""
    what = f"Lower the learning rate to {rate:.3g}{warmup}."
    return Proposal(Rule.BATCH_AND_RATE, what, why, figures, change, gain("It is more likely to train."))


def _what_the_probe_found(e: Evidence) -> Proposal | None:
    found = e.probe
    if e.status is not Status.SUCCEEDED or found is None or found.batch_size is None:  # it may go on
        return None
    change: dict[str, Any] = {"probe": None}
    if found.batch_size != e.spec.batch_size:
        change["batch_size"] = found.batch_size
    if found.learning_rate is not None and found.learning_rate != e.spec.learning_rate:
        change["learning_rate"] = found.learning_rate
    speeds = {point.per_gpu_batch: point.samples_per_s for point in found.points if point.fits}
    plan = resolve_plan(e.spec, None)
    after = changed(e.spec, change)
    then = None if after is None else speeds.get(resolve_plan(after, None).per_gpu_batch)
    now = speeds.get(plan.per_gpu_batch)
    factor = now / then if now and then else None
    text = "The throughput of the probe." if factor is None else f"{1 / factor:.2g} times the samples a second."
    figures = {"knee_batch": found.knee_batch, "largest_batch": found.largest_batch, "batch_size": found.batch_size}
    what = f"Train with the batch that the probe proposes, {found.batch_size}."
    why = found.why or "The probe measured batch by batch."
    return Proposal(Rule.BATCH_AND_RATE, what, why, figures, change, gain(text, time=factor))


def _possible_factors(e: Evidence) -> list[int]:
    """By how much the batch may grow: an epoch keeps enough steps, and it fits as far as a probe has seen."""
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
    """The smallest batch that comes near to the best throughput, by jobs and probes on as many GPUs."""
    own = e.plan.per_gpu_batch
    speeds = {factor: found for factor in _possible_factors(e) if (found := _speeds(e, factor)) is not None}
    ratios = {factor: then / now for factor, (now, then) in speeds.items()}
    best = max(ratios.values(), default=1.0)
    factor = next((factor for factor, ratio in ratios.items() if ratio * _AT_THE_KNEE >= best), 1)
    if 1 - 1 / ratios.get(factor, 1.0) < WORTH:
        return None
    ratio, (now, then) = ratios[factor], speeds[factor]
    figures = {
        "per_gpu_batch": own,
        "samples_per_s": round(now, 1),
        "larger_batch": own * factor,
        "larger_samples_per_s": round(then, 1),
    }
    why = (
        f"{own} samples a GPU came to {now:.0f} samples/s, and {own * factor} to {then:.0f} "
        "in the same work on as many GPUs."
    )
    accuracy = _accuracy_change(e, own * factor)
    gained = gain(f"{less_time(1 / ratio)} That is for as many epochs.", time=1 / ratio, accuracy=accuracy)
    return _larger(e, factor, why, figures, gained)


def _speeds(e: Evidence, factor: int) -> tuple[float, float] | None:
    """Throughput with the job's batch and with a larger one, by trainings, else by probes.

    None where either was not measured, or where the larger batch has cost past jobs their accuracy.
    """
    gpus, own = e.plan.gpus, e.plan.per_gpu_batch
    if (_accuracy_change(e, own * factor) or 0.0) < -_LOST_ACCURACY:
        return None
    for source in (e.trained, e.probed):
        now, then = source.at(gpus, own), source.at(gpus, own * factor)
        if now is not None and then is not None and now.measured and then.measured:
            return now.mean, then.mean
    return None


def _accuracy_change(e: Evidence, per_gpu_batch: int) -> float | None:
    """By how much past jobs with another batch were more accurate, on as many GPUs and samples."""

    def reached(batch: int) -> list[float]:
        return [
            job.summary.val_accuracy
            for job in e.alike
            if job.summary is not None
            and job.summary.val_accuracy is not None
            and (job.plan.gpus, job.plan.per_gpu_batch) == (e.plan.gpus, batch)
            and job.plan.train_samples == e.plan.train_samples
        ]

    there, here = reached(per_gpu_batch), reached(e.plan.per_gpu_batch)
    return fmean(there) - fmean(here) if there and here else None


def _fewer_messages(e: Evidence) -> Proposal | None:
    """A larger batch is fewer messages for as many samples, where communication is what takes the time."""
    share, finding = _communication_share(e), e.finding(FindingKind.COMMUNICATION_BOUND)
    uneven = any(one.figure == "compute_s" for one in e.analysis.imbalances)  # it is slower ranks that are waited for
    if share is None or finding is None or uneven:
        return None
    if max(e.throughput.batches(e.plan.gpus), default=0) > e.plan.per_gpu_batch:
        return None  # a larger batch was measured, and does not pay
    factors = _possible_factors(e)
    if not factors:
        return None
    left = {factor: 1 - share * (1 - 1 / factor) for factor in factors}
    factor = next((factor for factor in factors if share / factor / left[factor] <= _LITTLE), factors[-1])
    figures = {**finding.evidence, "communication_share": round(share, 4), "per_gpu_batch": e.plan.per_gpu_batch}
    why = (
        f"{percent(share)} of each step goes into the exchange of gradients, "
        f"with {e.plan.per_gpu_batch} samples a GPU: a batch {factor} times as large sends one message "
        f"where {factor} are sent now."
    )
    gained = gain(f"{less_time(left[factor])} That is for as many epochs.", time=left[factor])
    return _larger(e, factor, why, figures, gained)


def _communication_share(e: Evidence) -> float | None:
    """Of the time of the steps, by the finding; None where there were too few steps to tell."""
    finding = e.finding(FindingKind.COMMUNICATION_BOUND)
    share = None if finding is None or e.shares is None else finding.evidence.get("communication_share")
    return float(share) if isinstance(share, int | float) else None


def _larger(e: Evidence, factor: int, why: str, figures: dict[str, Any], gained: Any) -> Proposal:
    change = times_batch(e.spec, factor)
    after = changed(e.spec, change)
    assert after is not None
    rate = resolve_plan(after, None).learning_rate
    what = f"Take a batch of {e.plan.per_gpu_batch * factor} a GPU, and a learning rate of {rate:.3g}."
    return Proposal(Rule.BATCH_AND_RATE, what, why, figures, change, gained)


def _a_probe(e: Evidence) -> Proposal | None:
    """Where slots have capacity left and no larger batch was measured, measuring is what comes next."""
    finding = e.finding(FindingKind.UNDERUSED)
    own = e.plan.per_gpu_batch
    measured = [batch for batch in e.throughput.batches(e.plan.gpus) if batch > own]
    if finding is None or e.shares is None or measured or not _possible_factors(e):
        return None
    if own * FACTORS[0] > ProbeSpec().largest or not is_possible(e.spec, {"probe": {}}, e.site, e.sizes):
        return None
    return Proposal(
        Rule.BATCH_AND_RATE,
        "Probe for the batch at which throughput stops growing.",
        f"{finding.text.rstrip('.')}. No job in the same work has measured a batch larger than {own} a GPU.",
        dict(finding.evidence),
        {"probe": {}},
        gain("The probe says which batch and rate to take, and what they bring."),
    )
