"""The beginning of an id wherever a request names a job or a study: it stands for the only id that begins so."""

from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select

from jobs.db.engine import Sessions
from jobs.db.tables import Job, JobWait
from tests.integration.api.starting_rows import SPEC

Submit = Callable[..., str]

FIRST, SECOND = "7kq000000000", "7kqzzzzzzzzz"
BOTH = f"{FIRST}, {SECOND} begin so; write more of the id"


@pytest.fixture
def two_jobs(submit_job: Submit, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as known:
        known.setattr("jobs.lifecycle.submission.new_id", iter([FIRST, SECOND]).__next__)
        assert [submit_job(), submit_job()] == [FIRST, SECOND]


def errors(answer: Any) -> list[tuple[str, str, str | None]]:
    assert answer.status_code == 422, answer.text
    return [(error["field"], error["message"], error.get("received")) for error in answer.json()["errors"]]


@pytest.mark.usefixtures("two_jobs")
def test_a_job_is_found_by_the_beginning_of_its_id(api: TestClient) -> None:
    assert api.get("/v1/jobs/7kq0").json()["id"] == FIRST
    assert api.get("/v1/jobs/7kqz/logs").json()["items"] == []
    assert api.post("/v1/jobs/7kqzz/cancel").json()["id"] == SECOND
    for path in ("/v1/jobs/7kq", "/v1/jobs/7kq/events"):
        assert errors(api.get(path)) == [("job_id", BOTH, "7kq")]
    for unknown in ("7kr", f"{FIRST}0"):
        assert api.get(f"/v1/jobs/{unknown}").status_code == 404


@pytest.mark.usefixtures("two_jobs")
def test_a_spec_names_jobs_by_beginnings_and_is_stored_with_whole_ids(api: TestClient, sessions: Sessions) -> None:
    spec = SPEC | {"after": ["7kqz", FIRST], "model": {"name": "lenet5", "weights": "job:7kq0"}}
    preview = api.post("/v1/jobs?dry_run=true", json=spec).json()["spec"]
    job = api.post("/v1/jobs", json=spec).json()
    for stored in (preview, job["spec"]):
        assert (stored["after"], stored["model"]["weights"]) == ([SECOND, FIRST], f"job:{FIRST}")
    with sessions() as session:
        waits = session.scalars(select(JobWait.on_job_id).where(JobWait.job_id == job["id"])).all()
    assert sorted(waits) == [FIRST, SECOND]
    study = api.post("/v1/studies", json={"base": SPEC, "grid": {"after": [["7kq0"], ["7kqz"]]}}).json()
    jobs = api.get("/v1/jobs", params={"study": study["id"][:11], "sort": "created_at"}).json()["items"]
    assert [job["spec"]["after"] for job in jobs] == [[FIRST], [SECOND]]

    refused = SPEC | {"after": [FIRST, "7kq"], "model": {"name": "lenet5", "weights": "job:7kq"}}
    assert errors(api.post("/v1/jobs", json=refused)) == [
        ("after.1", BOTH, "7kq"), ("model.weights", BOTH, "job:7kq"),
    ]  # fmt: skip
    grid = {"after": [["7kq0"], ["7kq"]]}
    ((field, message, _),) = errors(api.post("/v1/studies", json={"base": SPEC, "grid": grid}))
    assert (field, message) == ("grid.after[1].0", BOTH)
    (unknown,) = errors(api.post("/v1/jobs", json=SPEC | {"after": ["7kr"]}))
    assert unknown[1].startswith("there is no such job")
    with sessions() as session:
        assert len(session.scalars(select(Job.id)).all()) == 5  # nothing of these was stored


def test_a_repeated_submission_gets_its_first_answer_also_if_the_beginning_has_become_ambiguous(
    api: TestClient, submit_job: Submit, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as known:
        known.setattr("jobs.lifecycle.submission.new_id", iter([FIRST, "222222222222", SECOND]).__next__)
        submit_job()
        request = {"json": SPEC | {"after": ["7kq"]}, "headers": {"Idempotency-Key": "once"}}
        job = api.post("/v1/jobs", **request).json()
        submit_job()
    again = api.post("/v1/jobs", **request)
    assert (again.status_code, again.json()["id"]) == (201, job["id"])
    assert again.headers["Idempotency-Replayed"] == "true"


@pytest.mark.usefixtures("two_jobs")
def test_queries_take_beginnings(api: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    several = api.get("/v1/metrics", params={"job": ["7kqz", FIRST], "name": "loss"}).json()["jobs"]
    assert [job["id"] for job in several] == [SECOND, FIRST]
    with monkeypatch.context() as known:
        known.setattr("jobs.insight.studies.store.new_id", iter(["9ab000000000", "9abzzzzzzzzz"]).__next__)
        for name in ("first", "second"):
            assert api.post("/v1/studies", json={"name": name, "base": SPEC, "grid": {}}).status_code == 201
    assert errors(api.get("/v1/metrics", params={"job": ["7kqz", "7kq"], "name": "loss"})) == [("job", BOTH, "7kq")]

    def found(study: str) -> set[str]:
        return {job["study"] for job in api.get("/v1/jobs", params={"study": study}).json()["items"]}

    assert (found("9ab0"), found("none"), found("9abzzzzzzzzz")) == ({"9ab000000000"}, {None}, {"9abzzzzzzzzz"})
    assert found("9ac") == set()
    ((field, message, _),) = errors(api.get("/v1/jobs", params={"study": "9ab"}))
    assert (field, message) == ("study", "9ab000000000, 9abzzzzzzzzz begin so; write more of the id")
    assert errors(api.get("/v1/jobs", params={"study": "No-Id"}))[0][0] == "study"
