"""The rule about when to stop. Called by `jobs.insight.advice.rules`. Pure.

An epoch is judged by what early stopping monitors, else by the goal of the job, in the direction of that metric.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jobs.insight.advice.evidence import (
    ACCURACY,
    FEWEST_EPOCHS,
    WORTH,
    Evidence,
    Proposal,
    gain,
    less_time,
    percent,
)
from jobs.model.goals import TIMES
from jobs.model.spec import EPOCH_METRICS, EarlyStopping
from jobs.model.states import Status
from jobs.views.advice import Gain, Rule
from jobs.views.analysis import FindingKind, LedgerItem

_USUAL = EarlyStopping()
_OF_VALIDATION = frozenset(name for name in EPOCH_METRICS if name.startswith("val_"))  # of Hora's own loop
_TRAINING = (LedgerItem.USEFUL, LedgerItem.DATA_WAIT, LedgerItem.COMMUNICATION, LedgerItem.AFTER_BEST)
_NOISE = 0.01  # of an accuracy between two epochs
_NOISE_SHARE = 0.1  # of another metric
_FLAT_SHARE = 0.02  # of another metric than an accuracy: an improvement that is worth no further epochs
_IN_SCRIPTS = " The script must call run.should_stop() and leave when it is true."


@dataclass(frozen=True)
class _Course:
    """How many epochs came after the best one by a metric, and the share of the training time that they took.

    Of a metric that was flat at the end, after the first epoch that was as good but for noise: they `improved` it.
    """

    epochs_run: int
    after_best: int
    share: float
    improved: str | None = None
    by: float = 0.0

    def saved(self, patience: int) -> float:
        """The share of the training time saved if training had ended `patience` epochs after the best one."""
        return self.share * (1 - patience / self.after_best) if self.after_best > patience else 0.0

    @property
    def wasted(self) -> str:
        """The epochs after the best one, as a part of a sentence."""
        best, took = self.epochs_run - self.after_best, f"took {percent(self.share)} of the training time"
        if self.improved is not None:
            gained = f"improved {self.improved} by {self.by:.2g} at most"
            return f"the {self.after_best} epochs after epoch {best} {gained} and {took}"
        return f"the {self.after_best} epochs after the best one ({best}) {took}"


def early_stopping(e: Evidence) -> Proposal | None:
    """Propose early stopping, or a better rule for it, if epochs after the best one were wasted."""
    course, metric, stopping = _course_of(e), e.best_by, e.spec.early_stopping
    if course is None or metric is None or course.epochs_run < FEWEST_EPOCHS:
        return None
    if stopping is None:
        return _turned_on(e, metric, course)
    if e.spec.is_script:  # it chose its metrics and keeps its weights itself
        return _less_patience(e, stopping, course)
    return _other_monitor(e, stopping) or _best_weights(e, stopping) or _less_patience(e, stopping, course)


def _course_of(e: Evidence) -> _Course | None:
    """The course by what decides which epoch is the best; None if the job did not come to its end."""
    if not e.spec.is_script:
        own = e.summary
        return None if own is None else _Course(own.epochs_run, own.epochs_run - own.best_epoch, own.after_best_share)
    learning, spent = e.analysis.learning, e.analysis.ledger.items
    training_s = sum(spent.get(item, 0.0) for item in _TRAINING)
    if e.status is not Status.SUCCEEDED or learning is None or not training_s:
        return None
    share = spent.get(LedgerItem.AFTER_BEST, 0.0) / training_s
    return _Course(learning.epochs_run, learning.epochs_run - learning.best_epoch, share)


def _course_by(e: Evidence, metric: str) -> _Course | None:
    """The course by the curve of another metric than the one that decided. Its epochs count as equally long."""
    curve = e.curves.get(metric, ())
    finite = [value for value in curve if math.isfinite(value)]
    if not finite:
        return None
    after = len(curve) - 1 - curve.index((min if e.spec.is_lower_better(metric) else max)(finite))
    return _Course(len(curve), after, after / len(curve))


def _turned_on(e: Evidence, metric: str, course: _Course) -> Proposal | None:
    if metric in TIMES:
        return None
    # The values of a script may be of any size, so each improvement of them counts.
    min_delta = 0.0 if e.spec.is_script else _USUAL.min_delta
    patience, course = _patience(e, metric, min_delta, course)
    if course.saved(patience) < WORTH and not _lost_by_overfitting(e, metric):
        return None
    change = _USUAL.model_copy(update={"monitor": metric, "patience": patience, "min_delta": min_delta})
    own = {"restore_best_weights"} if e.spec.is_script else set()
    reason = f"Early stopping is off, and {course.wasted}."
    action = "Turn early stopping on." + (_IN_SCRIPTS if e.spec.is_script else "")
    return _stopping(e, action, reason, change.model_dump(mode="json", exclude=own), course, patience, metric)


def _other_monitor(e: Evidence, stopping: EarlyStopping) -> Proposal | None:
    goal = e.goal
    if stopping.monitor in _OF_VALIDATION or goal not in _OF_VALIDATION:
        return None
    course = _course_by(e, goal)
    if course is None or (course.saved(stopping.patience) < WORTH and not _lost_by_overfitting(e, goal)):
        return None
    reason = f"Early stopping monitors {stopping.monitor}, which is no validation metric, and {course.wasted}."
    action = f"Let early stopping monitor {goal}."
    return _stopping(e, action, reason, {"monitor": goal}, course, stopping.patience, goal)


def _best_weights(e: Evidence, stopping: EarlyStopping) -> Proposal | None:
    metric, best_and_last = stopping.monitor, _best_and_last(e, stopping.monitor)
    if stopping.restore_best_weights or metric not in _OF_VALIDATION or best_and_last is None:
        return None
    best, last = best_and_last
    lost = abs(best - last)
    expected = gain(f"A {metric} of {best:.4g} instead of {last:.4g}.")
    if metric == ACCURACY:
        expected = gain(f"{100 * lost:.1f} points of validation accuracy.", accuracy=lost)
    figures = {"lost_accuracy" if metric == ACCURACY else f"lost_{metric}": float(f"{lost:.4g}")}
    reason = f"The weights of the last epoch were kept. Their {metric} is {lost:.3g} worse than that of the best one."
    change = {"early_stopping": {"restore_best_weights": True}}
    return Proposal(Rule.EARLY_STOPPING, "Keep the weights of the best epoch.", reason, figures, change, expected)


def _less_patience(e: Evidence, stopping: EarlyStopping, course: _Course) -> Proposal | None:
    if stopping.monitor in TIMES:
        return None
    patience, course = _patience(e, stopping.monitor, stopping.min_delta, course)
    if patience >= stopping.patience or course.saved(patience) < WORTH:
        return None
    reason = f"Early stopping waits {stopping.patience} epochs for an improvement, and {course.wasted}."
    action = f"Let early stopping wait {patience} epochs." + (_IN_SCRIPTS if e.spec.is_script else "")
    return _stopping(e, action, reason, {"patience": patience}, course, patience, None)


def _stopping(
    e: Evidence, action: str, reason: str, change: dict[str, Any], course: _Course, patience: int, metric: str | None
) -> Proposal:
    """A proposal to change early stopping. `metric` has been lost to overfitting; None: it would not be kept."""
    figures: dict[str, Any] = {
        "after_best_share": round(course.share, 4),
        "epochs_after_best": course.after_best,
        "epochs_run": course.epochs_run,
        "patience": patience,
    }
    accuracy = _lost_by_overfitting(e, metric) if metric == ACCURACY else None
    expected = _gain(course.saved(patience), -course.by if course.improved == ACCURACY else accuracy)
    return Proposal(Rule.EARLY_STOPPING, action, reason, figures, {"early_stopping": change}, expected)


def _gain(saved: float, accuracy: float | None) -> Gain:
    text = less_time(1 - saved) if saved else "Epochs after the best one no longer make the model worse."
    return gain(text, time=1 - saved if saved else None, accuracy=accuracy)


def _patience(e: Evidence, metric: str, min_delta: float, course: _Course) -> tuple[int, _Course]:
    """The least patience, from the usual one on, with which nothing but noise would be lost; and the course with it."""
    sign = -1.0 if e.spec.is_lower_better(metric) else 1.0
    rising = [sign * value if math.isfinite(value) else -math.inf for value in e.curves.get(metric, ())]
    best = max(rising, default=-math.inf)
    if not math.isfinite(best):
        return _USUAL.patience, course
    flat = _NOISE if metric == ACCURACY else _FLAT_SHARE * abs(best)
    for patience in range(_USUAL.patience, max(len(rising), _USUAL.patience) + 1):
        kept = _kept_epoch(rising, patience, min_delta)
        lost = best - rising[kept - 1]
        if lost <= flat:
            break
    after = len(rising) - kept
    if len(rising) == course.epochs_run and after > course.after_best:
        course = _Course(len(rising), after, after / len(rising), metric, lost)
    return patience, course


def _kept_epoch(rising: Sequence[float], patience: int, min_delta: float) -> int:
    """The best epoch, from 1 on, until early stopping with such patience ends the job."""
    best, kept = -math.inf, 0
    for epoch, value in enumerate(rising, start=1):
        if value > best + min_delta:
            best, kept = value, epoch
        elif kept and epoch - kept >= patience:
            break
    return kept


def _lost_by_overfitting(e: Evidence, metric: str) -> float | None:
    """How much of a metric the epochs after the best one cost; None if the job does not overfit, or kept the best."""
    if e.spec.is_script or e.finding(FindingKind.OVERFITS) is None:
        return None
    best_and_last = _best_and_last(e, metric)
    return None if best_and_last is None else abs(best_and_last[0] - best_and_last[1])


def _best_and_last(e: Evidence, metric: str) -> tuple[float, float] | None:
    """The metric in the best epoch and in the last one; None if the last one is no worse, beside noise."""
    learning, curve = e.analysis.learning, [value for value in e.curves.get(metric, ()) if math.isfinite(value)]
    is_lower_better = e.spec.is_lower_better(metric)
    if learning is not None and learning.metric == metric:
        best, last = learning.best, learning.last
    elif curve:
        best, last = (min if is_lower_better else max)(curve), curve[-1]
    else:
        return None
    lost = last - best if is_lower_better else best - last
    return (best, last) if lost >= (_NOISE if metric == ACCURACY else _NOISE_SHARE * abs(best)) and lost > 0 else None
