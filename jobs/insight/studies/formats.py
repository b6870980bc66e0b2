"""Formats a scaling report as Markdown and as CSV. Pure; called by the api.

Text that people wrote (names, values, notes) is escaped: it breaks no table, and no spreadsheet runs it.
"""

import csv
import io
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from jobs.insight.studies.search_formats import trials_csv, trials_table
from jobs.model.csv_cells import csv_cell
from jobs.model.gpu_time import gpu_time, slots_text
from jobs.views.studies import CellReport, CurveAgreement, Failure, Goal, Interval, Speeds, StudyReport

_FIGURES = (
    "wall_s", "setup_s", "samples_per_s", "val_accuracy", "epochs_run", "time_to_target_s", "gpu_hours_to_target",
    "gpu_hours", "cost", "epoch_s", "allreduce_share",
)  # fmt: skip
_RATIOS = ("speedup", "throughput_speedup", "efficiency", "speedup_vs_cpu", "throughput_vs_cpu")
_SPEEDS = tuple(Speeds.model_fields)
_OF_CURVES = tuple(CurveAgreement.model_fields)
_MOST_METRICS = 6  # columns of a page
_DIGITS = {"val_accuracy": 4, "samples_per_s": 0}
_METRIC = "metric"  # any: nobody knows how large its values are
_GPU_TIMES = frozenset({"gpu_hours", "gpu_hours_to_target"})

_OF_TRIALS = "The objective is the best value of any epoch of a trial that has ended."
_OF_CELLS = (
    "Means of the repeats, ± half of the 95 % interval (Student's t). Time is that of the training, with validation "
    "and checkpoints, set-up apart; samples/s are those of its steps alone. The share of allreduce in a step includes "
    "waiting for slower ranks, and on a GPU the backward pass. The {} is all of the leased time."
)


def markdown(report: StudyReport) -> str:
    """The report as a page of Markdown with one table, in the syntax of GitHub and most others."""
    parts = [f"# {_heading(report.name)}", _state(report)]
    if report.findings:
        parts.append("\n".join(f"- {_markdown(finding)}" for finding in report.findings))
    if report.next_steps:
        parts.append("Next steps:")
        parts.append("\n".join(f"- {_markdown(step)}" for step in report.next_steps))
    is_search = report.trials is not None
    parts.append(trials_table(report, _markdown) if is_search else _table(report))
    parts += _outliers(report)
    parts.append(_OF_TRIALS if is_search else _OF_CELLS.format(_slot_time(report)))
    if report.notes:
        parts.append("## Notes")
    for note in report.notes:
        quoted = "\n".join(f"> {_line(line)}".rstrip() for line in note.text.split("\n"))
        parts.append(f"{_markdown(note.author)}, {note.at:%Y-%m-%d %H:%M} UTC:\n\n{quoted}")
    return "\n\n".join(parts) + "\n"


def _state(report: StudyReport) -> str:
    sentences = [f"Study `{report.study_id}`: {_size(report)}."]
    if not report.complete:
        sentences.append("Some of its jobs have not ended: the figures will change.")
    if report.baseline is not None:
        base = slots_text(report.baseline.gpus, report.device)
        sentences.append(f"Speed-up and efficiency are against the same cell on {base}.")
    if report.scaling == "strong":
        sentences.append("The global batch stays as slots are added (strong scaling).")
    elif report.scaling == "weak":
        sentences.append("The batch of each slot stays as slots are added (weak scaling).")
    sentences += _of_goal(report.goal)
    if report.target is not None:
        chosen = {"results": "which most cells reach", "study": "as the study asks", "request": "as asked for"}
        target = f"{_markdown(report.target.metric)} of {report.target.value:g}"
        sentences.append(f"The target is {_article(target)} {target}, {chosen[report.target.chosen_by]}.")
    return " ".join(sentences)


def _size(report: StudyReport) -> str:
    if report.search is None:
        return f"{len(report.cells)} cells, {report.repeats} repeats"
    return f"{len(report.cells)} of {report.search.trials} trials by {report.search.method}"


def _of_goal(goal: Goal | None) -> list[str]:
    if goal is None or goal.is_accuracy:
        return []
    return [f"The goal is {_markdown(goal.metric)}: {'lower' if goal.is_lower_better else 'higher'} is better."]


def _article(words: str) -> str:
    return "an" if words[0] in "aeiouAEIOU" else "a"


def _slot_time(report: StudyReport) -> str:
    return "slot time" if report.device == "cpu" else "GPU time"


