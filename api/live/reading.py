"""Reads what is new about a job since a position: the events of its stream. Called by its topic, in a thread."""

from dataclasses import dataclass

from sqlalchemy.orm import Session

from api.live import changes
from api.live.changes import Floors
from api.live.positions import JobPosition, MetricsPosition
from api.live.step import Step, StepBuilder, tag_of
from api.row_views import progress_of
from jobs.db.tables import Job
from jobs.lifecycle.store import get_job
from jobs.model.states import TERMINAL, Status
from jobs.scheduling.queue import Standing
from jobs.telemetry import series
from jobs.telemetry.axes import AxisRange
from jobs.telemetry.ingest import ALL_RANKS, is_one_an_epoch
from jobs.telemetry.series import MetricSeries
from jobs.views.jobs import EventView, WaitingView
from jobs.views.live import END, EndNews, JobState, Kind, LogNews, MetricsNews, NewPoints

MOST_EVENTS = 200  # in one step
MOST_LINES = 200
MOST_POINTS = 200  # of a series of every step
_REVISION = frozenset({"revision"})


@dataclass(frozen=True)
class Wake:
    """What a topic knows when it wakes. Without `with_metrics` the metrics wait for a later step."""

    floors: Floors
    standing: Standing | None
    with_metrics: bool


def next_step(
    session: Session, job_id: str, position: JobPosition, kinds: frozenset[Kind], wake: Wake
) -> Step[JobPosition]:
    """The events of these kinds that were not sent yet. Raises `JobNotFound`."""
    builder = StepBuilder(session, position, of=job_id)
    job = get_job(session, job_id)  # first: if it has ended, what is read after this is complete
    has_ended, has_more = job.status in TERMINAL, False
    if Kind.EVENT in kinds:
        has_more |= _add_history(session, job_id, builder, wake.floors.events)
    if Kind.STATE in kinds:
        _add_state(job, builder, wake.standing)
    if Kind.PROGRESS in kinds:
        _add_progress(job, builder)
    if Kind.METRICS in kinds and (wake.with_metrics or has_ended):
        _add_metrics(session, job, builder)
    if Kind.LOGS in kinds:
        has_more |= _add_lines(session, job_id, builder, wake.floors.logs)
    is_last = has_ended and not has_more
    if is_last:
        end = EndNews.model_validate(job)
        builder.add(END, end.model_dump_json(), ended=True)
    return builder.step(has_more=has_more, is_last=is_last)


def _add_history(session: Session, job_id: str, builder: StepBuilder[JobPosition], floor: int) -> bool:
    """Add new lines of the job's history; returns whether there are more."""
    events = changes.new_events(session, job_id, builder.position.event, limit=MOST_EVENTS)
    for event in events:
        sent = builder.position.event.with_rows([event.id], floor=min(floor, event.id))
        builder.add(Kind.EVENT, EventView.model_validate(event).model_dump_json(), event=sent)
    has_more = len(events) == MOST_EVENTS
    if not has_more:
        builder.shorten(event=builder.position.event.with_rows([], floor=floor))
    return has_more


def _add_state(job: Job, builder: StepBuilder[JobPosition], standing: Standing | None) -> None:
    waiting = WaitingView.model_validate(standing) if standing and job.status is Status.QUEUED else None
    fields = {name: getattr(job, name) for name in JobState.model_fields if name != "waiting"}
    state = JobState(**fields, waiting=waiting)
    tag = tag_of(state, exclude=_REVISION)
    if tag != builder.position.state:
        builder.add(Kind.STATE, state.model_dump_json(), state=tag)


def _add_progress(job: Job, builder: StepBuilder[JobPosition]) -> None:
    progress = progress_of(job)
    tag = tag_of(progress)
    if tag != builder.position.progress:
        builder.add(Kind.PROGRESS, progress.model_dump_json(), progress=tag)


def _add_metrics(session: Session, job: Job, builder: StepBuilder[JobPosition]) -> None:
    position, void_after = builder.position.metrics, None
    attempt, resumed = changes.resumed_step(session, job.id, after_attempt=position.attempt)
    if resumed is not None:
        if resumed < max(position.epochs, position.steps):
            void_after = resumed
        epochs, steps = min(position.epochs, resumed), min(position.steps, resumed)
        position = MetricsPosition(attempt=attempt, epochs=epochs, steps=steps)
    by_epoch = _series(session, job, ALL_RANKS, position.epochs)
    by_step = [each for each in _series(session, job, 0, position.steps) if not is_one_an_epoch(each.name, each.rank)]
    if not by_epoch and not by_step and void_after is None:
        return
    position = MetricsPosition(
        attempt=attempt, epochs=_newest_step(by_epoch, position.epochs), steps=_newest_step(by_step, position.steps)
    )
    points = [
        NewPoints(name=each.name, rank=each.rank, step=[int(x) for x in each.x], value=each.y)
        for each in (*by_epoch, *by_step)
    ]
    metrics = MetricsNews(attempt=attempt, void_after=void_after, series=points)
    builder.add(Kind.METRICS, metrics.model_dump_json(), metrics=position)


def _series(session: Session, job: Job, rank: int, after: int) -> list[MetricSeries]:
    return series.metrics(session, job, ranks=[rank], x_range=AxisRange(start=after + 1), max_points=MOST_POINTS)


def _newest_step(new_series: list[MetricSeries], sent_step: int) -> int:
    return max((int(each.x[-1]) for each in new_series), default=sent_step)


def _add_lines(session: Session, job_id: str, builder: StepBuilder[JobPosition], floor: int) -> bool:
    """Add new log lines; returns whether there are more."""
    lines = changes.new_lines(session, job_id, builder.position.logs, limit=MOST_LINES)
    if lines:
        ids = [line.id for line in lines]
        sent = builder.position.logs.with_rows(ids, floor=min(floor, ids[-1]))
        builder.add(Kind.LOGS, LogNews.model_validate({"items": lines}).model_dump_json(), logs=sent)
    has_more = len(lines) == MOST_LINES
    if not has_more:
        builder.shorten(logs=builder.position.logs.with_rows([], floor=floor))
    return has_more
