"""The findings about a job, each a sentence with its figures. Pure; called by `analyse`.

A healthy job has no finding, or only `compute_bound`. The thresholds are high enough for a healthy job on a busy host.
With few steps or samples there is no finding.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jobs.insight.analysis.communication import Basis, Communication
from jobs.insight.analysis.evidence import Evidence, SlotSamples
from jobs.insight.analysis.learning import loss_of_guess, losses_above
from jobs.insight.analysis.stalls import Pause
from jobs.insight.analysis.steps import Pattern
from jobs.insight.analysis.utilization import mean_busy
from jobs.views.analysis import Finding, FindingKind, Imbalance, Learning, Ledger, LedgerItem, SlotUse, StallCause

LEAST_STEPS, LEAST_STEPS_S = 30, 3.0  # with fewer, nothing can be said about a job, and a change would gain nothing
LEAST_SAMPLES = 30  # of a slot: half a minute
INPUT_SHARE = 0.2  # prefetching, or an occasional slow disk, leaves less than a fifth of the time
# With two ranks 0.5 means that they are no faster than one. A busy host holds up an exchange now and then: so the share
# has to be there in three of four steps.
COMMUNICATION_SHARE = 0.4
COMPUTE_SHARE = 0.6
BUSY_PERCENT = 70.0  # a GPU that gets enough work
IDLE_PERCENT = 50.0  # a GPU that could do twice the work; of a rank on a CPU slot: half a core
SPIKY = 0.5  # within half a minute, half the scale up and down
THROTTLED_SHARE = 0.1
CLOCK_SHARE = 0.9  # GPUs are meant to run at a power cap that costs less than a tenth of the clock
LEAST_SET_UP_S = 60.0  # shorter set-ups are no problem


@dataclass(frozen=True)
class Facts:
    """The facts from which findings follow. `samples` and `use` cover the training without stalls."""

    evidence: Evidence
    pattern: Pattern | None
    communication: Communication | None
    pauses: Sequence[Pause]
    learning: Learning | None
    samples: Sequence[SlotSamples]
    use: Sequence[SlotUse]
    imbalances: Sequence[Imbalance]
    ledger: Ledger


@dataclass(frozen=True)
class _Weighed:
    """A finding, and about what share of the job's time it concerns."""

    weight: float
    finding: Finding


def findings(facts: Facts) -> list[Finding]:
    """The findings, sorted by weight, the weightiest first."""
    weighed = [*_stalled(facts), *_not_learning(facts), *_learned(facts), *_set_up(facts), *_uneven(facts)]
    pattern = facts.pattern
    if pattern is not None and pattern.steps >= LEAST_STEPS and pattern.seconds >= LEAST_STEPS_S:
        bound = [*_input(pattern), *_communication(pattern, facts.communication)]
        weighed += bound or _compute(pattern, facts)
        weighed += [] if bound else _underused(facts)
    weighed += [*_spiky(facts), *_throttled(facts)]
    return [one.finding for one in sorted(weighed, key=lambda one: -one.weight)]


def _input(pattern: Pattern) -> Iterator[_Weighed]:
    share = pattern.split.data_wait
    if min(share, pattern.wait_without_longest) >= INPUT_SHARE:
        yield _Weighed(share, Finding(
            kind=FindingKind.INPUT_BOUND,
            text=f"Steps spend {100 * share:.0f} % of their time waiting for data: the input cannot keep up.",
            evidence={"data_wait_share": _rounded(share), "step_time_s": _rounded(pattern.step_time_s),
                      "steps": pattern.steps},
        ))  # fmt: skip


_HOW = {
    Basis.MEASURED: "measured on the rank that comes last",
    Basis.ONE_GPU: "against the same work on one GPU",
    Basis.UTILIZATION: "while the GPUs are idle",
}


def _communication(pattern: Pattern, communication: Communication | None) -> Iterator[_Weighed]:
    if communication is None or communication.most_steps < COMMUNICATION_SHARE:
        return
    share = communication.share
    if share > pattern.split.data_wait:
        yield _Weighed(share, Finding(
            kind=FindingKind.COMMUNICATION_BOUND,
            text=f"Steps spend {100 * share:.0f} % of their time exchanging gradients ({_HOW[communication.basis]}),"
                 f" and {100 * communication.most_steps:.0f} % or more in three of four steps.",
            evidence={"communication_share": _rounded(share), "share_in_most_steps": _rounded(communication.most_steps),
                      "basis": communication.basis.value, "step_time_s": _rounded(pattern.step_time_s),
                      "steps": pattern.steps},
        ))  # fmt: skip