def _metric_names(report: StudyReport) -> list[str]:
    """The metrics of any cell that have no figure of their own name, the goal first."""
    names = {name: None for cell in report.cells for name in cell.metrics if name not in _FIGURES}
    return list(names)


def _table(report: StudyReport) -> str:
    names = {
        "wall_s": "time, s", "setup_s": "set-up, s", "samples_per_s": "samples/s", "val_accuracy": "val_accuracy",
        "epochs_run": "epochs", "time_to_target_s": "to target, s",
        "gpu_hours_to_target": f"{_slot_time(report)} to target",
        "gpu_hours": _slot_time(report), "cost": "cost", "epoch_s": "an epoch, s",
        "allreduce_share": "allreduce",
    }  # fmt: skip
    figure_names = [name for name in _FIGURES if any(getattr(cell, name) is not None for cell in report.cells)]
    metrics = [] if report.goal is None or report.goal.is_accuracy else _metric_names(report)[:_MOST_METRICS]
    fields = report.varied if "gpus" in report.varied else [*report.varied, "gpus"]
    scaled = ["speed-up", "by samples/s", "efficiency"] if report.baseline is not None else []
    versus_cpu = ["vs CPU"] if any(cell.speedup_vs_cpu is not None for cell in report.cells) else []
    losses = ["loss curves"] if any(cell.loss_agreement for cell in report.cells) else []
    hosts = ["hosts"] if any((cell.hosts or 1) > 1 for cell in report.cells) else []
    heads = [*map(_markdown, metrics), *(names[name] for name in figure_names)]
    rows = [[*map(_markdown, fields), *hosts, "runs", *scaled, *versus_cpu, *losses, *heads]]
    rows.append(["---"] * len(rows[0]))
    for cell in report.cells:
        values = [_markdown(_text(cell.values.get(field, cell.gpus))) for field in fields]
        spread = [str(cell.hosts) if cell.hosts is not None else ""] if hosts else []
        ratios = [_ratio(cell.speedup), _ratio(cell.throughput_speedup), _ratio(cell.efficiency)] if scaled else []
        figures = [_interval(_METRIC, cell.metrics.get(name)) for name in metrics]
        figures += [_interval(name, getattr(cell, name)) for name in figure_names]
        if versus_cpu:
            ratios.append(_ratio(cell.speedup_vs_cpu))
        curves = [_markdown(_curves(cell))] if losses else []
        rows.append([*values, *spread, _runs(cell), *ratios, *curves, *figures])
    return _lines(rows)


def _outliers(report: StudyReport) -> list[str]:
    """What the cells with outliers look like with them and without."""
    cells = [cell for cell in report.cells if cell.with_outliers is not None and cell.without_outliers is not None]
    if not cells:
        return []
    of_table = "is without them" if report.outliers_set_aside else "has them"
    rows = [["cell", "time, s: with", "without", "samples/s: with", "without", "GPU time: with", "without"]]
    rows.append(["---"] * len(rows[0]))
    for cell in cells:
        pairs = [
            _interval(name, getattr(speeds, name))
            for name in ("wall_s", "samples_per_s", "gpu_hours")
            for speeds in (cell.with_outliers, cell.without_outliers)
        ]
        values = ", ".join(f"{field} {_text(value)}" for field, value in cell.values.items()) or "all"
        rows.append([_markdown(values), *pairs])
    rule = f"Runs that stalled are marked with \\*. They took {report.outliers[0].rule}. The table above {of_table}."
    return [rule, _lines(rows)]


