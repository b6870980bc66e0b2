"""The content of a study's plot: lines, error bars, the ideal, and where the first host ends. Pure.

Called by the api, which passes it to the process that draws (`api.processes.plot`).
"""

import json
from collections import defaultdict
from collections.abc import Callable, Sequence

from pydantic import BaseModel, ConfigDict

from jobs.insight.studies.figures import of_goal
from jobs.model.gpu_time import slots_text
from jobs.views.studies import CellReport, Goal, Interval, MetricCurves, StudyCurves, StudyReport


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Line(_Part):
    """Points with their error bars or their range, which may be missing; `x` ascends."""

    label: str
    x: list[float]
    y: list[float | None]
    low: list[float | None]
    high: list[float | None]


class Panel(_Part):
    """One chart. With `ticks` the x axis shows these texts at 0, 1, 2, ... instead of numbers."""

    title: str
    x_label: str
    y_label: str
    lines: list[Line]
    ticks: list[str] | None = None
    ideal: Line | None = None
    boundary: float | None = None  # jobs left of it ran on one host, right of it on more
    are_curves: bool = False  # many points: a shaded range in place of error bars, and no marks


class Plot(_Part):
    """A picture of panels, two in a row."""

    title: str
    panels: list[Panel]


_MOST_CURVES = 2
_MOST_CELLS = 14  # of which curves are drawn

_Point = tuple[float, float | None, float | None]  # a value and its interval


def plot_of(report: StudyReport, curves: StudyCurves | None = None) -> Plot:
    """Speed-up and time or the goal over GPUs; if GPUs do not vary, throughput and the goal over another field.

    Below them the first two of the learning curves, unless there are too many cells to tell them apart.
    """
    target = report.target
    timed = target is not None and any(cell.time_to_target_s is not None for cell in report.cells)
    field = report.varied[0] if report.varied else ""
    if report.baseline is None:
        first = _panel(report, field, "Throughput", _throughput, "samples/s")
        second = _of_goal(report, field)
    else:
        first = _over_gpus(report, report.baseline.gpus)
        second = _of_goal(report, "gpus")
        if timed and target is not None:
            second = _panel(report, "gpus", f"Time to {target.metric} {target.value:g}", _time, "s of training")
    state = "" if report.complete else " (so far)"
    panels = [
        first,
        second,
        *_against_cpu(report),
        *(_curves(report, each) for each in (curves.curves[:_MOST_CURVES] if curves else [])),
    ]
    return Plot(title=f"{report.name}{state}", panels=[panel for panel in panels if panel.lines])


def _against_cpu(report: StudyReport) -> list[Panel]:
    """The speed-up against the CPU, if the study varies the device."""
    if all(cell.speedup_vs_cpu is None for cell in report.cells):
        return []
    field = "gpus" if report.baseline is not None else "device"
    panel = _panel(report, field, "Speed-up against the CPU", _versus_cpu, "times as fast as the CPU")
    return [panel]


def _versus_cpu(cell: CellReport) -> _Point | None:
    """With the interval of this cell's own time."""
    if cell.speedup_vs_cpu is None or cell.wall_s is None:
        return None
    low, high = cell.wall_s.low, cell.wall_s.high
    if low is None or high is None or low <= 0:
        return cell.speedup_vs_cpu, None, None
    base_s = cell.speedup_vs_cpu * cell.wall_s.mean
    return cell.speedup_vs_cpu, base_s / high, base_s / low


def _curves(report: StudyReport, curves: MetricCurves) -> Panel:
    """A metric over epochs: a line for each cell with the range of its repeats."""
    pairs = [(cell, curve) for cell, curve in zip(report.cells, curves.cells, strict=True) if curve is not None]
    lines = [
        Line(label=_key(cell), x=curve.epoch, y=curve.mean, low=curve.low, high=curve.high)
        for cell, curve in pairs[: _MOST_CELLS + 1]
    ]
    repeats = max((curve.repeats for _, curve in pairs), default=1)
    title = curves.metric + (": mean, lowest and highest repeat" if repeats > 1 else "")
    return Panel(
        title=title,
        x_label="epoch",
        y_label=curves.metric,
        lines=lines if len(lines) <= _MOST_CELLS else [],
        are_curves=True,
    )


