"""How the terminal shows the report of a study or of a search, and the space of a search."""

import io
from typing import Any

from rich.console import Console

from hora.cli.reports import report_text
from hora.render.report import report_lines, report_table
from jobs.views.studies import StudyReport
from tests.printed import as_text


def interval(mean: float, half: float | None = None) -> dict[str, Any]:
    low, high = (None, None) if half is None else (mean - half, mean + half)
    return {"mean": mean, "low": low, "high": high, "values": [mean]}


def cell(gpus: int, **changes: Any) -> dict[str, Any]:
    nothing = dict.fromkeys(
        ["wall_s", "setup_s", "samples_per_s", "val_accuracy", "epochs_run", "time_to_target_s", "gpu_hours_to_target",
         "gpu_hours", "speedup", "throughput_speedup", "efficiency", "accuracy_agreement"]
    )  # fmt: skip
    counts = {"repeats": 2, "failed": 0, "unfinished": 0, "reached_target": 0, "hosts": 1, "jobs": ["a", "b"]}
    return {"values": {"gpus": gpus, "batch_size": 64}, "gpus": gpus, **counts, **nothing, **changes}


ONE = cell(
    1, wall_s=interval(12.3, 0.44), setup_s=interval(5.0), samples_per_s=interval(18506.0, 300.0), speedup=1.0,
    val_accuracy=interval(0.9733, 0.004), epochs_run=interval(12.5), efficiency=1.0, gpu_hours=interval(0.0051234),
    time_to_target_s=interval(8.0), reached_target=2,
)  # fmt: skip
TWO = cell(
    2, wall_s=interval(7.6), speedup=1.618, efficiency=0.809, val_accuracy=interval(0.96), hosts=2, repeats=1, failed=1,
    accuracy_agreement={"difference": -0.0133, "low": -0.02, "high": -0.01, "agrees": False}, reached_target=0,
)  # fmt: skip


def report(*cells: dict[str, Any], **changes: Any) -> dict[str, Any]:
    everything = {
        "study_id": "0stu", "name": "grid", "varied": ["gpus", "batch_size"], "repeats": 2, "complete": True,
        "scaling": "weak", "baseline": {"gpus": 1}, "target": None, "cells": cells, "best": {}, "findings": [],
        "notes": [], **changes,
    }  # fmt: skip
    return StudyReport.model_validate(everything).model_dump(mode="json")


TARGET = {"metric": "val_accuracy", "value": 0.9, "chosen_by": "request"}


def rows(told: dict[str, Any]) -> list[dict[str, str]]:
    """The lines of the table; each maps the heads of the columns to its values."""
    table = report_table(told)
    columns = [(str(column.header), [str(value) for value in column.cells]) for column in table.columns]
    return [{head: values[row] for head, values in columns} for row in range(table.row_count)]


def test_report_table_has_a_line_for_each_cell_with_known_intervals() -> None:
    one, two = rows(report(ONE, TWO, target=TARGET))
    assert one == {
        "GPUS": "1", "BATCH SIZE": "64", "HOSTS": "1", "REPEATS": "2", "TIME": "12.3 s ± 0.4", "SET-UP": "5.0 s",
        "SAMPLES/S": "18,506 ± 300", "VAL ACCURACY": "0.9733 ± 0.0040", "VS BASELINE": "-", "EPOCHS": "12.5",
        "TO TARGET": "8.0 s", "SPEED-UP": "1.00", "EFFICIENCY": "100 %", "GPU TIME": "18.4 s",
    }  # fmt: skip
    assert two["REPEATS"] == "1 of 2"
    assert (two["TIME"], two["SPEED-UP"], two["EFFICIENCY"]) == ("7.6 s", "1.62", "81 %")
    assert two["VS BASELINE"] == "-0.0133 differs"
    assert two["TO TARGET"] == "0 of 1"
    assert two["HOSTS"] == "| 2"


def test_columns_without_a_figure_are_left_out() -> None:
    found = rows(report(cell(1, repeats=0, unfinished=2), complete=False))
    assert found == [{"GPUS": "1", "BATCH SIZE": "64", "REPEATS": "0 of 2"}]
    assert report_lines(report(cell(1), baseline=None, complete=False)) == [
        "Not all jobs have ended: these are the results so far."
    ]
    assert "12.3 s" in as_text(report_table(report({**ONE, "values": {}}, varied=[])))
    equal = {"difference": -1e-16, "low": None, "high": None, "agrees": None}
    assert rows(report(cell(2, accuracy_agreement=equal)))[0]["VS BASELINE"] == "+0.0000 ?"


