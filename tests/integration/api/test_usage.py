"""The usage of the past over HTTP: the range, the keys, the table for spreadsheets, and what is refused."""

import csv
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import update

from jobs.db.engine import Sessions
from jobs.db.tables import Job
from jobs.runtime.settings import Settings
from tests.integration.api.starting_rows import an_attempt
from tests.integration.api.test_projects import field_error, problem

ClientOf = Callable[..., TestClient]
Submit = Callable[..., str]


@pytest.fixture
def configuration(configuration: Settings) -> Settings:
    return configuration.model_copy(update={"gpu_hour_price": "h100=4,cpu=0.5"})


@pytest.fixture
def used(sessions: Sessions, submit_job: Submit) -> Callable[..., str]:
    """Makes a job that held two slots of `ha` for some hours from the beginning of a day on. Returns its id."""

    def use(day: str, *, hours: float = 1, device: str = "cpu", owner: str = "admin", **fields: Any) -> str:
        job_id = submit_job(**fields)
        since = datetime.fromisoformat(day).replace(tzinfo=UTC)
        times = {"created_at": since, "ended_at": since + timedelta(hours=hours)}
        shares = [{"host": "ha", "slots": [0, 1], "devices": [device] * 2}]
        an_attempt(sessions, job_id, shares=shares, **times)
        with sessions.begin() as session:
            session.execute(update(Job).where(Job.id == job_id).values(owner=owner))
        return job_id

    return use


def test_usage_by_project_and_month_and_as_a_table_for_spreadsheets(api: TestClient, used: Callable[..., str]) -> None:
    api.post("/v1/projects", json={"name": "vision"})
    used("2025-04-30", hours=48)
    used("2025-05-02", project="vision", device="NVIDIA H100 NVL")
    answer = api.get("/v1/usage", params={"from": "2025-04-01", "until": "2025-05-31"})
    nothing = {"user": None, "host": None, "device": None}
    assert answer.json() == {
        "first_day": "2025-04-01",
        "last_day": "2025-05-31",
        "by": ["project"],
        "period_length": "month",
        "items": [
            {"period": "2025-04-01", "project": "default", **nothing, "gpu_hours": 48, "jobs": 1, "cost": 24},
            {"period": "2025-05-01", "project": "default", **nothing, "gpu_hours": 48, "jobs": 1, "cost": 24},
            {"period": "2025-05-01", "project": "vision", **nothing, "gpu_hours": 2, "jobs": 1, "cost": 8},
        ],
        "total": {"gpu_hours": 98, "jobs": 2, "cost": 56},
    }

    used("2025-06-01", owner="=cmd()", device="Tesla T4")
    used("2025-06-01", owner='a,"b"')
    june = {"from": "2025-06-01", "until": "2025-06-30", "by": ["user", "host"], "period": "day", "format": "csv"}
    table = api.get("/v1/usage", params=june)
    assert table.headers["Content-Type"] == "text/csv; charset=utf-8"
    assert table.headers["Content-Disposition"] == 'inline; filename="usage-2025-06-01-2025-06-30.csv"'
    assert list(csv.reader(table.text.splitlines())) == [
        ["period", "user", "host", "gpu_hours", "jobs", "cost"],
        ["2025-06-01", "'=cmd()", "ha", "2.0", "1", ""],
        ["2025-06-01", 'a,"b"', "ha", "2.0", "1", "1.0"],
    ]


def test_the_cost_of_a_project_is_that_of_its_usage_this_month(api: TestClient, used: Callable[..., str]) -> None:
    api.post("/v1/projects", json={"name": "vision"})
    month = datetime.now(UTC).strftime("%Y-%m-01")
    used(month, hours=0.25, device="NVIDIA H100 NVL", project="vision")
    moved = used(month, hours=0.125, project="vision")
    api.post(f"/v1/jobs/{moved}/cancel")
    assert api.patch(f"/v1/jobs/{moved}", json={"project": "default"}).status_code == 200
    usage = api.get("/v1/usage", params={"project": "vision", "from": month}).json()["total"]
    assert usage == {"gpu_hours": 0.75, "jobs": 2, "cost": 2 * (1 + 0.0625)}
    assert api.get("/v1/projects/vision").json()["usage"]["cost"] == usage["cost"]
    assert api.get("/v1/projects/default").json()["usage"]["cost"] == 0


def test_a_range_has_a_length(api: TestClient) -> None:
    for longest, earlier, why in (
        ({"from": "2024-01-01", "until": "2024-12-31", "period": "day"}, "2023-12-31", "are 367 days; at most 366"),
        ({"from": "2020-01-31", "until": "2024-12-01"}, "2019-12-31", "are 61 months; at most 60"),
    ):
        assert api.get("/v1/usage", params=longest).status_code == 200
        assert why in field_error(api.get("/v1/usage", params=longest | {"from": earlier}), "from")
    assert "must not be after until" in field_error(api.get("/v1/usage", params={"from": "2999-01-01"}), "from")


def test_every_wrong_parameter_is_named(api: TestClient, used: Callable[..., str], subtests: pytest.Subtests) -> None:
    api.post("/v1/projects", json={"name": "vision"})
    used("2025-05-01", owner="ada")
    cases: list[tuple[dict[str, Any], str, str]] = [
        ({"from": "yesterday"}, "from", "must be a date, such as"),
        ({"by": "projct"}, "by.0", "did you mean 'project'?"),
        ({"by": ["project", "user", "host"]}, "by", "must have at most 2 items, not 3"),
        ({"untill": "2025-05-01"}, "untill", "did you mean until?"),
        ({"project": "visoin"}, "project", "there is no such project; did you mean vision?"),
        ({"user": "adaa"}, "user", "there is no such user; did you mean ada?"),
    ]
    for params, field, words in cases:
        with subtests.test(params=params):
            assert words in field_error(api.get("/v1/usage", params=params), field)
    wrong = {"from": "2025-01-02", "until": "2025-01-01", "project": "nobody", "user": "nobody"}
    errors = problem(api.get("/v1/usage", params=wrong), 422, "invalid-request")["errors"]
    assert [(error["field"], error["received"]) for error in errors] == [
        ("from", "2025-01-02"), ("project", "nobody"), ("user", "nobody"),
    ]  # fmt: skip
