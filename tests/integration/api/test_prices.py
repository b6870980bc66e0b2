"""What jobs cost by the prices of the service: an hour of an attempt's slots, a job, and the cells of a report."""

from typing import Any

import pytest
from fastapi.testclient import TestClient

from jobs.db.engine import Sessions
from jobs.model.states import Status
from jobs.runtime.settings import Settings
from tests.integration.api.starting_rows import a_host, an_attempt, client_with, seconds
from tests.integration.api.studies.study_jobs import Json, bring_to
from tests.integration.jobs.test_usage_history import share


@pytest.fixture
def configuration(configuration: Settings) -> Settings:
    return configuration.model_copy(update={"gpu_hour_price": "default=2,h100=4,cpu=0.1"})


def test_each_slot_of_an_attempt_has_the_price_of_its_own_model(api: TestClient, sessions: Sessions) -> None:
    job_id = api.post("/v1/jobs", json={"dataset": "digits"}).json()["id"]
    shares = [share("NVIDIA H100 80GB HBM3", "Tesla T4"), share("NVIDIA H100 80GB HBM3", "cpu", host="hb")]
    an_attempt(sessions, job_id, 1, gpus=4, shares=shares)
    a_host(sessions, "hc", slots=2)
    an_attempt(sessions, job_id, 2, gpus=1, shares=[{"host": "hc", "slots": [0]}])
    an_attempt(sessions, job_id, 3, gpus=1, shares=[{"host": "gone", "slots": [0]}])

    path = f"/v1/jobs/{job_id}/attempts"
    prices = [attempt["price_per_hour"] for attempt in api.get(path).json()["items"]]
    assert prices == pytest.approx([4 + 2 + 4 + 0.1, 0.1, 2])


def test_jobs_have_the_usage_of_all_their_attempts(api: TestClient, sessions: Sessions) -> None:
    job_ids = [api.post("/v1/jobs", json={"dataset": "digits"}).json()["id"] for _ in range(3)]
    both = [share("NVIDIA H100 NVL", "NVIDIA H100 NVL", host="hb"), share("Tesla T4", host="ha")]
    for number, shares in enumerate(([share("Tesla T4")], both, both), 1):  # twice on the same slots
        times = {"created_at": seconds(0), "ended_at": seconds(3600)}
        an_attempt(sessions, job_ids[0], number, gpus=len(shares), shares=shares, **times)
    an_attempt(sessions, job_ids[1], 1, shares=[share("cpu")], created_at=seconds(1800), ended_at=seconds(1800))

    def read(**params: Any) -> list[Json]:
        return [job["usage"] for job in api.get("/v1/jobs", params={"sort": "created_at", **params}).json()["items"]]

    first, second, none = read()
    devices = ["NVIDIA H100 NVL", "Tesla T4"]
    assert first == {"hosts": ["hb", "ha"], "devices": devices, "gpu_hours": 7, "cost": 2 + 2 * 10}
    assert second == {"hosts": ["ha"], "devices": ["cpu"], "gpu_hours": 0, "cost": 0}
    assert none == {"hosts": [], "devices": [], "gpu_hours": 0, "cost": 0}
    assert api.get(f"/v1/jobs/{job_ids[0]}").json()["usage"] == first


def test_cells_of_a_report_have_the_cost_of_all_attempts(
    api: TestClient, sessions: Sessions, configuration: Settings
) -> None:
    grid = {"base": {"dataset": "digits"}, "grid": {"batch_size": [32, 64]}}
    study = api.post("/v1/studies", json=grid).json()
    job_ids = [cell["jobs"][0]["id"] for cell in study["cells"]]
    for job_id, devices in zip(job_ids, (["cpu", "Tesla T4"], ["NVIDIA H100 NVL"]), strict=True):
        bring_to(sessions, job_id, Status.LAUNCHING, Status.RUNNING, Status.SUCCEEDED, wall_s=10, epochs_run=1)
        for number, device in enumerate(devices, 1):
            times = {"created_at": seconds(0), "ended_at": seconds(1800 * number)}
            an_attempt(sessions, job_id, number, gpus=1, shares=[share(device)], **times)
    path = f"/v1/studies/{study['id']}/report"

    answer = api.get(path)
    report = answer.json()
    assert [cell["cost"]["mean"] for cell in report["cells"]] == pytest.approx([0.05 + 2, 2])
    assert report["best"]["cost"] == 1
    page = api.get(path, params={"format": "markdown"}).text
    assert "| GPU time | cost |" in page
    assert "| 1.5 h | 2.05 |" in page
    assert "cost,cost_low,cost_high" in api.get(path, params={"format": "csv"}).text

    tag = {"If-None-Match": answer.headers["etag"]}
    for price, cost in (("h100=4", None), ("1", 1.5)):
        with client_with(configuration, gpu_hour_price=price) as client:
            cell = client.get(path, headers=tag).json()["cells"][0]  # another price is another answer
            assert (cell["cost"] and cell["cost"]["mean"]) == cost
