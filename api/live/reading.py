"""What is new of a job since a position: the events of its stream. Called by its topic, in a thread."""

from dataclasses import dataclass

from sqlalchemy.orm import Session

from api.live import changes
from api.live.changes import Floors
from api.live.positions import JobPosition, Points
from api.live.step import Step, Telling, tag_of
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
class Moment:
    """What a topic knows when it wakes. Metrics are left for a later step, unless it is time for them."""

    floors: Floors
    standing: Standing | None
    with_metrics: bool


def news(
    session: Session, job_id: str, position: JobPosition, wanted: frozenset[Kind], moment: Moment
) -> Step[JobPosition]:
    """What of the `wanted` was not told. Raises `JobNotFound`."""
    telling = Telling(position, of=job_id)
    job = get_job(session, job_id)  # first: what is read after a job was over is all there is of it
    over, more = job.status in TERMINAL, False
    if Kind.EVENT in wanted:
        more |= _tell_history(session, job_id, telling, moment.floors.events)
    if Kind.STATE in wanted:
        _tell_state(job, telling, moment.standing)
    if Kind.PROGRESS in wanted:
        _tell_progress(job, telling)
    if Kind.METRICS in wanted and (moment.with_metrics or over):
        _tell_metrics(session, job, telling)
    if Kind.LOGS in wanted:
        more |= _tell_lines(session, job_id, telling, moment.floors.logs)
    if over and not more:
        end = EndNews.model_validate(job)
        telling.tell(END, end.model_dump_json(), ended=True)
    return telling.step(more=more, over=over and not more)


def _tell_history(session: Session, job_id: str, telling: Telling[JobPosition], floor: int) -> bool:
    """Whether there is more."""
    found = changes.new_events(session, job_id, telling.position.event, limit=MOST_EVENTS)
    for event in found:
        told = telling.position.event.and_also([event.id], floor=min(floor, event.id))
        telling.tell(Kind.EVENT, EventView.model_validate(event).model_dump_json(), event=told)
    more = len(found) == MOST_EVENTS
    if not more:
        telling.settle(event=telling.position.event.and_also([], floor=floor))
    return more


def _tell_state(job: Job, telling: Telling[JobPosition], standing: Standing | None) -> None:
    waiting = WaitingView.model_validate(standing) if standing and job.status is Status.QUEUED else None
    fields = {name: getattr(job, name) for name in JobState.model_fields if name != "waiting"}
    state = JobState(**fields, waiting=waiting)
    tag = tag_of(state, besides=_REVISION)
    if tag != telling.position.state:
        telling.tell(Kind.STATE, state.model_dump_json(), state=tag)


def _tell_progress(job: Job, telling: Telling[JobPosition]) -> None:
    progress = progress_of(job)
    tag = tag_of(progress)
    if tag != telling.position.progress:
        telling.tell(Kind.PROGRESS, progress.model_dump_json(), progress=tag)


def _tell_metrics(session: Session, job: Job, telling: Telling[JobPosition]) -> None:
    points, void_after = telling.position.metrics, None
    attempt, resumed = changes.resumed_step(session, job.id, after_attempt=points.attempt)
    if resumed is not None:
        if resumed < max(points.epochs, points.steps):
            void_after = resumed
        points = Points(attempt=attempt, epochs=min(points.epochs, resumed), steps=min(points.steps, resumed))
    of_epochs = _series(session, job, ALL_RANKS, points.epochs)
    of_steps = [one for one in _series(session, job, 0, points.steps) if not is_one_an_epoch(one.name, one.rank)]
    if not of_epochs and not of_steps and void_after is None:
        return
    points = Points(attempt=attempt, epochs=_newest(of_epochs, points.epochs), steps=_newest(of_steps, points.steps))
    found = [NewPoints(name=one.name, rank=one.rank, step=[int(x) for x in one.x], value=one.y)
             for one in (*of_epochs, *of_steps)]  # fmt: skip
    told = MetricsNews(attempt=attempt, void_after=void_after, series=found)
    telling.tell(Kind.METRICS, told.model_dump_json(), metrics=points)


def _series(session: Session, job: Job, rank: int, after: int) -> list[MetricSeries]:
    return series.metrics(session, job, ranks=[rank], x_range=AxisRange(start=after + 1), max_points=MOST_POINTS)


def _newest(found: list[MetricSeries], before: int) -> int:
    return max((int(one.x[-1]) for one in found), default=before)


def _tell_lines(session: Session, job_id: str, telling: Telling[JobPosition], floor: int) -> bool:
    """Whether there are more."""
    found = changes.new_lines(session, job_id, telling.position.logs, limit=MOST_LINES)
    if found:
        ids = [line.id for line in found]
        told = telling.position.logs.and_also(ids, floor=min(floor, ids[-1]))
        telling.tell(Kind.LOGS, LogNews.model_validate({"items": found}).model_dump_json(), logs=told)
    more = len(found) == MOST_LINES
    if not more:
        telling.settle(logs=telling.position.logs.and_also([], floor=floor))
    return more
