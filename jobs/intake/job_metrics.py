"""Keeps `jobs.metrics`, the last, best, lowest, highest and mean value of each metric. Used by the intake.

It also completes a job's summary. The values of earlier attempts come from the stored series, without those that became
void when the job resumed.
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
        self._book = self._new_book() if is_first else None  # None: to be read
        self._unstored: MetricBook | None = None  # the next book, until its transaction is committed

    def take(self, session: Session, values: Sequence[Value], *, resumed: bool) -> dict[str, Any] | None:
        """Add the values of a batch whose points are not stored yet. Returns the new `jobs.metrics` if it changes.

        `resumed`: the batch says from which step the attempt continues, which is stored. Call `note_stored` after the
        commit: if there was none, the next call reads what is stored.
        """
        self._unstored = None
        if not values and not resumed:
            return None
        has_earlier = resumed and self._attempt > 1
        book = self._stored_book(session) if self._book is None or has_earlier else self._book
        self._book, self._unstored = None, book
        has_changed = book.add(values)
        return book.as_json() if has_changed or has_earlier else None

    def note_stored(self) -> None:
        """Note that what `take` and `completed` returned is committed."""
        if self._unstored is not None:
            self._book, self._unstored = self._unstored, None

    def completed(self, session: Session, summary: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """The summary with the metrics, and the new `jobs.metrics`. Called after `take`.

        The summary of a script also gets the fields that are made from them. That of Hora's own loop has results of the
        test data, which are metrics too.
        """
        book = self._unstored or self._book or self._stored_book(session)
        self._book, self._unstored = None, book
        if not self._spec.is_script:
            measured = {name: summary.get(name) for name in _MEASURED_ONCE}
            measured |= {name: value["last"] for name, value in (summary.get("metrics") or {}).items()}
            book.add(Value(name, value, None, True) for name, value in measured.items() if value is not None)
            return {**summary, "metrics": _of_summary(book)}, book.as_json()
        metrics = _of_summary(book)
        goal = metrics.get(goal_metric(self._spec.goal, metrics) or "", {})
        own = {name: metrics.get(name, {}).get("best") for name in _OF_KEPT_WEIGHTS}
        own |= {name: metrics.get(name, {}).get("last") for name in _MEASURED_ONCE}
        own["best_epoch"] = goal.get("best_epoch")
        known = {name: value for name, value in own.items() if value is not None}
        return {**summary, **known, "metrics": metrics}, book.as_json()

    def _stored_book(self, session: Session) -> MetricBook:
        book = self._new_book()
        job = get_job(session, self._job_id)
        book.add(_stored_values(session, job, with_steps=self._spec.is_script))
        if self._spec.is_script:
            book.set_means(series.means(session, job, rank=0))
        return book

    def _new_book(self) -> MetricBook:
        spec: Spec = self._spec
        return MetricBook(spec.is_lower_better, None if spec.goal is None else spec.goal.metric)


def _of_summary(book: MetricBook) -> dict[str, Any]:
    """The metrics of a summary: without what versions before would refuse to read there."""
    return {name: summary.model_dump(mode="json") for name, summary in book.summaries().items()}


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
