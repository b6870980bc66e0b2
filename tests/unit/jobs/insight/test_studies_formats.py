"""A report as Markdown, as CSV and as a plot. Text that people wrote cannot change the format."""

import csv
import io
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from jobs.insight.studies.figures import Epoch, Run, baseline_of, cell_report, compared_with
from jobs.insight.studies.formats import comma_separated, markdown
from jobs.insight.studies.plots import plot_of
from jobs.model.states import Status
from jobs.views.studies import CellCurve, Goal, MetricCurves, NoteView, StudyCurves, StudyReport, Target
from tests.unit.jobs.insight.study_runs import run

GOAL, MAE = Goal(metric="val_accuracy", mode="max"), Goal(metric="val_mae", mode="min")
TARGET = Target(value=0.5, chosen_by="study")


def report(*cells: tuple[dict[str, Any], list[float]], **fields: Any) -> StudyReport:
    """A study by the training times of each cell's jobs; accuracy is 0.9."""
    goal = fields.get("goal", GOAL)
    reports = [
        cell_report(values, [a_run(values.get("gpus", 1), wall_s) for wall_s in walls], goal, TARGET)
        for values, walls in cells
    ]
    varied = list(cells[0][0])
    baseline = baseline_of(reports, varied)
    whole: dict[str, Any] = {
        "study_id": "abc", "name": "s", "varied": varied, "repeats": 2, "complete": True, "scaling": None,
        "baseline": baseline, "goal": goal, "target": TARGET,
        "cells": compared_with(reports, baseline, goal), "best": {}, "findings": [],
        "notes": [],
    }  # fmt: skip
    return StudyReport(**whole | fields)


def a_run(gpus: int, wall_s: float) -> Run:
    usual = run(wall_s, gpus=gpus, hosts=1 if gpus <= 4 else 2, setup_s=1.0, metrics={"val_mae": 0.012345, "=x": -3.0})
    return replace(usual, epochs=[Epoch(0.9, wall_s)])


def test_the_table_has_a_row_for_each_cell() -> None:
    page = markdown(report(({"gpus": 1}, [10, 10]), ({"gpus": 8}, [2, 2.5])))
    table = [line for line in page.splitlines() if line.startswith("|")]

    assert table[0].startswith("| gpus | hosts | runs | speed-up | by samples/s | efficiency | time, s | set-up, s | ")
    assert table[2].startswith("| 1 | 1 | 2 | 1.00 | 1.00 | 1.00 | 10.00 ± 0.00 |")
    assert table[3].startswith("| 8 | 2 | 2 | 4.44 | 4.50 | 0.56 | 2.25 ± 3.18 |")
    assert len({line.count("|") for line in table}) == 1


def test_text_from_people_is_escaped_in_markdown() -> None:
    note = NoteView(
        id=1, at=datetime(2030, 1, 1, tzinfo=UTC), author="a_b", text="# no heading\n1. *x* <script>\n\nend"
    )
    page = markdown(report(({"dataset.label": "a|b`c"}, [1.0]), notes=[note], findings=["_x_ & [y](z)"]))

    assert "\n- \\_x\\_ &amp; \\[y\\](z)\n" in page
    assert "| a\\|b\\`c | 1 |" in page
    headings = {"$x$ | <b> [y](z) C#": "# \\$x\\$ \\| &lt;b> \\[y\\](z) C\\#", "it's 訓練 =1+1": "# it's 訓練 =1+1"}
    for name, heading in headings.items():
        assert markdown(report(({"gpus": 1}, [1.0]), name=name)).partition("\n")[0] == heading
    assert page.endswith("a_b, 2030-01-01 00:00 UTC:\n\n> \\# no heading\n> 1\\. \\*x\\* &lt;script>\n>\n> end\n")


def test_text_in_csv_is_never_a_formula() -> None:
    texts = ["=1+1", "+1", "-1", "@x", "plain", 'a,"b"', "", "\uff1d1+1"]  # the last one in full width
    cells = [({"dataset.label": text, "learning_rate": -0.5}, [2.0, 4.0]) for text in texts]
    rows = list(csv.DictReader(io.StringIO(comma_separated(report(*cells)))))

    assert [row["dataset.label"] for row in rows] == [
        "'=1+1", "'+1", "'-1", "'@x", "plain", 'a,"b"', "", "'\uff1d1+1",
    ]  # fmt: skip
    assert {row["learning_rate"] for row in rows} == {"-0.5"}, "a number is no text"
    assert {float(row["wall_s"]) for row in rows} == {3.0}
    assert float(rows[0]["wall_s_low"]) < 0 < float(rows[0]["wall_s_high"])
    assert {row["speedup"] for row in rows} == {""}
    objects = report(({"model": {"name": "mlp"}, "early_stopping": None}, [2.0]))
    [row] = csv.DictReader(io.StringIO(comma_separated(objects)))
    assert (row["model"], row["early_stopping"], row["wall_s_low"]) == ('{"name": "mlp"}', "null", "")


