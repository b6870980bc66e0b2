"""Keeps `jobs.metrics`, the last and the best value of each metric, and completes a job's summary. Used by the intake.

The values of earlier attempts come from the stored series, without those that became void when the job resumed.
"""

from collections.abc import Sequence
from math import nan
from typing import Any

from sqlalchemy.orm import Session

from jobs.db.tables import Job
from jobs.intake.metric_book import MetricBook, Value
from jobs.lifecycle.store import get_job
from jobs.model.goals import goal_metric
from jobs.model.spec import Spec, spec_from
from jobs.telemetry import series
from jobs.telemetry.ingest import ALL_RANKS

_ALL_POINTS = 2**31
_SHOWN_POINTS = 1000  # of a series of every step: the newest and the extremes are among them
_OF_KEPT_WEIGHTS, _MEASURED_ONCE = ("val_accuracy", "val_loss"), ("test_accuracy", "test_loss")


class JobMetrics:
    """The metrics of a job while an attempt runs. Earlier values are read when they are first needed."""

    def __init__(self, job: Job, *, attempt: int, is_first: bool) -> None:
        self._job_id = job.id
        self._attempt = attempt
        self._spec = spec_from(job.spec)
        self._book = self._new_book() if is_first else None

    def take(self, session: Session, values: Sequence[Value], *, resumed: bool) -> dict[str, Any] | None:
        """Add the values of a batch whose points are not stored yet. Returns the new `jobs.metrics` if it changes.

        `resumed`: the batch says from which step the attempt continues, which is stored. Without effect if repeated.
        """
        if not values and not resumed:
            return None
        has_earlier = resumed and self._attempt > 1
        if self._book is None or has_earlier:
            self._book = self._stored_book(session)
        has_changed = self._book.add(values)
        return self._book.as_json() if has_changed or has_earlier else None

    def completed(self, session: Session, summary: dict[str, Any]) -> dict[str, Any]:
        """The summary with the metrics. That of a script also gets the fields that are made from them.

        That of Hora's own loop has results of the test data, which are metrics too.
        """
        if self._book is None:
            self._book = self._stored_book(session)
        if not self._spec.is_script:
            measured = {name: summary.get(name) for name in _MEASURED_ONCE}
            measured |= {name: value["last"] for name, value in (summary.get("metrics") or {}).items()}
            self._book.add(Value(name, value, None, True) for name, value in measured.items() if value is not None)
            return {**summary, "metrics": self._book.as_json()}
        metrics = self._book.as_json()
        goal = metrics.get(goal_metric(self._spec.goal, metrics) or "", {})
        own = {name: metrics.get(name, {}).get("best") for name in _OF_KEPT_WEIGHTS}
        own |= {name: metrics.get(name, {}).get("last") for name in _MEASURED_ONCE}
        own["best_epoch"] = goal.get("best_epoch")
        return {**summary, **{name: value for name, value in own.items() if value is not None}, "metrics": metrics}

    def _stored_book(self, session: Session) -> MetricBook:
        book = self._new_book()
        book.add(_stored_values(session, get_job(session, self._job_id), with_steps=self._spec.is_script))
        return book

    def _new_book(self) -> MetricBook:
        spec: Spec = self._spec
        return MetricBook(spec.is_lower_better, None if spec.goal is None else spec.goal.metric)


def _stored_values(session: Session, job: Job, *, with_steps: bool) -> list[Value]:
    """The valid values of a job, by series and step: those over all ranks, and for a script those of rank 0."""
    over_all = series.metrics(session, job, ranks=[ALL_RANKS], axis="epoch", max_points=_ALL_POINTS)
    values = [
        Value(one.name, nan if y is None else y, int(x) or None, True)
        for one in over_all
        for x, y in zip(one.x, one.y, strict=True)
    ]
    if with_steps:
        of_rank = series.metrics(session, job, ranks=[0], max_points=_SHOWN_POINTS)
        values += [Value(one.name, nan if y is None else y, None, False) for one in of_rank for y in one.y]
    return values
