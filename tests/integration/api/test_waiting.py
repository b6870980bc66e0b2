"""Pausing, resuming, and what the API says of jobs that wait."""

from collections.abc import Callable
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import event, func, update

from jobs.db.engine import Sessions
from jobs.db.tables import Host
from jobs.lifecycle import leases, store
from jobs.model.states import EndReason, Status
from jobs.scheduling import placing
from jobs.scheduling.decisions import Placement, Share
from tests.integration.api.starting_rows import a_host, seconds

Submit = Callable[..., str]


def get(api: TestClient, job_id: str) -> dict[str, Any]:
    job: dict[str, Any] = api.get(f"/v1/jobs/{job_id}").json()
    return job


def test_a_queued_job_is_paused_and_resumed(api: TestClient, submit_job: Submit, sessions: Sessions) -> None:
    a_host(sessions)
    first, second = submit_job(), submit_job()
    assert get(api, second)["waiting"]["position"] == 2

    paused = [api.post(f"/v1/jobs/{first}/pause") for _ in range(2)]
    assert [answer.status_code for answer in paused] == [202, 202]
    assert paused[0].json() == paused[1].json()
    assert (paused[0].json()["status"], paused[0].json()["paused_at"] is None) == ("queued", False)
    assert get(api, first)["waiting"] == {"position": None, "reason": "paused", "starts_in_s": None}
    assert get(api, second)["waiting"]["position"] == 1
    listed = {job["id"]: job["waiting"] for job in api.get("/v1/jobs").json()["items"]}
    assert listed == {job_id: get(api, job_id)["waiting"] for job_id in (first, second)}
    ids = {value: [job["id"] for job in api.get(f"/v1/jobs?paused={value}").json()["items"]] for value in (True, False)}
    assert ids == {True: [first], False: [second]}

    resumed = api.post(f"/v1/jobs/{first}/resume")
    assert (resumed.status_code, resumed.json()["paused_at"]) == (202, None)
    assert [get(api, job_id)["waiting"]["position"] for job_id in (first, second)] == [1, 2]
    kinds = [event["kind"] for event in api.get(f"/v1/jobs/{first}/events").json()["items"]]
    assert kinds == ["submitted", "pause_requested", "resumed"]


def test_a_job_that_ended_is_neither_paused_nor_resumed(api: TestClient, submit_job: Submit) -> None:
    job_id = submit_job()
    api.post(f"/v1/jobs/{job_id}/cancel")
    for verb in ("pause", "resume"):
        answer = api.post(f"/v1/jobs/{job_id}/{verb}")
        assert (answer.status_code, answer.json()["type"]) == (409, "urn:hora:problem:job-ended")
        assert api.post(f"/v1/jobs/0000/{verb}").status_code == 404
    assert get(api, job_id)["waiting"] is None


def test_a_change_sends_a_hint_to_the_dispatcher(
    api: TestClient, app: FastAPI, submit_job: Submit, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id, sent_hints = submit_job(), list[str]()
    for verb in ("pause", "resume", "cancel"):
        monkeypatch.setattr(app.state.services.hints, "dispatch", lambda verb=verb: sent_hints.append(verb))
        api.post(f"/v1/jobs/{job_id}/{verb}")
    assert sent_hints == ["pause", "resume", "cancel"]


def test_the_tag_of_a_queued_job_changes_with_what_it_waits_for(
    api: TestClient, submit_job: Submit, sessions: Sessions
) -> None:
    a_host(sessions, slots=2)
    ahead, behind = submit_job(), submit_job()
    url = f"/v1/jobs/{behind}"
    tag = api.get(url).headers["etag"]
    assert api.get(url, headers={"If-None-Match": tag}).status_code == 304

    api.post(f"/v1/jobs/{ahead}/cancel")
    moved = api.get(url, headers={"If-None-Match": tag})
    assert (moved.status_code, moved.json()["waiting"]["position"]) == (200, 1)
    with sessions.begin() as session:
        session.execute(update(Host).values(heartbeat_at=seconds(-(10**9))))
    lost = api.get(url, headers={"If-None-Match": moved.headers["etag"]})
    assert (lost.status_code, lost.json()["waiting"]["reason"]) == (200, "no host is alive")
    assert lost.json()["revision"] == moved.json()["revision"]


def test_an_unchanged_job_that_runs_costs_one_small_query(
    api: TestClient, app: FastAPI, submit_job: Submit, sessions: Sessions
) -> None:
    url = f"/v1/jobs/{(job_id := submit_job())}"
    with sessions.begin() as session:
        store.transition(session, job_id, Status.LAUNCHING)
    job = api.get(url)
    assert job.json()["waiting"] is None
    tag = job.headers["etag"]
    statements: list[str] = []
    event.listen(app.state.services.engine, "before_cursor_execute", lambda *call: statements.append(call[2]))
    assert api.get(url, headers={"If-None-Match": tag}).status_code == 304
    assert len(statements) == 1
    assert "spec" not in statements[0]


def test_a_job_shows_its_lost_hosts_and_when_each_attempt_was_queued_and_due(
    api: TestClient, submit_job: Submit, sessions: Sessions
) -> None:
    a_host(sessions)
    job_id = submit_job()
    with sessions.begin() as session:
        (lease,) = placing.place(session, [Placement(job_id, (Share("ha", (0, 1)),), due_s=60.0)], lease_s=60)
    with sessions.begin() as session:
        leases.end(session, lease, EndReason.HOST_LOST)
        session.execute(update(Host).values(heartbeat_at=func.now()))
    job, (attempt,) = get(api, job_id), api.get(f"/v1/jobs/{job_id}/attempts").json()["items"]
    assert (job["losses"], job["restarts"]) == (1, 0)
    assert attempt["queued_at"] == job["created_at"] < attempt["due_at"]