def test_another_goal_than_the_accuracy_has_columns_in_all_formats() -> None:
    target = Target(metric="val_mae", value=0.02, chosen_by="study")
    told = report(({"gpus": 1}, [10, 10]), ({"gpus": 2}, [5, 5]), goal=MAE, target=target)
    page = markdown(told)
    assert "The goal is val_mae: lower is better. The target is a val_mae of 0.02, as the study asks." in page
    head, _, row, _ = [line for line in page.splitlines() if line.startswith("|")]
    assert head.startswith("| gpus | runs | speed-up | by samples/s | efficiency | val_mae | =x | time, s |")
    assert row.startswith("| 1 | 2 | 1.00 | 1.00 | 1.00 | 0.01235 ± 0 | -3 ± 0 | 10.00 ± 0.00 |")

    rows = list(csv.DictReader(io.StringIO(comma_separated(told))))
    assert [float(row["metrics.val_mae"]) for row in rows] == [0.012345] * 2
    assert float(rows[0]["metrics.=x_low"]) == -3.0
    assert rows[0]["metrics.val_accuracy"] == rows[0]["val_accuracy"] == "0.9"

    second = plot_of(report(({"params.lr": 0.1}, [1.0]), ({"params.lr": 0.2}, [1.0]), goal=MAE)).panels[1]
    assert (second.title, second.y_label) == ("val_mae (lower is better)", "val_mae")
    assert second.lines[0].y == [0.012345] * 2


def test_speedup_plot_shows_the_ideal_and_the_host_boundary() -> None:
    cells = [({"gpus": gpus, "batch_size": batch}, [16 / gpus, 20 / gpus]) for batch in (8, 16) for gpus in (8, 2, 4)]
    first, second = plot_of(report(*cells)).panels

    assert [line.label for line in first.lines] == ["batch_size 8", "batch_size 16"]
    assert (first.lines[0].x, first.lines[0].y) == ([2, 4, 8], [1, 2, 4])
    assert first.ideal is not None
    assert (first.ideal.x, first.ideal.y, first.boundary) == ([2, 4, 8], [1, 2, 4], 6)
    assert (first.x_label, first.y_label, first.ticks) == ("GPUs", "times as fast as 2 GPUs", None)
    assert (second.title, second.lines[0].y) == ("Time to val_accuracy 0.5", [9, 4.5, 2.25])

    line = plot_of(report(({"gpus": 1}, [100.0, 100.0]), ({"gpus": 2}, [49.0, 51.0]))).panels[0].lines[0]
    bars = [line.low[1], line.high[1]]  # from the interval of its time
    assert bars == pytest.approx([100 / 62.7062, 100 / 37.2938], rel=1e-4)

    nothing = [cell_report({"gpus": 1}, [Run("j", Status.QUEUED, 1, None, None, 0, {}, [])], GOAL, None)]
    plot = plot_of(report(({"gpus": 1}, [1.0]), cells=nothing, complete=False))
    assert (plot.title, plot.panels) == ("s (so far)", [])


def test_plot_without_varied_gpus_has_the_first_field_on_its_axis() -> None:
    cells = [({"model": model, "seed": seed}, [2.0]) for model in ("mlp", "lenet5") for seed in (1, 2)]
    first, second = plot_of(report(*cells, complete=False)).panels

    assert (first.title, second.title) == ("Throughput", "Accuracy")
    assert (first.ticks, first.ideal, first.boundary) == (["mlp", "lenet5"], None, None)
    assert [(line.label, line.x, line.y) for line in first.lines] == [
        ("seed 1", [0, 1], [500, 500]),
        ("seed 2", [0, 1], [500, 500]),
    ]


def test_the_first_two_learning_curves_of_a_few_cells_are_drawn() -> None:
    def curves(cells: int) -> StudyCurves:
        curve = CellCurve(repeats=2, epoch=[1, 2], mean=[2, None], low=[1, None], high=[3, None])
        of_cells = [None, *[curve] * (cells - 1)]
        return StudyCurves(study_id="s", curves=[MetricCurves(metric=name, cells=of_cells) for name in "abc"])

    cells = [({"gpus": 1, "batch_size": batch}, [16.0]) for batch in range(1, 16)]
    *_, a, b = plot_of(report(*cells[:3]), curves(3)).panels
    assert (a.title, a.x_label, b.y_label) == ("a: mean, lowest and highest repeat", "epoch", "b")
    assert [(line.label, line.y, line.low) for line in a.lines] == [
        ("gpus 1, batch_size 2", [2, None], [1, None]), ("gpus 1, batch_size 3", [2, None], [1, None]),
    ]  # fmt: skip
    assert len(plot_of(report(*cells), curves(15)).panels) == 4
    cells.append(({"gpus": 1, "batch_size": 16}, [16.0]))
    assert len(plot_of(report(*cells), curves(16)).panels) == 2
