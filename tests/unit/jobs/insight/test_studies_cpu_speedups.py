"""Cells against the same cell on CPUs."""

from jobs.insight.studies.cpu_speedups import with_cpu_speedups
from jobs.insight.studies.plots import plot_of
from jobs.model.states import Status
from jobs.views.studies import StudyReport
from tests.unit.jobs.insight.study_runs import cell, run


def test_cells_are_compared_with_the_same_cell_on_the_fewest_cpu_slots() -> None:
    cells = [
        cell([run(300, gpus=2)], device="cpu", batch_size=8), cell([run(600)], device="cpu", batch_size=8),
        cell([run(8)], device="gpu", batch_size=8), cell([run(4, gpus=2)], device="gpu", batch_size=8),
        cell([run(4)], device="gpu", batch_size=16), cell([run(6, gpus=2)], device="auto", batch_size=8),
    ]  # fmt: skip
    assert [each.speedup_vs_cpu for each in with_cpu_speedups(cells)] == [2, 1, 75, 150, None, 100]
    assert with_cpu_speedups(cells)[3].throughput_vs_cpu == 150


def test_cpu_slots_without_a_result_are_no_base() -> None:
    failed = cell([run(status=Status.FAILED)], device="cpu")
    gpu = cell([run(8)], device="gpu")
    assert [each.speedup_vs_cpu for each in with_cpu_speedups([failed, gpu])] == [None, None]
    two = cell([run(80, gpus=2)], device="cpu")
    assert [each.speedup_vs_cpu for each in with_cpu_speedups([failed, two, gpu])] == [None, 1, 10]

    no_throughput = cell([run(8, train_samples_per_s=None)], device="gpu")
    [_, found] = with_cpu_speedups([two, no_throughput])
    assert (found.speedup_vs_cpu, found.throughput_vs_cpu) == (10, None)


def test_the_picture_shows_them_over_the_device_or_the_gpus() -> None:
    cells = with_cpu_speedups([cell([run(40)], device="cpu"), cell([run(2)], device="gpu")])
    values = {
        "study_id": "s", "name": "s", "repeats": 1, "complete": True, "scaling": None, "target": None, "cells": cells,
        "best": {}, "findings": [], "notes": [],
    }  # fmt: skip
    for varied, baseline, shown in (
        (["device"], None, ("device", [1, 20])), (["device", "gpus"], {"gpus": 1}, ("GPUs", [1])),
    ):  # fmt: skip
        plot = plot_of(StudyReport.model_validate(values | {"varied": varied, "baseline": baseline}))
        panels = {panel.title: (panel.x_label, panel.lines[0].y) for panel in plot.panels}
        assert panels["Speed-up against the CPU"] == shown