def test_baseline_target_findings_and_notes_are_listed_below_the_table() -> None:
    note = {"id": 1, "at": "2026-01-02T03:04:05Z", "author": "ada", "text": "Again\x1b[2J."}
    best = {"wall_s": 1, "samples_per_s": 1, "val_accuracy": 0}
    told = report(ONE, TWO, target=TARGET, best=best, findings=["2 GPUs pay."], notes=[note])
    baseline, *others = report_lines(told)
    assert baseline.startswith("Speed-up is the training time on 1 GPU over that of the cell (weak scaling); ")
    assert others == [
        "To target: training time to val accuracy 0.9, as asked.",
        "| Host boundary: from 2 GPUs on, cells are spread over several hosts; gradients go between them.",
        "Best: fastest, highest throughput: gpus=2 batch_size=64; most accurate: gpus=1 batch_size=64.",
        "- 2 GPUs pay.",
        "Note, 2026-01-02 03:04 ada: Again\\x1b[2J.",
    ]


def test_cpu_slots_are_no_gpus_and_what_is_new_has_a_place() -> None:
    lost = {"end_reason": "diverged", "jobs": 1, "error": "the loss is nan"}
    failed = cell(2, repeats=1, failed=1, failures=[lost], allreduce_share=interval(0.41), throughput_speedup=1.16)
    cells = [{**each, "epoch_s": interval(4.0), "gpu_hours": interval(1.0)} for each in (ONE, failed)]
    told = report(*cells, device="cpu", best={"gpu_hours": 0}, next_steps=["Train for longer."])
    _, two = rows(told)
    shown = [two[head] for head in ("REPEATS", "EPOCH TIME", "ALLREDUCE", "BY SAMPLES/S", "SLOT TIME")]
    assert shown == ["1 of 2 diverged", "4.0 s", "41 %", "1.16", "1 h"]
    baseline, best, step = report_lines(told)
    assert baseline.startswith("Speed-up is the training time on 1 CPU slot over that of the cell")
    assert "includes validation and checkpoints, not the set-up" in baseline
    assert (best, step) == ("Best: fewest slot-hours: gpus=1 batch_size=64.", "Next: Train for longer.")


def test_narrow_terminal_leaves_out_minor_columns_and_names_them() -> None:
    told = report(ONE, TWO, target=TARGET)
    wide, narrow = (report_text(told, Console(file=io.StringIO(), width=width)) for width in (200, 80))
    assert "Left out" not in wide
    assert max(map(len, narrow.splitlines())) <= 80
    assert narrow.splitlines()[0].split()[-2:] == ["SPEED-UP", "EFFICIENCY"]
    assert "Left out because the terminal is too narrow: EPOCHS, SET-UP, VS BASELINE" in narrow


def test_another_goal_has_a_column_and_a_line() -> None:
    one = cell(1, val_accuracy=interval(0.97), metrics={"val_mae": interval(0.00125, 0.0005)})
    two = cell(
        2, metrics={"val_mae": interval(0.5), "wer": interval(3.0)},
        accuracy_agreement={"difference": 0.49875, "low": None, "high": None, "agrees": None},
    )  # fmt: skip
    told = report(one, two, goal={"metric": "val_mae", "mode": "min"}, best={"goal": 0, "val_accuracy": 0})
    assert [row["VAL MAE"] for row in rows(told)] == ["0.00125 ± 0.0005", "0.5000"]
    assert rows(told)[1]["VS BASELINE"] == "+0.4988 ?"
    lines = report_lines(told)
    assert "The goal is val_mae: lower is better." in lines
    assert "Best: best val_mae, most accurate: gpus=1 batch_size=64." in lines


def trial(number: int, rate: float, **changes: Any) -> dict[str, Any]:
    nothing = {"end_reason": None, "objective": None, "epochs": None, "pruned_at_epoch": None}
    values = {"learning_rate": rate, "batch_size": 32}
    return {"number": number, "values": values, "status": "succeeded", "job_id": f"job{number}", **nothing, **changes}


def test_a_report_has_a_line_for_each_trial() -> None:
    trials = [
        trial(0, 0.003, objective=0.9312, epochs=27, end_reason="completed"),
        trial(1, 0.1, objective=0.2, epochs=3, pruned_at_epoch=3, end_reason="pruned"),
        trial(2, 0.01, status="running"),
    ]
    told = report(
        varied=["learning_rate", "batch_size"], baseline=None, goal={"metric": "val_accuracy", "mode": "max"},
        best={"goal": 0}, findings=["The best of 2 trials is number 0."], trials=trials,
        search={"method": "tpe", "objective": "val_accuracy", "mode": "max", "trials": 24},
        importances={"learning_rate": 0.95, "batch_size": 0.05},
    )  # fmt: skip

    lines = report_text(told, Console(file=io.StringIO(), width=120)).splitlines()
    assert [" ".join(line.split()) for line in lines[:4]] == [
        "TRIAL LEARNING RATE BATCH SIZE VAL ACCURACY EPOCHS STATUS JOB",
        "0 0.003 32 0.9312 27 succeeded job0",
        "1 0.1 32 0.2000 3 succeeded (pruned) job1",
        "2 0.01 32 - - running job2",
    ]
    assert lines[-1] == "Importances: learning_rate 95 %, batch_size 5 %."