def _compute(pattern: Pattern, facts: Facts) -> Iterator[_Weighed]:
    busy = _gpu_percent(facts)
    if facts.imbalances:
        return
    if facts.evidence.on_gpu:
        computes = busy is not None and busy >= BUSY_PERCENT
        text = "" if busy is None else f"The GPUs are busy {busy:.0f} % of the time."
    else:
        measured = all(one.has_waits for one in facts.evidence.steps) and _uses_its_cores(facts)
        computes = measured and pattern.split.compute >= COMPUTE_SHARE
        text = f"Steps spend {100 * pattern.split.compute:.0f} % of their time computing."
    if computes:
        yield _Weighed(0.0, Finding(
            kind=FindingKind.COMPUTE_BOUND,
            text=text,
            evidence={"compute_share": _rounded(pattern.split.compute),
                      "data_wait_share": _rounded(pattern.split.data_wait),
                      "gpu_percent": None if busy is None else _rounded(busy), "steps": pattern.steps},
        ))  # fmt: skip


def _uses_its_cores(facts: Facts) -> bool:
    """Whether what ranks on CPU slots do between their waits is computing. A script may as well sleep."""
    if not facts.evidence.spec.get("code"):
        return True
    busy = mean_busy([one for one in facts.samples if len(one.busy) >= LEAST_SAMPLES])
    return busy is not None and busy >= IDLE_PERCENT


def _underused(facts: Facts) -> Iterator[_Weighed]:
    busy = _gpu_percent(facts)
    if busy is not None and busy < IDLE_PERCENT:
        yield _Weighed(1 - busy / 100, Finding(
            kind=FindingKind.UNDERUSED,
            text=f"The GPUs are busy {busy:.0f} % of the time and wait neither for data nor for each other.",
            evidence={"gpu_percent": _rounded(busy)},
        ))  # fmt: skip


def _gpu_percent(facts: Facts) -> float | None:
    """The mean utilization of the GPUs; None if there are too few samples."""
    gpus = [one for one in facts.samples if one.metric == "gpu_percent" and len(one.busy) >= LEAST_SAMPLES]
    return mean_busy(gpus)


def _stalled(facts: Facts) -> Iterator[_Weighed]:
    if not facts.pauses:
        return
    total_s, leased_s = sum(one.length_s for one in facts.pauses), facts.ledger.leased_s
    longest = max(facts.pauses, key=lambda one: one.length_s)
    subject = (
        f"The job stood still {len(facts.pauses)} times, for {total_s:.1f} s in all. The longest stall lasted"
        if len(facts.pauses) > 1
        else "The job stood still for"
    )
    yield _Weighed(facts.ledger.items[LedgerItem.STALLED] / max(leased_s, 1e-9), Finding(
        kind=FindingKind.STALLED,
        text=f"{subject} {longest.length_s:.1f} s after step {longest.after_step} (a step takes"
             f" {longest.usual_step_s:.3g} s){_cause(longest)}.{' It still stands.' if longest.ongoing else ''}",
        evidence={"stalls": len(facts.pauses), "total_s": _rounded(total_s), "longest_s": _rounded(longest.length_s),
                  "after_step": longest.after_step, "cause": longest.cause.value, "rank": longest.rank},
    ))  # fmt: skip


def _cause(pause: Pause) -> str:
    on_rank = "" if pause.rank is None else f" on rank {pause.rank}"
    return {
        StallCause.DATA: f": it waited for data{on_rank}",
        StallCause.RANK: f": the others waited for rank {pause.rank}",
        StallCause.COMMUNICATION: ": all ranks were in the exchange of gradients",
        StallCause.UNKNOWN: "",
    }[pause.cause]


_GUESSES = {
    "classification": "a guess among {} classes",
    "multilabel": "an even chance for each of {} classes",
    "regression": "always the mean of the targets",
}


def _not_learning(facts: Facts) -> Iterator[_Weighed]:
    evidence = facts.evidence
    guess = loss_of_guess(evidence.spec, evidence.classes, evidence.task)
    rate, steps = evidence.plan.get("learning_rate"), evidence.plan.get("steps_per_epoch")
    if guess is None or rate is None or steps is None:
        return
    losses = losses_above(evidence.epochs, guess, rate=rate, steps=steps, ended=evidence.ended)
    if not losses:
        return
    better = _GUESSES[evidence.task].format(evidence.classes)
    yield _Weighed(1.0, Finding(
        kind=FindingKind.NOT_LEARNING,
        text=f"The training loss has been above {guess:.3f} for {len(losses)} epochs ({losses[-1]:.4g} in the last"
             f" one): {better} does better. The learning rate of {rate:.4g} is"
             " probably too high.",
        evidence={"loss": _rounded(losses[-1]), "loss_of_guess": _rounded(guess), "epochs": len(losses),
                  "classes": evidence.classes, "learning_rate": _rounded(rate)},
    ))  # fmt: skip


