"""The trials of a search as Markdown and as CSV. Pure; called by `formats`."""

import csv
import io
from collections.abc import Callable, Iterator
from typing import Any

from jobs.insight.studies.grid import value_text
from jobs.model.csv_cells import csv_cell
from jobs.views.searches import TrialReport
from jobs.views.studies import StudyReport


def trials_table(report: StudyReport, escaped: Callable[[str], str]) -> str:
    """One line for each trial, by its number. `escaped` makes text of people harmless."""
    assert report.search is not None
    best = report.best.get("goal")
    rows = [["trial", *map(escaped, report.varied), escaped(report.search.objective), "epochs", "status", "job"]]
    rows.append(["---"] * len(rows[0]))
    for trial in report.trials or ():
        objective = "" if trial.objective is None else f"{trial.objective:.4g}"
        values = [escaped(value_text(trial.values.get(field))) for field in report.varied]
        mark = " (best)" if trial.number == best else ""
        epochs = "" if trial.epochs is None else str(trial.epochs)
        rows.append([f"{trial.number}{mark}", *values, objective, epochs, _status(trial), trial.job_id])
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    if not report.importances:
        return table
    shares = ", ".join(f"{escaped(field)} {100 * share:.0f} %" for field, share in report.importances.items())
    return f"{table}\n\nImportances: {shares}."


def _status(trial: TrialReport) -> str:
    return "pruned" if trial.pruned_at_epoch is not None else trial.status.value


def trials_csv(report: StudyReport) -> str:
    """One line for each trial (RFC 4180)."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerows(map(csv_cell, row) for row in _rows(report))
    return out.getvalue()


def _rows(report: StudyReport) -> Iterator[list[Any]]:
    yield ["number", *report.varied, "objective", "epochs", "status", "end_reason", "pruned_at_epoch", "job_id"]
    for trial in report.trials or ():
        values = [trial.values.get(field) for field in report.varied]
        numbers = [value if type(value) in (int, float) else value_text(value) for value in values]
        end = trial.end_reason and trial.end_reason.value
        yield [
            trial.number, *numbers, trial.objective, trial.epochs, trial.status.value, end, trial.pruned_at_epoch,
            trial.job_id,
        ]  # fmt: skip
