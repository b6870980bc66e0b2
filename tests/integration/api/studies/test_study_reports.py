"""The report of a study over HTTP, in all its formats."""

import csv
import io
from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient

from api.processes import drawing
from jobs.db.engine import Sessions
from jobs.telemetry.ingest import ALL_RANKS
from tests.integration.api.starting_rows import a_host, an_attempt, metric_points, seconds
from tests.integration.api.studies.study_jobs import Json, job_ids, succeed, wrong_fields


def test_the_report_is_computed_from_the_results_of_the_jobs(api: TestClient, finished_study: Json) -> None:
    report = api.get(f"/v1/studies/{finished_study['id']}/report").json()

    assert (report["complete"], report["scaling"], report["baseline"]) == (True, "weak", {"gpus": 1})
    assert report["target"] == {"metric": "val_accuracy", "value": 0.86, "chosen_by": "results"}
    assert [cell["values"] for cell in report["cells"]] == [cell["values"] for cell in finished_study["cells"]]
    assert [cell["jobs"] for cell in report["cells"]] == [
        [j["id"] for j in cell["jobs"]] for cell in finished_study["cells"]
    ]
    assert [cell["wall_s"]["mean"] for cell in report["cells"]] == [12, 18, 12, 9]
    assert [cell["speedup"] for cell in report["cells"]] == [1, 1, 1, 2]
    assert [cell["efficiency"] for cell in report["cells"]] == [1, 1, 0.5, 1]
    assert [cell["hosts"] for cell in report["cells"]] == [1, 1, 1, 1]
    assert report["cells"][3]["gpu_hours"]["values"] == pytest.approx([2 * 10 / 3600, 2 * 12 / 3600])
    assert report["cells"][3]["time_to_target_s"]["values"] == pytest.approx([8, 10])
    assert report["cells"][3]["accuracy_agreement"]["agrees"] is True
    assert report["best"]["wall_s"] == 3
    assert "dataset.label a|b: 2 GPUs ran at 2x the speed of 1 (efficiency 1)." in report["findings"]

    report_for_target = api.get(f"/v1/studies/{finished_study['id']}/report", params={"target": 0.8}).json()
    assert report_for_target["target"] == {"metric": "val_accuracy", "value": 0.8, "chosen_by": "request"}
    assert report_for_target["cells"][3]["time_to_target_s"]["values"] == pytest.approx([8 * 2 / 3, 10 * 2 / 3])
    assert wrong_fields(api.get(f"/v1/studies/{finished_study['id']}/report", params={"target": 2})) == ["target"]


def test_epochs_that_were_run_again_count_once(api: TestClient, sessions: Sessions, submit_study: Any) -> None:
    study = submit_study(grid={}, repeats=1, target=0.8)
    [job_id] = job_ids(study)
    succeed(sessions, job_id, 3, accuracies=[0.5, 0.9, 0.95], gpus=1)
    an_attempt(sessions, job_id, 2, gpus=1, resumed_step=4, created_at=seconds(10), ended_at=seconds(20))
    metric_points(sessions, job_id, [(8, 0.7), (12, 0.85)], name="val_accuracy", rank=ALL_RANKS, attempt=2)
    metric_points(sessions, job_id, [(8, 2.0), (12, 2.0)], name="epoch_s", rank=ALL_RANKS, attempt=2)

    report = api.get(f"/v1/studies/{study['id']}/report").json()
    assert report["target"]["chosen_by"] == "study"
    [cell] = report["cells"]
    assert cell["time_to_target_s"]["mean"] == pytest.approx(1 + 2 + 2)
    assert cell["gpu_hours"]["mean"] == pytest.approx((5 + 10) / 3600)


