"""The report of a study over HTTP, in all its formats. Its figures are tested in `tests/unit/jobs/insight`."""

import csv
import io
from collections.abc import Callable

import pytest
from fastapi.testclient import TestClient

from api.processes import drawing
from jobs.db.engine import Sessions
from jobs.lifecycle.store import transition
from jobs.model.states import EndReason, Status
from jobs.telemetry.ingest import ALL_RANKS
from tests.integration.api.answers import wrong_fields
from tests.integration.api.starting_rows import a_host, an_attempt, metric_points, seconds
from tests.integration.api.studies.study_jobs import Json, bring_to, succeed


def test_the_report_has_the_results_of_the_jobs_in_all_formats(api: TestClient, finished_study: Json) -> None:
    path = f"/v1/studies/{finished_study['id']}/report"
    report = api.get(path).json()

    assert (report["complete"], report["scaling"], report["baseline"]) == (True, "weak", {"gpus": 1})
    assert report["target"] == {"metric": "val_accuracy", "value": 0.86, "chosen_by": "results"}
    assert [cell["values"] for cell in report["cells"]] == [cell["values"] for cell in finished_study["cells"]]
    assert [cell["wall_s"]["mean"] for cell in report["cells"]] == [12, 18, 12, 9]
    assert [cell["speedup"] for cell in report["cells"]] == [1, 1, 1, 2]
    assert report["cells"][3]["gpu_hours"]["values"] == pytest.approx([2 * 10 / 3600, 2 * 12 / 3600])
    assert report["cells"][3]["time_to_target_s"]["values"] == pytest.approx([8, 10])
    assert report["cells"][3]["accuracy_agreement"]["agrees"] is True
    assert report["best"]["wall_s"] == 3
    told = "dataset.label a|b: 2 GPUs ran at 2x the speed of 1 by training time and 2x by samples/s"
    assert any(text.startswith(f"{told} (ideal: 2x, efficiency 1).") for text in report["findings"])

    for_target = api.get(path, params={"target": 0.8}).json()
    assert for_target["target"] == {"metric": "val_accuracy", "value": 0.8, "chosen_by": "request"}
    assert for_target["cells"][3]["time_to_target_s"]["values"] == pytest.approx([8 * 2 / 3, 10 * 2 / 3])
    assert wrong_fields(api.get(path, params={"target": 2})) == ["target"]

    page = api.get(path, params={"format": "markdown"})
    assert page.headers["content-type"] == "text/markdown; charset=utf-8"
    [row] = [line for line in page.text.splitlines() if line.startswith("| 2 | a\\|b |")]
    assert "| 2.00 | 2.00 | 1.00 | 9.00 ± 12.71 |" in row
    table = api.get(path, params={"format": "csv"})
    assert table.headers["content-type"] == "text/csv; charset=utf-8"
    assert table.headers["content-disposition"] == f'inline; filename="study-{finished_study["id"]}.csv"'
    rows = list(csv.DictReader(io.StringIO(table.text)))
    assert [row["dataset.label"] for row in rows] == ["'=1+1", "a|b", "'=1+1", "a|b"]
    assert [float(row["speedup"]) for row in rows] == [1, 1, 1, 2]
    picture = api.get(path, params={"format": "png"})
    assert (picture.status_code, picture.headers["content-type"]) == (200, "image/png")
    assert picture.content.startswith(b"\x89PNG\r\n\x1a\n")


