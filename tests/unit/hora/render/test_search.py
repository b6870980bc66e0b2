"""How the terminal shows a search: its space, and the trials of its report."""

import io
from typing import Any

from rich.console import Console

from hora.cli.reports import report_text
from hora.render.search import search_line, space_table
from jobs.views.studies import StudyReport
from tests.printed import as_text

SEARCH = {
    "method": "tpe", "trials": 24, "parallel": 4, "objective": None, "mode": None,
    "space": {"learning_rate": {"log": [1e-4, 0.1]}, "batch_size": [32, 64]},
    "prune": {"name": "asha", "min_epochs": None, "reduction": 3},
}  # fmt: skip


def trial(number: int, rate: float, **changes: Any) -> dict[str, Any]:
    nothing = {"end_reason": None, "objective": None, "epochs": None, "pruned_at_epoch": None}
    values = {"learning_rate": rate, "batch_size": 32}
    return {"number": number, "values": values, "status": "succeeded", "job_id": f"job{number}", **nothing, **changes}


def test_a_dry_run_shows_the_space_and_what_would_be_tried() -> None:
    planned = {"search": SEARCH, "jobs": 24, "cells": []}

    text = as_text(space_table(SEARCH))
    assert "learning_rate" in text
    assert '{"log": [0.0001, 0.1]}' in text
    assert search_line(planned) == "24 trials by tpe, 4 at once; asha ends bad ones early."
    assert search_line({"search": SEARCH | {"prune": None}, "jobs": 1}) == "1 trial by tpe, 4 at once."


def test_a_report_has_a_line_for_each_trial() -> None:
    report = {
        "study_id": "s", "name": "rates", "varied": ["learning_rate", "batch_size"], "repeats": 1, "complete": True,
        "scaling": None, "baseline": None, "goal": {"metric": "val_accuracy", "mode": "max"}, "target": None,
        "cells": [], "best": {"goal": 0}, "findings": ["The best of 2 trials is number 0."], "notes": [],
        "search": {"method": "tpe", "objective": "val_accuracy", "mode": "max", "trials": 24},
        "trials": [
            trial(0, 0.003, objective=0.9312, epochs=27, end_reason="completed"),
            trial(1, 0.1, objective=0.2, epochs=3, pruned_at_epoch=3, end_reason="pruned"),
            trial(2, 0.01, status="running"),
        ],
        "importances": {"learning_rate": 0.95, "batch_size": 0.05},
    }  # fmt: skip
    StudyReport.model_validate(report)

    lines = report_text(report, Console(file=io.StringIO(), width=120)).splitlines()
    assert [" ".join(line.split()) for line in lines[:4]] == [
        "TRIAL LEARNING RATE BATCH SIZE VAL ACCURACY EPOCHS STATUS JOB",
        "0 0.003 32 0.9312 27 succeeded job0",
        "1 0.1 32 0.2000 3 succeeded (pruned) job1",
        "2 0.01 32 - - running job2",
    ]
    assert lines[-1] == "Importances: learning_rate 95 %, batch_size 5 %."