def test_a_repeat_that_stalled_is_set_aside_unless_it_is_asked_for(
    api: TestClient, sessions: Sessions, submit_study: Callable[..., Json]
) -> None:
    study = submit_study(grid={"gpus": [1, 2]}, repeats=3)
    for cell, walls in zip(study["cells"], [(10, 12, 200), (5, 6, 7)], strict=True):
        for job, wall_s in zip(cell["jobs"], walls, strict=True):
            succeed(sessions, job["id"], wall_s, accuracies=[0.5, 0.8], gpus=cell["gpus"])
    path, stalled = f"/v1/studies/{study['id']}/report", study["cells"][0]["jobs"][2]["id"]

    report = api.get(path).json()
    assert [(each["job_id"], each["cell"], each["figure"], each["value"]) for each in report["outliers"]] == [
        (stalled, 0, "epoch_s", 100)
    ]
    assert report["outliers_set_aside"] is True
    assert report["cells"][0]["wall_s"]["values"] == [10, 12]
    assert report["cells"][0]["with_outliers"]["wall_s"]["values"] == [10, 12, 200]
    assert report["cells"][0]["val_accuracy"]["values"] == [0.8] * 3
    assert report["cells"][1]["with_outliers"] is None
    assert report["cells"][1]["speedup"] == pytest.approx(11 / 6)
    sentence = f"Job {stalled} (1 GPU) stalled: each epoch took 17x the median time. The figures of speed "
    assert f"{sentence}are without it." in report["findings"]
    page = api.get(path, params={"format": "markdown"}).text
    assert "| 1 | 3\\* |" in page
    assert "They took more than 1.5 x the median time, and" in page
    assert "| gpus 1 | 74.00 ± 271.08 | 11.00 ± 12.71 |" in page
    table = api.get(path, params={"format": "csv"}).text
    assert [row["wall_s_with_outliers"] for row in csv.DictReader(io.StringIO(table))] == ["74.0", ""]

    kept = api.get(path, params={"outliers": "keep"}).json()
    assert (kept["outliers"], kept["outliers_set_aside"]) == (report["outliers"], False)
    assert kept["cells"][0]["wall_s"]["values"] == [10, 12, 200]
    assert kept["cells"][1]["speedup"] == pytest.approx(74 / 6)
    assert f"{sentence}have it." in kept["findings"]
    assert wrong_fields(api.get(path, params={"outliers": "drop"})) == ["outliers"]


def test_loss_curves_are_compared_without_points_that_are_void(
    api: TestClient, sessions: Sessions, submit_study: Callable[..., Json]
) -> None:
    study = submit_study(grid={"gpus": [1, 2]}, repeats=2)
    for cell in study["cells"]:
        for job in cell["jobs"]:
            succeed(sessions, job["id"], 10, accuracies=[0.5, 0.8], gpus=cell["gpus"])
            noise = 0.01 * job["repeat"]
            curve = [(4, 2.0 + noise), (8, 1.0 + noise if cell["gpus"] == 1 else 7.0)]
            metric_points(sessions, job["id"], curve, name="val_loss", rank=ALL_RANKS)
            metric_points(sessions, job["id"], [(4, 1.0), (8, float("nan"))], rank=ALL_RANKS)
    path = f"/v1/studies/{study['id']}/report"
    assert api.get(path).json()["cells"][1]["loss_agreement"]["val_loss"]["agrees"] is False

    for job in study["cells"][1]["jobs"]:  # each was restarted from the end of its first epoch
        an_attempt(sessions, job["id"], 2, gpus=2, resumed_step=4, created_at=seconds(20), ended_at=seconds(30))
        metric_points(sessions, job["id"], [(8, 1.0)], name="val_loss", rank=ALL_RANKS, attempt=2)
        metric_points(sessions, job["id"], [(8, 0.5)], rank=ALL_RANKS, attempt=2)

    report = api.get(path).json()
    one, two = report["cells"]
    assert one["loss_agreement"] == {}
    agreement = two["loss_agreement"]["val_loss"]
    assert (agreement["epochs"], agreement["agrees"]) == (2, True)
    assert agreement["difference"] == pytest.approx(0.0025)
    assert two["loss_agreement"]["loss"] == {
        "epochs": 2, "difference": None, "relative": None, "chance": None, "agrees": False,
    }  # fmt: skip
    assert "The curve of val_loss on more GPUs agrees with that on 1 GPU in 1 of 1 cell." in report["findings"]
    assert "loss on 2 GPUs has another curve than on 1: one of the two diverged." in report["findings"]
    assert "| loss diverged, val_loss 0.17 % |" in api.get(path, params={"format": "markdown"}).text
    table = api.get(path, params={"format": "csv"}).text
    assert [row["loss_agreement.val_loss.agrees"] for row in csv.DictReader(io.StringIO(table))] == ["", "true"]


def test_curves_have_the_mean_and_the_range_of_each_cell(
    api: TestClient, sessions: Sessions, submit_study: Callable[..., Json]
) -> None:
    study = submit_study(grid={"gpus": [1, 2]}, repeats=2)
    for job, accuracies in zip(study["cells"][0]["jobs"], ([0.5, 0.8], [0.7, 0.9]), strict=True):
        succeed(sessions, job["id"], 10, accuracies=accuracies, gpus=1)
        metric_points(sessions, job["id"], [(4, 2.0), (8, float("nan"))], rank=ALL_RANKS)
    answer = api.get(f"/v1/studies/{study['id']}/curves")

    gaps = {"repeats": 2, "epoch": [1, 2], "mean": [2, None], "low": [2, None], "high": [2, None]}
    known = {"repeats": 2, "epoch": [1, 2], "mean": [0.6, 0.85], "low": [0.5, 0.8], "high": [0.7, 0.9]}
    curves = [{"metric": "val_accuracy", "cells": [known, None]}, {"metric": "loss", "cells": [gaps, None]}]
    assert answer.json() == {"study_id": study["id"], "curves": curves}
    tag = {"If-None-Match": answer.headers["etag"]}
    assert api.get(f"/v1/studies/{study['id']}/curves", headers=tag).status_code == 304
    succeed(sessions, study["cells"][1]["jobs"][0]["id"], 10, accuracies=[0.5], gpus=2)
    second = api.get(f"/v1/studies/{study['id']}/curves", headers=tag).json()["curves"][0]["cells"][1]
    assert (second["repeats"], second["mean"]) == (1, [0.5])
    assert api.get("/v1/studies/nostudy/curves").status_code == 404