def test_epochs_that_were_run_again_count_once(
    api: TestClient, sessions: Sessions, submit_study: Callable[..., Json]
) -> None:
    study = submit_study(grid={"gpus": [1, 2]}, repeats=2, target=0.8)
    path = f"/v1/studies/{study['id']}/report"
    for cell in study["cells"]:
        for job in cell["jobs"]:
            succeed(sessions, job["id"], 3, accuracies=[0.5, 0.9, 0.95], gpus=cell["gpus"])
            noise = 0.01 * job["repeat"]
            curve = [(4, 2.0 + noise), (8, 1.0 + noise if cell["gpus"] == 1 else 7.0), (12, 0.5)]
            metric_points(sessions, job["id"], curve, name="val_loss", rank=ALL_RANKS)
            metric_points(sessions, job["id"], [(4, 1.0), (8, float("nan"))], rank=ALL_RANKS)
    assert api.get(path).json()["cells"][1]["loss_agreement"]["val_loss"]["agrees"] is False

    for job in study["cells"][1]["jobs"]:  # each was restarted from the end of its first epoch
        an_attempt(sessions, job["id"], 2, gpus=2, resumed_step=4, created_at=seconds(10), ended_at=seconds(20))
        again = {"val_accuracy": (0.7, 0.85), "epoch_s": (2.0, 2.0), "val_loss": (1.0,), "loss": (0.5,)}
        for name, values in again.items():
            points = zip((8, 12), values, strict=False)  # the new one has not come as far as the one before
            metric_points(sessions, job["id"], points, name=name, rank=ALL_RANKS, attempt=2)
    report = api.get(path).json()
    cell = report["cells"][1]
    assert report["target"]["chosen_by"] == "study"
    assert cell["time_to_target_s"]["mean"] == pytest.approx(1 + 2 + 2)
    assert cell["gpu_hours"]["mean"] == pytest.approx(2 * (5 + 10) / 3600)
    agreement = cell["loss_agreement"]["val_loss"]
    assert (agreement["epochs"], agreement["agrees"]) == (2, True)
    assert agreement["difference"] == pytest.approx(0.0025)
    assert any("the curve of loss (one of the two diverged) differs from 1" in text for text in report["findings"])
    assert "| loss diverged, val_loss 0.17 % |" in api.get(path, params={"format": "markdown"}).text
    assert "loss_agreement.val_loss.agrees" in api.get(path, params={"format": "csv"}).text.partition("\n")[0]


def test_the_report_says_on_what_jobs_ran_why_they_failed_and_how_long_they_exchanged(
    api: TestClient, sessions: Sessions, submit_study: Callable[..., Json]
) -> None:
    a_host(sessions)
    grid = {"gpus": [1, 2], "learning_rate": [0.01, 10]}
    study = submit_study(grid=grid, base={"dataset": "digits", "batch_size": 32, "steps_per_epoch": 4}, repeats=1)
    fine, lost = [[cell["jobs"][0]["id"] for cell in study["cells"][at::2]] for at in (0, 1)]
    for gpus, job_id in enumerate(fine, 1):
        succeed(sessions, job_id, 12, accuracies=[0.5, 0.8, 0.9], gpus=gpus)
        steps = {"samples_per_s": (9.0, 64.0, 128.0), "allreduce_s": (9.0, 1.0, 2.0)}  # 4 s and 2 s of steps
        for name, values in steps.items():
            points = [(step, value * (gpus - 1)) for step, value in zip((4, 8, 12), values, strict=True)]
            metric_points(sessions, job_id, points, name=name, rank=ALL_RANKS)
    why = "the loss is nan at step 4"
    for job_id in lost:
        bring_to(sessions, job_id, Status.LAUNCHING, Status.RUNNING)
        with sessions.begin() as session:
            transition(session, job_id, Status.FAILED, end_reason=EndReason.DIVERGED, error=f"{why}\nmore")

    path = f"/v1/studies/{study['id']}/report"
    report = api.get(path).json()
    one, failed, two, _ = report["cells"]
    assert (report["device"], one["device"], failed["device"]) == ("cpu", "cpu", None)
    assert failed["failures"] == [{"end_reason": "diverged", "jobs": 1, "error": why}]
    assert (one["epoch_s"]["mean"], one["beside_others"]) == (4, 1)
    assert (one["allreduce_share"], two["allreduce_share"]["mean"]) == (
        None,
        pytest.approx(3 / (4 * 64 / 64 + 4 * 64 / 128)),
    )
    ended = "2 ended diverged (learning rate 10, 1 GPU; learning rate 10, 2 GPUs)"
    assert any(text.endswith(f'{ended}: "{why}".') for text in report["findings"])
    assert [step.partition(":")[0] for step in report["next_steps"]] == [
        "For the jobs that ended diverged", "Set repeats",
    ]  # fmt: skip
    page = api.get(path, params={"format": "markdown"}).text
    assert "against the same cell on 1 CPU slot." in page
    assert "GPU time" not in page
    assert "| 0, 1 failed (diverged) |" in page
    assert "Next steps:\n\n- For the jobs that ended diverged" in page
    rows = list(csv.DictReader(io.StringIO(api.get(path, params={"format": "csv"}).text)))
    assert [row["failures"] for row in rows] == ["", f"1 x diverged: {why}"] * 2


