"""The rule about what to learn from: a pre-trained base. Called by `jobs.insight.advice.rules`. Pure."""

from statistics import fmean
from typing import Any

from jobs.insight.advice.evidence import FEWEST_EPOCHS, Evidence, Proposal, gain
from jobs.insight.advice.past import is_frozen
from jobs.model.records import Summary
from jobs.views.advice import Rule
from jobs.views.analysis import FindingKind

_FEW_SAMPLES = 50_000  # with more samples a network learns from scratch what a base would bring
_GOOD_ACCURACY = 0.9  # above it a base is not what is missing
_RICHER = 2  # a base was trained on at least this many times the samples


def pretrained_base(e: Evidence) -> Proposal | None:
    """Propose weights to start from for a network that was trained from scratch on few samples."""
    summary, samples = e.summary, e.plan.train_samples
    if e.spec.is_script or summary is None or samples is None or summary.val_accuracy is None:
        return None
    network = e.spec.own_model
    if network.weights != "none":
        return None
    overfits = e.finding(FindingKind.OVERFITS) is not None
    poor = summary.val_accuracy < _GOOD_ACCURACY or overfits
    if summary.epochs_run < FEWEST_EPOCHS or samples >= _FEW_SAMPLES or not poor:
        return None
    base = next((one for one in e.bases if one.train_samples >= _RICHER * samples), None)
    imagenet = e.model is not None and e.model.imagenet and (e.data is None or e.data.are_images)
    if not imagenet and base is None:
        return None
    figures = {"val_accuracy": summary.val_accuracy, "train_samples": samples, "epochs_run": summary.epochs_run}
    result = f"reached a validation accuracy of {summary.val_accuracy:.3f}" + (" and overfits" if overfits else "")
    reason = f"It was trained from scratch on {samples} samples, and {result}."
    if imagenet:
        action = "Start from ImageNet weights and train the head alone."
        change: dict[str, Any] = {"model": {"weights": "imagenet"}}
        if not network.freeze_base:
            action = "Start from ImageNet weights."
    else:
        assert base is not None
        action = f"Start from the weights of job {base.id}."
        reason += (
            f" Job {base.id} trained the same network on {base.train_samples} samples of other data, {base.source}: "
            "its figures are no measure for this data."
        )
        change = {"model": {"weights": f"job:{base.id}"}}
        if network.freeze_base:  # a small base that saw other classes is worth training on
            change["model"]["freeze_base"] = False
    return Proposal(Rule.PRETRAINED_BASE, action, reason, figures, change, _gain_of_base(e, summary))


def is_untried(proposal: Proposal) -> bool:
    """Whether it proposes weights of another job, and no past job measured what such weights bring on this data."""
    weights = proposal.change.get("model", {}).get("weights", "")
    return weights.startswith("job:") and proposal.gain.accuracy is None


def _gain_of_base(e: Evidence, own_summary: Summary) -> Any:
    """The gain of past jobs that started from weights, with the same work on as many samples and GPUs."""
    pretrained = [
        job.summary
        for job in e.past
        if job.spec.own_model.weights != "none"
        and is_frozen(job.spec) == e.spec.own_model.freeze_base
        and (job.device, job.plan.gpus) == (e.device, e.plan.gpus)
        and job.plan.train_samples == e.plan.train_samples
        and job.summary is not None
        and job.summary.val_accuracy is not None
    ]
    if not pretrained or own_summary.val_accuracy is None:
        return gain("No past job measured this on this data.")
    accuracy = fmean(one.val_accuracy or 0.0 for one in pretrained) - own_summary.val_accuracy
    factor = fmean(one.wall_s for one in pretrained) / own_summary.wall_s if own_summary.wall_s else None
    text = f"{len(pretrained)} past job{'' if len(pretrained) == 1 else 's'} on as many samples started from weights."
    return gain(text, time=factor, accuracy=accuracy)