def test_a_study_of_devices_has_speedups_against_the_cpu(
    api: TestClient, sessions: Sessions, submit_study: Callable[..., Json]
) -> None:
    a_host(sessions, "hc")
    a_host(sessions, "hg", kind="gpu")
    study = submit_study(grid={"device": ["cpu", "gpu"]}, repeats=1)
    for cell, wall_s in zip(study["cells"], (600, 8), strict=True):
        succeed(sessions, cell["jobs"][0]["id"], wall_s, accuracies=[0.8], gpus=1)
    path = f"/v1/studies/{study['id']}/report"

    report = api.get(path).json()
    assert [cell["speedup_vs_cpu"] for cell in report["cells"]] == [1, 75]
    assert [cell["throughput_vs_cpu"] for cell in report["cells"]] == [1, 75]
    assert "1 GPU ran at 75x the speed of the CPU." in report["findings"]
    assert "| gpu | 1 | 1 | 75.00 | 8.00 |" in api.get(path, params={"format": "markdown"}).text
    rows = list(csv.DictReader(io.StringIO(api.get(path, params={"format": "csv"}).text)))
    assert [row["speedup_vs_cpu"] for row in rows] == ["1.0", "75.0"]


def test_a_study_that_has_just_begun_has_a_report(api: TestClient, submit_study: Callable[..., Json]) -> None:
    path = f"/v1/studies/{submit_study()['id']}/report"
    report = api.get(path).json()

    assert (report["complete"], report["target"], report["best"]) == (False, None, {})
    assert [cell["unfinished"] for cell in report["cells"]] == [2] * 4
    assert report["findings"] == ["8 of 8 jobs have not ended: the figures will change."]
    for form in ("markdown", "csv", "png"):
        assert api.get(path, params={"format": form}).status_code == 200


def test_the_report_as_markdown_csv_and_picture(
    api: TestClient, finished_study: Json, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"/v1/studies/{finished_study['id']}/report"
    page = api.get(path, params={"format": "markdown"})
    assert page.headers["content-type"] == "text/markdown; charset=utf-8"
    [row] = [line for line in page.text.splitlines() if line.startswith("| 2 | a\\|b |")]
    assert "| 2.00 | 1.00 | 9.00 ± 12.71 |" in row

    table = api.get(path, params={"format": "csv"})
    assert table.headers["content-type"] == "text/csv; charset=utf-8"
    rows = list(csv.DictReader(io.StringIO(table.text)))
    assert [row["dataset.label"] for row in rows] == ["'=1+1", "a|b", "'=1+1", "a|b"]
    assert [float(row["speedup"]) for row in rows] == [1, 1, 1, 2]

    monkeypatch.setenv("HORA_TOKEN", "secret")
    picture = api.get(path, params={"format": "png"})
    assert (picture.status_code, picture.headers["content-type"]) == (200, "image/png")
    assert picture.content.startswith(b"\x89PNG\r\n\x1a\n")
    assert picture.content.endswith(b"IEND\xaeB`\x82")


def test_too_many_pictures_at_once_are_refused(
    api: TestClient, finished_study: Json, monkeypatch: pytest.MonkeyPatch
) -> None:
    while drawing._WAITING_OR_DRAWING.acquire(blocking=False):
        pass
    try:
        answer = api.get(f"/v1/studies/{finished_study['id']}/report", params={"format": "png"})
    finally:
        drawing._WAITING_OR_DRAWING.release(4)
    assert (answer.status_code, "retry-after" in answer.headers) == (503, True)


def test_a_picture_that_cannot_be_drawn_is_an_internal_error(
    api: TestClient, finished_study: Json, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawing.sys, "executable", "/bin/false")
    answer = api.get(f"/v1/studies/{finished_study['id']}/report", params={"format": "png"})
    assert (answer.status_code, answer.json()["type"]) == (500, "urn:hora:problem:internal-error")
