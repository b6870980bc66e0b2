"""What the charts and tables of an article show now. Called by the api for an export; the page draws them itself."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from math import nan
from urllib.parse import parse_qsl

from sqlalchemy.orm import Session

from jobs.db.tables import Job
from jobs.insight.articles.document import Document, Grid, Part, Picture, Prose
from jobs.insight.studies.mean_curves import mean_curve
from jobs.insight.studies.plots import Line, Panel
from jobs.lifecycle.listing import JobFilter, ListQuery, list_jobs
from jobs.lifecycle.store import some_jobs
from jobs.model.printable import one_form
from jobs.model.states import Status
from jobs.model.where import parsed
from jobs.telemetry import series
from jobs.telemetry.ingest import ALL_RANKS
from jobs.telemetry.series import MetricSeries
from jobs.views.articles import ArticleView, ChartBlock, ProseBlock, Runs, TableBlock
from jobs.views.job_columns import Json, Value, columns_of

JsonOf = Callable[[Sequence[Job]], list[Json]]

_MOST_POINTS = 400  # of a curve
_MOST_READ = 1_000_000  # points of all curves of a chart
_AXIS_LABELS = {"epoch": "epoch", "step": "step", "time": "time, s"}


def document_of(session: Session, article: ArticleView, json_of: JsonOf, *, as_pdf: bool = False) -> Document:
    """An article with what its figures show now. `json_of` is the API's JSON of jobs, which columns are read from.

    Raises `jobs.db.text_search.TooMuchToSearch`, `jobs.lifecycle.listing.WrongPattern`.
    """
    parts: list[Part] = []
    for block in article.blocks:
        match block:
            case ProseBlock():
                parts.append(Prose(text=block.text))
            case ChartBlock():
                parts.append(_picture(session, block, json_of))
            case TableBlock():
                parts.append(_grid(session, block, json_of))
    byline = f"{article.author}, {article.changed_at:%Y-%m-%d %H:%M} UTC, version {article.version}"
    return Document(title=article.title, byline=byline, parts=parts, as_pdf=as_pdf)


def _jobs_of(session: Session, runs: Runs) -> list[Job]:
    """The jobs of a block, as far as they exist; those of a study or a filter newest first."""
    if runs.jobs is not None:
        return some_jobs(session, runs.jobs)
    job_filter = JobFilter(study=runs.study) if runs.study is not None else filter_of(runs.filter or "")
    return list(list_jobs(session, ListQuery(job_filter, limit=runs.limit)).items)


def filter_of(text: str) -> JobFilter:
    """The filter that query parameters of the list of jobs stand for; `blocks` has checked them."""
    values: dict[str, list[str]] = defaultdict(list)
    for name, value in parse_qsl(text, keep_blank_values=True):
        values[name].append(value)
    statuses = [name for value in values["status"] for name in value.split(",") if name]
    labels = (value.partition(":") for value in values["label"])
    of_name, owner, project, study, search = (
        values[name][-1] if values[name] else None for name in ("name", "owner", "project", "study", "search")
    )
    return JobFilter(
        statuses=frozenset(map(Status, statuses)),
        labels=tuple((key, one_form(value)) for key, _, value in labels),
        name=None if of_name is None else one_form(of_name),
        owner=owner, project=project, study=study, search=search or None,
        where=tuple(map(parsed, values["where"])),
    )  # fmt: skip


def _picture(session: Session, block: ChartBlock, json_of: JsonOf) -> Picture:
    jobs = _jobs_of(session, block.runs)
    # Groups need the epochs that all of their jobs have, so no epoch may be left out before.
    most_points = _MOST_POINTS if block.group is None else _MOST_READ // max(1, len(jobs) * len(block.metrics))
    curves = series.metrics_of_jobs(
        session, jobs, names=block.metrics, ranks=[ALL_RANKS], axis=block.axis, max_points=most_points
    )
    panels = []
    for metric in block.metrics:
        by_job = [(job, one) for job in jobs for one in curves[job.id] if one.name == metric]
        if block.group is None:
            lines = [_curve(f"{job.name} {job.id}", one) for job, one in by_job]
        else:
            lines = _group_curves(by_job, block.group, json_of)
        panels.append(
            Panel(title=metric, x_label=_AXIS_LABELS[block.axis], y_label=metric, lines=lines, are_curves=True)
        )
    drawn = [panel for panel in panels if panel.lines]
    caption = _caption(jobs, block.runs)
    if block.group is not None:
        caption += f" Grouped by {block.group}: the mean of each group, and its lowest and highest value."
    if missing := [panel.title for panel in panels if not panel.lines]:
        caption += f" None of them has {', '.join(missing)}."
    return Picture(title=block.title or "", panels=drawn, caption=caption)


def _curve(label: str, one: MetricSeries) -> Line:
    unknown: list[float | None] = [None] * len(one.x)
    return Line(label=label, x=one.x, y=one.y, low=unknown, high=unknown)


def _group_curves(by_job: Sequence[tuple[Job, MetricSeries]], group: str, json_of: JsonOf) -> list[Line]:
    """A line for each group: its mean over the epochs that all of its jobs have, and its range."""
    _, (title, read) = columns_of([group])
    groups: dict[str, list[dict[int, float]]] = defaultdict(list)
    documents = json_of([job for job, _ in by_job])
    for document, (_, one) in zip(documents, by_job, strict=True):
        by_epoch = {round(x): nan if y is None else y for x, y in zip(one.x, one.y, strict=True)}
        groups[f"{title} {_text(read(document)) or 'unknown'}"].append(by_epoch)
    lines = []
    for label, members in groups.items():
        curve = mean_curve(members, most=_MOST_POINTS)
        if curve is not None:
            named = f"{label} ({len(members)} runs)" if len(members) > 1 else label
            lines.append(Line(label=named, x=curve.epoch, y=curve.mean, low=curve.low, high=curve.high))
    return lines


def _grid(session: Session, block: TableBlock, json_of: JsonOf) -> Grid:
    jobs = _jobs_of(session, block.runs)
    columns = columns_of(block.columns)
    documents = json_of(jobs)
    rows = [[_text(read(document)) for _, read in columns] for document in documents]
    titles = [title for title, _ in columns]
    return Grid(title=block.title or "", columns=titles, rows=rows, caption=_caption(jobs, block.runs))


def _caption(jobs: Sequence[Job], runs: Runs) -> str:
    count = f"{len(jobs)} {'job' if len(jobs) == 1 else 'jobs'}"
    if runs.jobs is not None:
        missing = [job_id for job_id in runs.jobs if job_id not in {job.id for job in jobs}]
        return f"{count}." + (f" There is no job {', '.join(missing)}." if missing else "")
    source = f"study {runs.study}" if runs.study is not None else f"those with {runs.filter}"
    most = f", the newest {runs.limit}" if len(jobs) == runs.limit else ""
    return f"{count}: {source}{most}."


def _text(value: Value) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
