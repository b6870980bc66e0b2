"""Artifacts go when they are old or by a request, but not while a job needs them."""

from datetime import timedelta
from typing import Any

from fastapi.testclient import TestClient
from sqlalchemy import func, update

from jobs.data import artifacts
from jobs.db.engine import Sessions
from jobs.db.tables import Job
from jobs.lifecycle.named_jobs import lock_named, problems_of_named
from jobs.lifecycle.store import touch, transition
from jobs.model.spec import spec_from
from jobs.model.states import Status
from tests.integration.api.answers import problem
from tests.integration.api.artifacts.conftest import path_of
from tests.integration.api.starting_rows import SPEC


def spec_starting_from(job_id: str) -> dict[str, Any]:
    return SPEC | {"model": {"name": spec_from(SPEC).model.name, "weights": f"job:{job_id}"}}


def ended_long_ago(sessions: Sessions, job_id: str) -> None:
    with sessions.begin() as session:
        for status in (Status.LAUNCHING, Status.RUNNING, Status.SUCCEEDED):
            transition(session, job_id, status)
        ended_at = func.now() - timedelta(days=366)
        session.execute(update(Job).where(Job.id == job_id).values(ended_at=ended_at))


def give_up(sessions: Sessions) -> bool:
    with sessions.begin() as session:
        return artifacts.mark_artifacts_removed(session, keep_days=365)


def test_artifacts_that_were_removed_are_reported_as_gone(api: TestClient, sessions: Sessions, job_id: str) -> None:
    before = api.get(f"/v1/jobs/{job_id}").json()
    assert before["artifacts_removed_at"] is None
    assert not give_up(sessions)  # it goes on
    ended_long_ago(sessions, job_id)
    assert give_up(sessions)
    assert not give_up(sessions)
    after = api.get(f"/v1/jobs/{job_id}").json()
    assert after["artifacts_removed_at"] is not None
    assert after["revision"] > before["revision"]
    assert api.get(path_of(job_id)).json()["items"] == []
    problem(api.get(path_of(job_id, "model.keras")), 410, "artifacts-removed")
    assert api.get(path_of(job_id, "../x%00")).status_code == 404
    refused = api.post("/v1/jobs", json=spec_starting_from(job_id))
    assert refused.status_code == 422
    assert [error["field"] for error in refused.json()["errors"]] == ["model.weights"]
    assert "were removed on" in refused.json()["detail"]

    with sessions.begin() as session:  # its checkpoints are still there, and can be removed too
        touch(session, job_id, checkpoint_bytes=5)
    assert api.delete(path_of(job_id)).status_code == 204
    with sessions() as session:
        assert session.get_one(Job, job_id).checkpoint_bytes == 0
    assert api.get(f"/v1/jobs/{job_id}").json()["artifacts_removed_at"] == after["artifacts_removed_at"]


def test_weights_are_kept_until_jobs_that_start_from_them_have_ended(
    api: TestClient, sessions: Sessions, job_id: str
) -> None:
    ended_long_ago(sessions, job_id)
    started = api.post("/v1/jobs", json=spec_starting_from(job_id)).json()["id"]
    assert not give_up(sessions)
    refused = problem(api.delete(path_of(job_id)), 409, "artifacts-in-use")
    assert f"job {started} starts from its weights" in refused["detail"]
    api.post(f"/v1/jobs/{started}/cancel")
    assert give_up(sessions)
    assert api.delete(path_of(job_id)).status_code == 204


def test_a_submission_and_the_removal_of_its_weights_take_turns(
    api: TestClient, sessions: Sessions, job_id: str
) -> None:
    ended_long_ago(sessions, job_id)
    spec = spec_from(spec_starting_from(job_id))
    with sessions.begin() as submitting:
        assert problems_of_named(spec, lock_named(submitting, [spec])) == []
        assert not give_up(sessions)  # the row is held
    assert give_up(sessions)
    with sessions.begin() as submitting:
        (problem,) = problems_of_named(spec, lock_named(submitting, [spec]))
        assert "removed" in problem.message


def test_files_are_removed_only_of_jobs_that_have_ended(api: TestClient, job_id: str, sessions: Sessions) -> None:
    assert api.get(f"/v1/jobs/{job_id}").json()["checkpoint_bytes"] is None, "nothing was measured"
    problem(api.delete(path_of(job_id)), 409, "artifacts-in-use")
    with sessions.begin() as session:
        transition(session, job_id, Status.CANCELLED)
        touch(session, job_id, checkpoint_bytes=5, artifact_bytes=7)
    job = api.get(f"/v1/jobs/{job_id}").json()
    assert (job["checkpoint_bytes"], job["artifact_bytes"]) == (5, 7)
    assert api.delete(path_of("nowhere")).status_code == 404
    revisions = []
    for _ in range(2):
        assert api.delete(path_of(job_id)).status_code == 204
        revisions.append(api.get(f"/v1/jobs/{job_id}").json()["revision"])
    assert revisions[0] == revisions[1], "repeating it changes nothing"
    assert api.get(path_of(job_id)).json()["items"] == []
    assert api.get(path_of(job_id, "model.keras")).json()["type"] == "urn:hora:problem:artifacts-removed"
    with sessions() as session:
        job = session.get_one(Job, job_id)
        assert (job.checkpoint_bytes, job.artifact_bytes) == (0, 0)
    entries = api.get("/v1/audit", params={"action": "job.artifacts_removed"}).json()["items"]
    assert [entry["subject"] for entry in entries] == [job_id], "the second request changed nothing"
