"""Deleting jobs over HTTP: a deleted job is nowhere, an article keeps its jobs, and the audit log says who did it."""

import re
from collections.abc import Callable
from typing import Any

from fastapi.testclient import TestClient

from jobs.db.engine import Sessions
from tests.integration.api.rights.table import ROWS
from tests.integration.api.starting_rows import an_attempt, end_job, metric_points

Submit = Callable[..., str]


def test_a_deleted_job_is_nowhere(api: TestClient, submit_job: Submit, sessions: Sessions) -> None:
    kept, job_id = submit_job(), submit_job(name="penguins")
    an_attempt(sessions, job_id)
    metric_points(sessions, job_id, [(step, 0.5) for step in range(50)])
    end_job(sessions, job_id)
    address = f"/v1/jobs/{job_id}"
    known = {path: api.get(path).headers["ETag"] for path in (address, f"{address}/logs", "/v1/jobs")}
    assert api.delete(address).status_code == 204
    for path, tag in known.items():
        assert api.get(path, headers={"If-None-Match": tag}).status_code == (200 if path == "/v1/jobs" else 404), path
    of_jobs = [row.route.split() for row in ROWS if " /v1/jobs/{job_id}" in row.route]
    assert len(of_jobs) > 20
    for method, path in of_jobs:
        body: dict[str, Any] = {"json": {}} if method in ("POST", "PATCH") else {}
        answer = api.request(method, re.sub(r"\{[^}]*\}", "0", path.replace("{job_id}", job_id)), **body)
        assert (answer.status_code, method == "HEAD" or answer.json()["type"]) == (
            404, method == "HEAD" or "urn:hora:problem:job-not-found",
        ), (method, path)  # fmt: skip
    assert api.get(f"/v1/jobs/{job_id[:6]}").status_code == 404
    assert [job["id"] for job in api.get("/v1/jobs").json()["items"]] == [kept]
    assert api.get("/v1/jobs", params={"search": "penguins"}).json()["items"] == []
    assert job_id not in api.get("/v1/metrics", params={"job": [kept, job_id], "name": "loss"}).text
    (entry,) = api.get("/v1/audit", params={"action": "job.deleted"}).json()["items"]
    what = {"name": "penguins", "owner": "admin", "project": "default", "status": "failed"}
    assert (entry["subject"], entry["actor"], entry["data"]) == (job_id, "admin", what)


def test_a_job_in_an_article_of_its_own_people_stays_until_it_is_not_shown(
    client_of: Callable[..., TestClient], submit_job: Submit, sessions: Sessions
) -> None:
    ada, eve = client_of("ada"), client_of("eve")
    job_id = ada.post(f"/v1/jobs/{submit_job()}/clone").json()["id"]
    end_job(sessions, job_id)
    only_named = f"See {job_id}.\n\n```hora\ntable: name\njobs: 00\n```"
    chart = f"```hora\nchart: loss\njobs: 0123456789ab, {job_id}\n```"
    _, of_stranger, article = (
        who.post("/v1/articles", json={"project": "default", "title": "Curves", "text": text}).json()["id"]
        for who, text in ((ada, only_named), (eve, chart), (ada, chart))
    )
    refused = ada.delete(f"/v1/jobs/{job_id}")
    why = f"job {job_id} cannot be deleted: article {article} shows it; remove it there first"
    assert (refused.status_code, refused.json()["type"]) == (409, "urn:hora:problem:job-in-use")
    assert refused.json()["detail"] == why
    changed = {"version": 1, "text": "Nothing."}
    assert ada.patch(f"/v1/articles/{article}", json=changed).status_code == 200, "older versions do not count"
    assert ada.delete(f"/v1/jobs/{job_id}").status_code == 204
    assert eve.get(f"/v1/articles/{of_stranger}").status_code == 200