def _lines(rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _runs(cell: CellReport) -> str:
    reasons = ", ".join(failure.end_reason for failure in cell.failures)
    failed = f"failed ({_markdown(reasons)})" if reasons else "failed"
    rest = [f"{count} {what}" for count, what in ((cell.failed, failed), (cell.unfinished, "unfinished")) if count]
    mark = "" if cell.with_outliers is None else "\\*"
    return ", ".join([f"{cell.repeats}{mark}", *rest])


def _curves(cell: CellReport) -> str:
    """How far the loss curves are from the baseline's: loss 0.4 %, val_loss 12 % differs."""
    return ", ".join(f"{name} {_curve(agreement)}" for name, agreement in cell.loss_agreement.items())


def _curve(agreement: CurveAgreement) -> str:
    if agreement.difference is None:
        return "diverged"
    away = f"{agreement.difference:.2g}"
    if agreement.relative is not None:
        away = f"{100 * agreement.relative:{'.0f' if agreement.relative >= 0.1 else '.2g'}} %"
    return away + {True: "", False: " differs", None: " ?"}[agreement.agrees]


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _interval(name: str, figure: Interval | None) -> str:
    if figure is None:
        return ""
    mean = _number(name, figure.mean)
    return mean if figure.high is None else f"{mean} ± {_number(name, figure.high - figure.mean)}"


def _number(name: str, value: float) -> str:
    if name == _METRIC:
        return f"{value:.4g}"
    if name in _GPU_TIMES:
        return gpu_time(value)
    if name == "cost":  # from seconds of one slot to months of many
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{value:,.{_DIGITS.get(name, 2)}f}"


def _markdown(text: str) -> str:
    """The text, escaped: nothing in it is markup, and it stays on one line."""
    escaped = re.sub(r"([\\`*\[\]|~$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9]))", r"\\\1", " ".join(text.split("\n")))
    return escaped.replace("&", "&amp;").replace("<", "&lt;")


def _heading(text: str) -> str:
    """The same as a heading, which may end with hashes of its own."""
    return re.sub(r"(#+)$", r"\\\1", _markdown(text))


def _line(text: str) -> str:
    """The text, escaped for the start of a line, where more is markup: headings, lists, quotes."""
    return re.sub(r"^(\s*)(\d*)([#>+.)-])", r"\1\2\\\3", _markdown(text))


def comma_separated(report: StudyReport) -> str:
    """The report as CSV (RFC 4180), one line for each cell, or for each trial of a search."""
    if report.trials is not None:
        return trials_csv(report)
    out = io.StringIO()
    writer = csv.writer(out)
    fields = [field for field in report.varied if field != "gpus"]
    intervals = [f"{name}{part}" for name in _FIGURES for part in ("", "_low", "_high")]
    compared = [*_RATIOS, "accuracy_difference", "accuracy_agrees"]
    counts = ["gpus", "hosts", "repeats", "failed", "unfinished", "reached_target"]
    speeds = [f"{name}_{which}_outliers" for which in ("with", "without") for name in _SPEEDS]
    metrics = sorted({name for cell in report.cells for name in cell.metrics})
    of_metrics = [f"metrics.{name}{part}" for name in metrics for part in ("", "_low", "_high")]
    losses = sorted({name for cell in report.cells for name in cell.loss_agreement})
    of_losses = [f"loss_agreement.{name}.{part}" for name in losses for part in _OF_CURVES]
    heads = (*fields, *counts, *intervals, *compared, "jobs", *speeds, "failures", *of_losses, *of_metrics)
    writer.writerow(map(csv_cell, heads))
    for cell in report.cells:
        row = [*_row(cell, fields, counts), "; ".join(map(_failure, cell.failures))]
        for name in losses:
            row += [getattr(cell.loss_agreement.get(name), part, None) for part in _OF_CURVES]
        row += _ends(cell.metrics.get(name) for name in metrics)
        writer.writerow(map(csv_cell, row))
    return out.getvalue()


def _failure(failure: Failure) -> str:
    """2 x diverged: the loss is nan at step 4."""
    return f"{failure.jobs} x {failure.end_reason}" + (f": {failure.error}" if failure.error else "")


def _row(cell: CellReport, fields: Sequence[str], counts: Sequence[str]) -> list[Any]:
    row = [_value(cell.values[field]) for field in fields] + [getattr(cell, name) for name in counts]
    row += _ends(getattr(cell, name) for name in _FIGURES)
    agreement = cell.accuracy_agreement
    row += [getattr(cell, name) for name in _RATIOS]
    row += [None, None] if agreement is None else [agreement.difference, agreement.agrees]
    return [*row, " ".join(cell.jobs), *_means(cell.with_outliers), *_means(cell.without_outliers)]


def _means(speeds: Speeds | None) -> list[float | None]:
    """The means of the figures of speed; empty where the cell has no outlier."""
    figures = [None if speeds is None else getattr(speeds, name) for name in _SPEEDS]
    return [None if figure is None else figure.mean for figure in figures]


def _ends(intervals: Iterable[Interval | None]) -> list[float | None]:
    """The mean and both ends of each."""
    ends: list[float | None] = []
    for one in intervals:
        ends += [None] * 3 if one is None else [one.mean, one.low, one.high]
    return ends


def _value(value: Any) -> Any:
    return value if isinstance(value, str | int | float) and not isinstance(value, bool) else _text(value)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
