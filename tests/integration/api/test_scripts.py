"""What the API says about finished scripts, which report any metrics, or none, and about a study of them."""

from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from jobs.db.engine import Sessions
from jobs.runtime.settings import Settings
from tests.integration.api.answers import created, wrong_fields
from tests.integration.api.starting_rows import TOKEN
from tests.integration.api.studies.study_jobs import job_ids
from tests.integration.jobs.job_rows import a_host
from tests.integration.script_runs import regression, run, script_of

# From the third epoch on it overfits. The rank starts at 0 s, reports from 5.1 s to 25 s, and ends at 60 s.
MAES = [0.5, 0.3, 0.2, 0.21, 0.25, 0.3, 0.33, 0.35, 0.4, 0.45]
TRAINING = [0.5, 0.3, 0.2, 0.16, 0.12, 0.1, 0.09, 0.08, 0.07, 0.06]


@pytest.fixture
def configuration(database: str, tmp_path: Path) -> Settings:
    return Settings(database_url=database, broker_url="memory://", token=TOKEN, home=tmp_path, code="on")


def ran(api: TestClient, sessions: Sessions, folder: Path, reports: list[Any], **spec: Any) -> str:
    """The id of a script that reported this."""
    job_id: str = created(api, "/v1/jobs", script_of(sessions, **spec))["id"]
    run(sessions, job_id, folder, reports, epochs_run=10, train_samples_per_s=320.0)
    return job_id


def ledger(analysis: dict[str, Any]) -> dict[str, float]:
    """The seconds of both slots together."""
    return {item: round(seconds, 3) for item, seconds in analysis["ledger"]["items"].items() if seconds}


def test_a_regression_is_judged_by_its_error(api: TestClient, sessions: Sessions, tmp_path: Path) -> None:
    a_host(sessions)
    reports = regression(MAES, training=TRAINING, steps=20)
    job_id = ran(api, sessions, tmp_path, reports)
    analysis = api.get(f"/v1/jobs/{job_id}/analysis").json()
    learning = analysis["learning"]
    assert (learning["metric"], learning["best_epoch"], learning["epochs_run"]) == ("val_mae", 3, 10)
    assert (learning["best"], learning["last"], learning["overfits_by"]) == (0.2, 0.45, "val_mae")
    [finding] = analysis["findings"]
    assert finding["text"].startswith("val_mae got 125 % worse than its best value, but better in training.")
    assert analysis["steps"] == [], "it measured no waits, so nobody knows what its steps were spent on"
    spent = {"launch": 20.0, "set_up": 10.2, "useful": 11.8, "after_best": 28.0, "idle": 70.0}
    assert ledger(analysis) == pytest.approx(spent)
    (advice,) = api.get(f"/v1/jobs/{job_id}/advice").json()["items"]
    assert advice["rule"] == "early_stopping"
    assert advice["change"] == {"early_stopping": {"monitor": "val_mae", "patience": 3, "min_delta": 0.0}}
    clone = api.post(f"/v1/jobs/{job_id}/clone", json=advice["change"])
    assert clone.json()["spec"]["early_stopping"]["monitor"] == "val_mae"


def test_a_script_that_reports_few_steps_did_not_stall_and_one_that_reports_nothing_is_useful(
    api: TestClient, sessions: Sessions, tmp_path: Path
) -> None:
    a_host(sessions)
    reports = [report for report in regression([0.5] * 3, epoch_s=18.0, steps=200) if report.step in {100, 300, 500}]
    analysis = api.get(f"/v1/jobs/{ran(api, sessions, tmp_path, reports)}/analysis").json()
    assert (analysis["stalls"], analysis["learning"]) == ([], None)
    assert ledger(analysis) == pytest.approx({"launch": 20.0, "set_up": 28.0, "useful": 72.0, "idle": 20.0})

    job_id = ran(api, sessions, tmp_path, [])
    analysis = api.get(f"/v1/jobs/{job_id}/analysis").json()
    assert (analysis["learning"], analysis["findings"]) == (None, [])
    assert ledger(analysis) == {"launch": 20.0, "useful": 120.0}
    job = api.get(f"/v1/jobs/{job_id}").json()
    assert (job["metrics"], job["progress"]["epochs"], job["progress"]["steps"]) == ({}, None, None)
    assert api.get(f"/v1/jobs/{job_id}/advice").json()["items"] == []


def test_a_script_is_quoted_from_runs_of_the_same_script(api: TestClient, sessions: Sessions, tmp_path: Path) -> None:
    a_host(sessions)
    spec = script_of(sessions, params={"lr": 1}, epochs=200)
    before = api.post("/v1/jobs?dry_run=true", json=spec).json()
    assert (before["quote"], before["warnings"]) == (None, [])
    job_id = ran(api, sessions, tmp_path, regression(MAES), params={"lr": 1}, epochs=200)
    quote = api.post("/v1/jobs?dry_run=true", json=spec).json()["quote"]
    assert (quote["basis"], quote["jobs"], quote["epochs"]) == ("same_spec", [job_id], None)
    assert (quote["wall_s"]["mean"], quote["setup_s"]["mean"]) == (20.0, 2.0)
    assert api.post("/v1/jobs?dry_run=true", json=spec | {"params": {"lr": 2}}).json()["quote"] is None


def test_a_study_of_a_regression_is_about_its_error(api: TestClient, sessions: Sessions, tmp_path: Path) -> None:
    a_host(sessions)
    base = script_of(sessions, params={"optimizer": {"name": "sgd"}})
    grid = {"params.optimizer.lr": [0.1, 0.01]}
    study = api.post("/v1/studies", json={"name": "rates", "base": base, "grid": grid, "repeats": 2}).json()
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
    assert (first["values"], first["metrics"]["val_mae"]["values"]) == ({"params.optimizer.lr": 0.1}, [0.31, 0.35])
    assert (list(first["metrics"]), first["val_accuracy"]) == (["val_mae", "mae", "val_r2"], None)
    assert (second["time_to_target_s"]["values"], report["best"]["goal"]) == ([4.0, 6.0], 1)
    asked = api.get(path, params={"target": 0.405}).json()
    assert [cell["reached_target"] for cell in asked["cells"]] == [2, 2]
    assert wrong_fields(api.get(path, params={"target": "nan"})) == ["target"]