def _learned(facts: Facts) -> Iterator[_Weighed]:
    learning = facts.learning
    if learning is None or not learning.overfits:
        return
    after, share = learning.epochs_run - learning.best_epoch, learning.worsening or 0.0
    figures: dict[str, float] = {
        "best_epoch": learning.best_epoch,
        "epochs_run": learning.epochs_run,
        "epochs_after_best": after,
    }
    if learning.overfits_by == "val_loss":
        text = f"The validation loss rose {100 * share:.0f} % above its minimum while the training loss kept falling."
        figures["val_loss_rise"] = _rounded(share)
    else:
        text = f"{learning.overfits_by} got {100 * share:.0f} % worse than its best value, but better in training."
        figures["worsening"] = _rounded(share)
    yield _Weighed(after / learning.epochs_run, Finding(
        kind=FindingKind.OVERFITS,
        text=f"{text} The best epoch was {learning.best_epoch} of {learning.epochs_run}.",
        evidence={**figures, learning.metric: _rounded(learning.best)},
    ))  # fmt: skip


def _uneven(facts: Facts) -> Iterator[_Weighed]:
    if facts.imbalances:
        worst = max(facts.imbalances, key=lambda one: one.ratio)
        yield _Weighed(1 - 1 / worst.ratio, Finding(
            kind=FindingKind.UNEVEN,
            text=" ".join(one.text for one in facts.imbalances),
            evidence={one.figure + "_ratio": _rounded(one.ratio) for one in facts.imbalances},
        ))  # fmt: skip


def _spiky(facts: Facts) -> Iterator[_Weighed]:
    gpus = [one for one in facts.use if one.metric == "gpu_percent" and one.samples >= LEAST_SAMPLES]
    spiky = [one for one in gpus if one.spikiness >= SPIKY]
    if len(spiky) * 2 > len(gpus):
        worst = max(spiky, key=lambda one: one.spikiness)
        every = "" if worst.period_s is None else f", every {worst.period_s:.3g} s"
        yield _Weighed(1 - worst.duty_cycle, Finding(
            kind=FindingKind.SPIKY,
            text=f"GPU utilization swings by {100 * worst.spikiness:.0f} points within half a minute{every}:"
                 f" the GPUs get their work in bursts.",
            evidence={"spikiness": _rounded(worst.spikiness), "period_s": worst.period_s,
                      "duty_cycle": _rounded(worst.duty_cycle), "rank": worst.rank},
        ))  # fmt: skip


def _throttled(facts: Facts) -> Iterator[_Weighed]:
    for slot in facts.samples:
        if len(slot.busy) < LEAST_SAMPLES:
            continue
        reasons = {reason: count / len(slot.busy) for reason, count in slot.throttle.items() if _costs(slot, reason)}
        share = max(reasons.values(), default=0.0)
        if share >= THROTTLED_SHARE:
            names = ", ".join(reason for reason, reason_share in reasons.items() if reason_share >= THROTTLED_SHARE)
            clock = "" if slot.throttled_clock_mhz is None else f", to {slot.throttled_clock_mhz:.0f} MHz"
            yield _Weighed(share, Finding(
                kind=FindingKind.THROTTLED,
                text=f"The GPU of rank {slot.rank} on {slot.host} slowed down{clock} for {100 * share:.0f} % of the"
                     f" time ({names}).",
                evidence={"share": _rounded(share), "reasons": names, "rank": slot.rank, "host": slot.host,
                          "clock_mhz": slot.throttled_clock_mhz, "greatest_clock_mhz": slot.greatest_clock_mhz},
            ))  # fmt: skip
            return


def _costs(slot: SlotSamples, reason: str) -> bool:
    """Whether a slow-down costs speed. GPUs at their power limit always report it, and most lose no speed."""
    if reason != "power" or slot.throttled_clock_mhz is None or not slot.greatest_clock_mhz:
        return reason != "power"
    return slot.throttled_clock_mhz < CLOCK_SHARE * slot.greatest_clock_mhz


def _set_up(facts: Facts) -> Iterator[_Weighed]:
    items, runs = facts.ledger.items, [run for run in facts.evidence.runs if run.epochs]
    before_s = items[LedgerItem.LAUNCH] + items[LedgerItem.SET_UP]
    rest_s = facts.ledger.leased_s - before_s
    slots = max((run.slots for run in runs), default=1)
    if runs and facts.evidence.ended and before_s > rest_s and before_s / slots >= LEAST_SET_UP_S:
        yield _Weighed(before_s / facts.ledger.leased_s, Finding(
            kind=FindingKind.SET_UP_BOUND,
            text=f"Launch and set-up took {before_s:.0f} of {facts.ledger.leased_s:.0f} leased slot-seconds.",
            evidence={"set_up_s": _rounded(before_s), "leased_s": _rounded(facts.ledger.leased_s)},
        ))  # fmt: skip


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")
