"""Plots in the terminal."""

import pytest

from hora.render.metrics import comma_separated
from hora.render.plot import plots

SERIES = [
    {"name": "val_accuracy", "rank": -1, "x": [1, 2, 3], "y": [0.7, None, 0.9]},
    {"name": "samples_per_s", "rank": -1, "x": [1, 2, 3], "y": [10.0, 11.0, 12.0]},
    {"name": "accuracy", "rank": -1, "x": [1, 2, 3], "y": [0.6, 0.8, 0.95]},
    {"name": "loss", "rank": -1, "x": [1, 2, 3], "y": [2.0, 1.0, 0.5]},
    {"name": "loss", "rank": 0, "x": [1, 2, 3], "y": [2.1, 1.1, 0.6]},
]


def test_default_plots_show_loss_and_accuracy_with_its_validation() -> None:
    loss, accuracy = plots(SERIES, width=80)
    assert "(loss)" in loss
    assert "accuracy" in accuracy
    assert "val_accuracy" in accuracy
    assert max(len(line) for line in (loss + accuracy).splitlines()) <= 90
    (speed,) = plots(SERIES, width=80, names=["samples_per_s"])
    assert "(samples_per_s)" in speed


def test_any_metrics_are_plotted_up_to_a_number_and_without_epochs_over_the_steps_of_rank_0() -> None:
    steps = [{"name": "val/iou", "rank": rank, "x": [0, 100, 200], "y": [0.1, 0.2, 0.3]} for rank in (0, 1)]
    loss, _, iou = plots([*SERIES, *steps], width=80)
    assert ("(epoch)" in loss, "(val/iou)" in iou, "(step)" in iou) == (True, True, True)
    many = [{"name": f"m{number}", "rank": -1, "x": [1], "y": [0.1]} for number in range(50)]
    assert len(plots(many, width=80)) == 20
    assert len(plots(many, width=80, names=[one["name"] for one in many])) == 50
    assert plots([{"name": "loss", "rank": -1, "x": [1], "y": [None]}], width=80) == []


@pytest.mark.parametrize(
    ("xs", "ys", "ticks", "rows"),
    [
        ([1, 27], [0.18, 0.92], "0 5 10 15 20 25 30", ["1", "0.9", "0.8", "0.7", "0.6"]),
        ([0, 40_000], [-3e-5, 2e-5], "0 1e+04 2e+04 3e+04 4e+04", ["2e-05", "1.5e-05"]),
        ([7, 7], [0.5, 0.5], "7 8", ["0.75", "0.7"]),
    ],
)
def test_scales_have_round_steps(xs: list[float], ys: list[float], ticks: str, rows: list[str]) -> None:
    (plot,) = plots([{"name": "loss", "rank": -1, "x": xs, "y": ys}], width=80)
    lines = plot.splitlines()
    assert [line.partition("|")[0].strip() for line in lines[1 : 1 + len(rows)]] == rows
    assert next(line for line in lines if "->" in line)
    below = lines[next(i for i, line in enumerate(lines) if "-> (" in line) + 1]
    assert below.partition("|")[2].split() == ticks.split()
    assert max(map(len, lines)) <= 90


def test_values_as_csv_are_no_formulas() -> None:
    series = [{"name": "=1+1", "rank": -1, "x": [4.0, 1e6], "y": [0.1, None]}]
    assert comma_separated(series) == "metric,rank,step,value\r\n'=1+1,-1,4,0.1\r\n'=1+1,-1,1000000,\r\n"
