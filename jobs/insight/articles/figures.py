"""What the charts and tables of an article show now. Called by the api for an export; the page draws them itself."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import nan
from typing import Any
from urllib.parse import parse_qsl

from sqlalchemy import select
from sqlalchemy.orm import Session

from jobs.db.tables import Job, Study
from jobs.insight.articles.document import Document, Grid, Part, Picture, Prose
from jobs.insight.studies.mean_curves import mean_curve
from jobs.insight.studies.plots import Line, Panel
from jobs.lifecycle.listing import JobFilter, ListQuery, list_jobs
from jobs.lifecycle.store import some_jobs
from jobs.model.printable import one_form
from jobs.model.states import Status
from jobs.model.stored_spec import with_defaults
from jobs.telemetry import series
from jobs.telemetry.ingest import ALL_RANKS
from jobs.telemetry.series import MetricSeries
from jobs.views.articles import ArticleView, ChartBlock, ProseBlock, Runs, TableBlock

_MOST_POINTS = 400  # of a curve
_MOST_READ = 1_000_000  # points of all curves of a chart
_FACTS = ("id", "name", "status", "owner", "project", "created_at", "started_at", "ended_at")  # columns of the row
_AXIS_LABELS = {"epoch": "epoch", "step": "step", "time": "time, s"}


def document_of(session: Session, article: ArticleView, *, as_pdf: bool = False) -> Document:
    """An article with what its figures show now. Raises `jobs.db.text_search.TooMuchToSearch`."""
    parts: list[Part] = []
    for block in article.blocks:
        match block:
            case ProseBlock():
                parts.append(Prose(text=block.text))
            case ChartBlock():
                parts.append(_picture(session, block))
            case TableBlock():
                parts.append(_grid(session, block))
    byline = f"{article.author}, {article.changed_at:%Y-%m-%d %H:%M} UTC, version {article.version}"
    return Document(title=article.title, byline=byline, parts=parts, as_pdf=as_pdf)


def _jobs_of(session: Session, runs: Runs) -> list[Job]:
    """The jobs of a block, as far as they exist; those of a study or a filter newest first."""
    if runs.jobs is not None:
        return some_jobs(session, runs.jobs)
    wanted = JobFilter(study=runs.study) if runs.study is not None else filter_of(runs.filter or "")
    return list(list_jobs(session, ListQuery(wanted, limit=runs.limit)).items)


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
    )  # fmt: skip


def _picture(session: Session, block: ChartBlock) -> Picture:
    jobs = _jobs_of(session, block.runs)
    # Groups need the epochs that all of their jobs have, so no epoch may be left out before.
    most_points = _MOST_POINTS if block.group is None else _MOST_READ // max(1, len(jobs) * len(block.metrics))
    curves = series.metrics_of_jobs(
        session, jobs, names=block.metrics, ranks=[ALL_RANKS], axis=block.axis, max_points=most_points
    )
    cells = _cells_of(session, jobs)
    panels = []
    for metric in block.metrics:
        by_job = [(job, one) for job in jobs for one in curves[job.id] if one.name == metric]
        if block.group is None:
            lines = [_curve(f"{job.name} {job.id}", one) for job, one in by_job]
        else:
            lines = _group_curves(by_job, block.group, cells)
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


def _group_curves(by_job: Sequence[tuple[Job, MetricSeries]], group: str, cells: Mapping[str, str]) -> list[Line]:
    """A line for each group: its mean over the epochs that all of its jobs have, and its range."""
    groups: dict[str, list[dict[int, float]]] = defaultdict(list)
    for job, one in by_job:
        by_epoch = {round(x): nan if y is None else y for x, y in zip(one.x, one.y, strict=True)}
        groups[f"{group} {column_text(job, group, cells) or 'unknown'}"].append(by_epoch)
    lines = []
    for label, members in groups.items():
        curve = mean_curve(members, most=_MOST_POINTS)
        if curve is not None:
            named = f"{label} ({len(members)} runs)" if len(members) > 1 else label
            lines.append(Line(label=named, x=curve.epoch, y=curve.mean, low=curve.low, high=curve.high))
    return lines


def _grid(session: Session, block: TableBlock) -> Grid:
    jobs = _jobs_of(session, block.runs)
    cells = _cells_of(session, jobs)
    rows = [[column_text(job, column, cells) for column in block.columns] for job in jobs]
    return Grid(title=block.title or "", columns=block.columns, rows=rows, caption=_caption(jobs, block.runs))


def _caption(jobs: Sequence[Job], runs: Runs) -> str:
    count = f"{len(jobs)} {'job' if len(jobs) == 1 else 'jobs'}"
    if runs.jobs is not None:
        missing = [job_id for job_id in runs.jobs if job_id not in {job.id for job in jobs}]
        return f"{count}." + (f" There is no job {', '.join(missing)}." if missing else "")
    source = f"study {runs.study}" if runs.study is not None else f"those with {runs.filter}"
    most = f", the newest {runs.limit}" if len(jobs) == runs.limit else ""
    return f"{count}: {source}{most}."


def _cells_of(session: Session, jobs: Sequence[Job]) -> dict[str, str]:
    """By job the values of its cell: `gpus 2, batch_size 64`. Jobs that belong to no study have none."""
    ids = {job.study_id for job in jobs if job.study_id is not None}
    studies = {study.id: study.cells for study in session.scalars(select(Study).where(Study.id.in_(ids)))}
    found = {}
    for job in jobs:
        cells = studies.get(job.study_id or "", [])
        if job.study_cell is not None and job.study_cell < len(cells):
            values = cells[job.study_cell].items()
            found[job.id] = ", ".join(f"{field} {_text(value)}" for field, value in values)
    return found


def column_text(job: Job, column: str, cells: Mapping[str, str]) -> str:
    """What a column says of a job: a fact of it, its cell, a label, a field of its spec, or the best of a metric."""
    if column == "cell":
        return cells.get(job.id, "")
    if column in _FACTS:
        return _text(getattr(job, column))
    if column.startswith("label."):
        return _text(job.labels.get(column.removeprefix("label.")))
    value: Any = with_defaults(job.spec)
    for name in column.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    if value is None and column in job.metrics:
        value = job.metrics[column].get("best")
    if isinstance(value, dict):  # such as `model`, for which its name is enough
        value = value.get("name", value.get("source", value))
    return _text(value)


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, str):
        return value
    return value.isoformat(" ", "seconds") if hasattr(value, "isoformat") else json.dumps(value, ensure_ascii=False)
