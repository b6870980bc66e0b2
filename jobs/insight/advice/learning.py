"""The rules about what is learned: a pre-trained base, and when to stop. Called by `jobs.insight.advice.rules`.

Pure.
"""

from statistics import fmean
from typing import Any

from jobs.insight.advice.evidence import FEWEST_EPOCHS, WORTH, Base, Evidence, Proposal, gain, less_time, percent
from jobs.insight.advice.past import is_frozen
from jobs.model.records import Summary
from jobs.model.spec import EarlyStopping
from jobs.views.advice import Rule
from jobs.views.analysis import FindingKind

_FEW_SAMPLES = 50_000  # with more samples a network learns from scratch what a base would bring
_GOOD_ACCURACY = 0.9  # above it a base is not what is missing
_RICHER = 2  # a base was trained on at least this many times the samples
_USUAL = EarlyStopping()
_ON_VALIDATION = frozenset({"val_accuracy", "val_loss"})


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
        reason += f" {_description_of(base)}"
        change = {"model": {"weights": f"job:{base.id}"}}
        if network.freeze_base:  # a small base that saw other classes is worth training on
            change["model"]["freeze_base"] = False
    return Proposal(Rule.PRETRAINED_BASE, action, reason, figures, change, _gain_of_base(e, summary))


def _description_of(base: Base) -> str:
    accuracy = "" if base.val_accuracy is None else f", to a validation accuracy of {base.val_accuracy:.3f}"
    return f"Job {base.id} trained the same network on {base.train_samples} samples of {base.source}{accuracy}."


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


def early_stopping(e: Evidence) -> Proposal | None:
    """Propose early stopping, or a better rule for it, if epochs after the best one were wasted."""
    if e.summary is None or e.summary.epochs_run < FEWEST_EPOCHS:
        return None
    after = _after_best(e, e.summary)
    stopping = e.spec.early_stopping
    if stopping is None:
        return _turned_on(e, *after)
    if stopping.monitor not in _ON_VALIDATION and e.finding(FindingKind.OVERFITS) is not None:
        return _other_monitor(e, stopping, *after)
    if not stopping.restore_best_weights and (lost := _lost_accuracy(e)):
        text = f"{100 * lost:.1f} points of validation accuracy."
        figures = {"lost_accuracy": lost}
        reason = f"The weights of the last epoch were kept, {lost:.3f} below those of the best one."
        change = {"early_stopping": {"restore_best_weights": True}}
        action = "Keep the weights of the best epoch."
        return Proposal(Rule.EARLY_STOPPING, action, reason, figures, change, gain(text, accuracy=lost))
    return _less_patience(e, stopping, *after)


def _after_best(e: Evidence, summary: Summary) -> tuple[int, float]:
    """How many epochs came after the best validation, and the share of the training time that they took."""
    monitor = e.spec.early_stopping.monitor if e.spec.early_stopping else _USUAL.monitor
    learning = e.analysis.learning
    if monitor in _ON_VALIDATION or learning is None:
        return summary.epochs_run - summary.best_epoch, summary.after_best_share
    epochs = learning.epochs_run - learning.best_epoch
    return epochs, epochs / max(learning.epochs_run, 1)


def _turned_on(e: Evidence, epochs: int, share: float) -> Proposal | None:
    patience = _patience(e.accuracies)
    lost = _lost_accuracy(e) if e.finding(FindingKind.OVERFITS) is not None else None
    saved = _saved(epochs, share, patience)
    if saved < WORTH and not lost:
        return None
    change = {"early_stopping": _USUAL.model_copy(update={"patience": patience}).model_dump(mode="json")}
    reason = f"Early stopping is off, and {_wasted(e, epochs, share)}."
    return _stopping(e, "Turn early stopping on.", reason, change, (epochs, share, patience), lost)


def _other_monitor(e: Evidence, stopping: EarlyStopping, epochs: int, share: float) -> Proposal | None:
    change = {"early_stopping": {"monitor": _USUAL.monitor}}
    reason = (
        f"Early stopping monitors {stopping.monitor}, which is no validation metric, and {_wasted(e, epochs, share)}."
    )
    action = "Let early stopping monitor the validation accuracy."
    return _stopping(e, action, reason, change, (epochs, share, stopping.patience), _lost_accuracy(e))


def _less_patience(e: Evidence, stopping: EarlyStopping, epochs: int, share: float) -> Proposal | None:
    if stopping.monitor != _USUAL.monitor:
        return None
    patience = _patience(e.accuracies, stopping.min_delta)
    if patience >= stopping.patience or _saved(epochs, share, patience) < WORTH:
        return None
    reason = f"Early stopping waits {stopping.patience} epochs for an improvement, and {_wasted(e, epochs, share)}."
    change = {"early_stopping": {"patience": patience}}
    action = f"Let early stopping wait {patience} epochs."
    return _stopping(e, action, reason, change, (epochs, share, patience), None)


def _stopping(
    e: Evidence, action: str, reason: str, change: dict[str, Any], after: tuple[int, float, int], lost: float | None
) -> Proposal:
    epochs, share, patience = after
    assert e.summary is not None
    figures: dict[str, Any] = {
        "after_best_share": round(share, 4),
        "epochs_after_best": epochs,
        "epochs_run": e.summary.epochs_run,
        "patience": patience,
    }
    saved = _saved(epochs, share, patience)
    text = less_time(1 - saved) if saved else "Epochs after the best one no longer make the model worse."
    factor = 1 - saved if saved else None
    return Proposal(Rule.EARLY_STOPPING, action, reason, figures, change, gain(text, time=factor, accuracy=lost))


def _saved(epochs: int, share: float, patience: int) -> float:
    """The share of the training time saved if training had ended `patience` epochs after the best one."""
    return share * (1 - patience / epochs) if epochs > patience else 0.0


def _patience(accuracies: tuple[float, ...], min_delta: float = _USUAL.min_delta) -> int:
    """The usual patience, or as much as every flat part before the best epoch needs."""
    best, waited, longest = None, 0, 0
    for value in accuracies:
        if best is None or value > best + min_delta:
            best, longest, waited = value, max(longest, waited), 0
        else:
            waited += 1
    return max(_USUAL.patience, longest + 1)


def _lost_accuracy(e: Evidence) -> float | None:
    """How far the accuracy of the last epoch is below that of the best one; None if it is no more than noise."""
    learning = e.analysis.learning
    if learning is None or learning.metric != "val_accuracy" or learning.best - learning.last < 0.01:
        return None
    return round(learning.best - learning.last, 4)


def _wasted(e: Evidence, epochs: int, share: float) -> str:
    best = (e.summary.epochs_run if e.summary else 0) - epochs
    return f"the {epochs} epochs after the best one ({best}) took {percent(share)} of the training time"