def test_a_repeat_that_stalled_is_set_aside_unless_it_is_asked_for(
    api: TestClient, sessions: Sessions, submit_study: Callable[..., Json]
) -> None:
    a_host(sessions, "hc")
    a_host(sessions, "hg", kind="gpu")
    study = submit_study(grid={"device": ["cpu", "gpu"]}, repeats=3)
    for cell, walls in zip(study["cells"], [(10, 12, 200), (5, 6, 7)], strict=True):
        for job, wall_s in zip(cell["jobs"], walls, strict=True):
            succeed(sessions, job["id"], wall_s, accuracies=[0.5, 0.8], gpus=1)
    path, stalled = f"/v1/studies/{study['id']}/report", study["cells"][0]["jobs"][2]["id"]

    report = api.get(path).json()
    assert [(each["job_id"], each["cell"], each["figure"], each["value"]) for each in report["outliers"]] == [
        (stalled, 0, "epoch_s", 100)
    ]
    assert report["outliers_set_aside"] is True
    assert [cell["speedup_vs_cpu"] for cell in report["cells"]] == pytest.approx([1, 11 / 6])
    stall = f"Job {stalled} (device cpu) stalled: each epoch took 17x the median time. The figures of speed "
    assert f"{stall}are without it." in report["findings"]
    rows = list(csv.DictReader(io.StringIO(api.get(path, params={"format": "csv"}).text)))
    assert [row["wall_s_with_outliers"] for row in rows] == ["74.0", ""]
    page = api.get(path, params={"format": "markdown"}).text
    assert "| 3\\* |" in page
    assert "They took more than 1.5 x the median time, and" in page
    assert "| device cpu | 74.00 ± 271.08 | 11.00 ± 12.71 |" in page

    kept = api.get(path, params={"outliers": "keep"}).json()
    assert (kept["outliers"], kept["outliers_set_aside"]) == (report["outliers"], False)
    assert [cell["speedup_vs_cpu"] for cell in kept["cells"]] == pytest.approx([1, 74 / 6])
    assert f"{stall}have it." in kept["findings"]
    assert wrong_fields(api.get(path, params={"outliers": "drop"})) == ["outliers"]


def test_curves_have_the_mean_and_the_range_of_each_cell(
    api: TestClient, sessions: Sessions, submit_study: Callable[..., Json]
) -> None:
    study = submit_study(grid={"gpus": [1, 2]}, repeats=2)
    path = f"/v1/studies/{study['id']}/curves"
    for job, accuracies in zip(study["cells"][0]["jobs"], ([0.5, 0.8], [0.7, 0.9]), strict=True):
        succeed(sessions, job["id"], 10, accuracies=accuracies, gpus=1)
    answer = api.get(path)
    known = {"repeats": 2, "epoch": [1, 2], "mean": [0.6, 0.85], "low": [0.5, 0.8], "high": [0.7, 0.9]}
    curves = [{"metric": "val_accuracy", "cells": [known, None]}]
    assert answer.json() == {"study_id": study["id"], "curves": curves}
    tag = {"If-None-Match": answer.headers["etag"]}
    assert api.get(path, headers=tag).status_code == 304
    succeed(sessions, study["cells"][1]["jobs"][0]["id"], 10, accuracies=[0.5], gpus=2)
    assert api.get(path, headers=tag).json()["curves"][0]["cells"][1]["mean"] == [0.5]
    assert api.get("/v1/studies/nostudy/curves").status_code == 404


def test_a_study_that_has_just_begun_has_a_report_and_no_picture_while_many_are_drawn(
    api: TestClient, submit_study: Callable[..., Json], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"/v1/studies/{submit_study()['id']}/report"
    report = api.get(path).json()
    assert (report["complete"], report["target"], report["best"]) == (False, None, {})
    assert [cell["unfinished"] for cell in report["cells"]] == [2] * 4
    assert report["findings"] == ["8 of 8 jobs have not ended: the figures will change."]
    for form in ("markdown", "csv", "png"):
        assert api.get(path, params={"format": form}).status_code == 200

    while drawing._WAITING_OR_DRAWING.acquire(blocking=False):
        pass
    try:
        answer = api.get(path, params={"format": "png"})
    finally:
        drawing._WAITING_OR_DRAWING.release(4)
    assert (answer.status_code, "retry-after" in answer.headers) == (503, True)
    monkeypatch.setattr(drawing.sys, "executable", "/bin/false")
    answer = api.get(path, params={"format": "png"})
    assert (answer.status_code, answer.json()["type"]) == (500, "urn:hora:problem:internal-error")