def _of_goal(report: StudyReport, field: str) -> Panel:
    goal = report.goal
    title = "" if goal is None else "Accuracy" if goal.is_accuracy else goal.metric
    better = "" if goal is None or goal.is_accuracy else f" ({'lower' if goal.is_lower_better else 'higher'} is better)"
    return _panel(report, field, title + better, lambda cell: _value(cell, goal), "" if goal is None else goal.metric)


def _over_gpus(report: StudyReport, baseline: int) -> Panel:
    bases = {_key(cell, "gpus"): cell.wall_s for cell in report.cells if cell.gpus == baseline}
    panel = _panel(report, "gpus", "Speed-up", lambda cell: _speedup(cell, bases.get(_key(cell, "gpus"))), "")
    counts = sorted({x for line in panel.lines for x in line.x})
    ideal = Line(
        label="ideal", x=counts, y=[x / baseline for x in counts], low=[None] * len(counts), high=[None] * len(counts)
    )
    return panel.model_copy(
        update={
            "y_label": f"times as fast as {slots_text(baseline, report.device)}",
            "ideal": ideal,
            "boundary": _boundary(report.cells),
        }
    )


def _boundary(cells: Sequence[CellReport]) -> float | None:
    """Halfway between the most GPUs on one host and the fewest on more; None if these overlap."""
    on_one = [cell.gpus for cell in cells if cell.hosts == 1]
    on_more = [cell.gpus for cell in cells if cell.hosts is not None and cell.hosts > 1]
    if not on_one or not on_more or max(on_one) >= min(on_more):
        return None
    return (max(on_one) + min(on_more)) / 2


def _panel(
    report: StudyReport, field: str, title: str, point: Callable[[CellReport], _Point | None], y_label: str
) -> Panel:
    """A chart over the values of one field, with one line for each combination of the other fields' values."""
    values = [cell.values.get(field, "") for cell in report.cells]
    numeric = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    names = list(dict.fromkeys(map(_text, values)))
    groups: dict[str, list[tuple[float, _Point]]] = defaultdict(list)
    for cell, value in zip(report.cells, values, strict=True):
        figure = point(cell)
        if figure is not None:
            x = float(value) if numeric else float(names.index(_text(value)))
            groups[_key(cell, field)].append((x, figure))
    lines = []
    for label, points in groups.items():
        points.sort()
        columns = [list(column) for column in zip(*((x, *figure) for x, figure in points), strict=True)]
        lines.append(Line(label=label, x=columns[0], y=columns[1], low=columns[2], high=columns[3]))
    x_label = field if field != "gpus" else "CPU slots" if report.device == "cpu" else "GPUs"
    return Panel(title=title, x_label=x_label, y_label=y_label, lines=lines, ticks=None if numeric else names)


def _speedup(cell: CellReport, base: Interval | None) -> _Point | None:
    """The speed-up with the interval of this cell's own time. The baseline's time counts as exact."""
    if cell.speedup is None or cell.wall_s is None or base is None:
        return None
    low, high = cell.wall_s.low, cell.wall_s.high
    if low is None or high is None or low <= 0:
        return cell.speedup, None, None
    return cell.speedup, base.mean / high, base.mean / low


def _time(cell: CellReport) -> _Point | None:
    return _of(cell.time_to_target_s)


def _value(cell: CellReport, goal: Goal | None) -> _Point | None:
    figure = of_goal(cell, goal)
    if figure is None or (goal is not None and goal.is_accuracy):
        return _of(figure)
    return figure.mean, figure.low, figure.high


def _throughput(cell: CellReport) -> _Point | None:
    return _of(cell.samples_per_s)


def _of(figure: Interval | None) -> _Point | None:
    """A figure and its interval, cut at 0: the figures cannot be negative, but intervals of means can."""
    if figure is None:
        return None
    return figure.mean, None if figure.low is None else max(0.0, figure.low), figure.high


def _key(cell: CellReport, without: str = "") -> str:
    return ", ".join(f"{field} {_text(value)}" for field, value in cell.values.items() if field != without)


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
