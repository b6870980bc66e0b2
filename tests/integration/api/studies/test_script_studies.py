"""A study of a regression script: its report is about `val_mae`, which is better when lower."""

import csv
import io
from collections.abc import Callable
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from jobs.db.engine import Sessions
from jobs.runtime.settings import Settings
from tests.integration.api.starting_rows import TOKEN
from tests.integration.api.studies.study_jobs import Json, job_ids, wrong_fields
from tests.integration.jobs.job_rows import a_host
from tests.integration.script_runs import regression, run, script_of


@pytest.fixture
def configuration(database: str, tmp_path: Path) -> Settings:
    return Settings(database_url=database, broker_url="memory://", token=TOKEN, home=tmp_path, code="on")


def test_a_study_of_a_regression_is_about_its_error(
    api: TestClient, sessions: Sessions, submit_study: Callable[..., Json], tmp_path: Path
) -> None:
    a_host(sessions)
    base = script_of(sessions, params={"optimizer": {"name": "sgd"}})
    study = submit_study(base=base, grid={"params.optimizer.lr": [0.1, 0.01]}, repeats=2)
    path = f"/v1/studies/{study['id']}/report"
    assert api.get(path).json()["goal"] is None
    assert api.get(path, params={"format": "png", "target": 5}).status_code == 200

    curves = [[0.5, 0.4, 0.31], [0.5, 0.4, 0.35], [0.5, 0.29, 0.2], [0.5, 0.41, 0.21]]
    for job_id, maes in zip(job_ids(study), curves, strict=True):
        run(sessions, job_id, tmp_path, regression(maes), epochs_run=3, train_samples_per_s=64.0)

    report = api.get(path).json()
    assert report["goal"] == {"metric": "val_mae", "mode": "min"}
    assert report["target"] == {"metric": "val_mae", "value": 0.35, "chosen_by": "results"}
    first, second = report["cells"]
    assert first["metrics"]["val_mae"]["values"] == [0.31, 0.35]
    assert list(first["metrics"]) == ["val_mae", "mae", "val_r2"]
    assert (first["val_accuracy"], report["best"]["goal"]) == (None, 1)
    assert second["time_to_target_s"]["values"] == [4.0, 6.0]
    assert [cell["values"] for cell in report["cells"]] == [{"params.optimizer.lr": rate} for rate in (0.1, 0.01)]
    assert "params.optimizer.lr 0.1 instead of params.optimizer.lr 0.01: val_mae 61 % higher." in report["findings"]

    asked = api.get(path, params={"target": 0.405}).json()
    assert [cell["reached_target"] for cell in asked["cells"]] == [2, 2]
    assert [cell["time_to_target_s"]["mean"] for cell in asked["cells"]] == [4.0, 5.0]
    assert wrong_fields(api.get(path, params={"target": "nan"})) == ["target"]
    page = api.get(path, params={"format": "markdown"}).text
    assert "The goal is val_mae: lower is better." in page
    rows = list(csv.DictReader(io.StringIO(api.get(path, params={"format": "csv"}).text)))
    assert [float(row["metrics.val_mae"]) for row in rows] == pytest.approx([0.33, 0.205])
