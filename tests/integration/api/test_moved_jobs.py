"""Moving jobs to another project over HTTP: who may, what moves with them, and what is refused."""

from collections.abc import Callable

from fastapi.testclient import TestClient
from sqlalchemy import func, update

from jobs.db.engine import Sessions
from jobs.db.tables import Job, ProjectUsage
from jobs.model.states import Status
from tests.integration.api.answers import problem
from tests.integration.api.starting_rows import SPEC, end_job
from tests.integration.api.test_job_changes import errors, events

ClientOf = Callable[..., TestClient]
Submit = Callable[..., str]


def stored_gb(api: TestClient, project: str) -> float:
    usage: float = api.get(f"/v1/projects/{project}").json()["usage"]["storage_gb"]
    return usage


def test_an_ended_job_moves_with_its_files_and_its_gpu_hours_stay(
    api: TestClient, submit_job: Submit, sessions: Sessions
) -> None:
    api.post("/v1/projects", json={"name": "vision", "max_storage_gb": 3})
    job_id = submit_job()
    end_job(sessions, job_id, stored_bytes=2 * 10**9)
    with sessions.begin() as session:
        month = func.date_trunc("month", func.now(), "UTC")
        session.add(ProjectUsage(project="default", month=month, slot_seconds=7200))
    before = api.get(f"/v1/jobs/{job_id}").json()
    for _ in range(2):  # the second time changes nothing
        moved = api.patch(f"/v1/jobs/{job_id}", json={"project": "vision"}).json()
        assert (moved["project"], moved["spec"]) == ("vision", before["spec"] | {"project": "vision"})
        assert moved["revision"] == before["revision"] + 1
    change = {"by": "admin", "before": {"project": "default"}, "after": {"project": "vision"}}
    assert events(api, job_id) == [change]
    assert [stored_gb(api, name) for name in ("default", "vision")] == [0, 2]
    assert api.get("/v1/projects/default").json()["usage"]["gpu_hours"] == 2
    assert [job["id"] for job in api.get("/v1/jobs", params={"project": "vision"}).json()["items"]] == [job_id]
    assert api.post(f"/v1/jobs/{job_id}/clone").json()["project"] == "vision"


def test_files_beyond_the_quota_of_the_new_project_are_refused(
    api: TestClient, submit_job: Submit, sessions: Sessions
) -> None:
    api.post("/v1/projects", json={"name": "vision", "max_storage_gb": 3})
    first, second, small = submit_job(), submit_job(), submit_job()
    for job_id, stored_bytes in ((first, 2 * 10**9), (second, 2 * 10**9), (small, 0)):
        end_job(sessions, job_id, stored_bytes=stored_bytes)
    to = {"json": {"project": "vision", "name": "moved"}}
    assert api.patch(f"/v1/jobs/{first}", **to).status_code == 200
    refused = api.patch(f"/v1/jobs/{second}", **to)
    why = "the project vision keeps 2 of 3 GB; this would add 2: remove files of it or of other jobs first"
    assert problem(refused, 409, "quota-exceeded")["detail"] == why
    job = api.get(f"/v1/jobs/{second}").json()
    assert (job["project"], job["name"], job["revision"]) == ("default", "digits-lenet5-2x64", 1)
    assert api.patch(f"/v1/jobs/{small}", **to).status_code == 200, "what stores nothing fits"


def test_it_takes_the_rights_for_both_projects(api: TestClient, client_of: ClientOf, sessions: Sessions) -> None:
    for name, is_open in (("vision", True), ("closed", False), ("ours", False)):
        api.post("/v1/projects", json={"name": name, "is_open": is_open})
    ada, bob, eve = client_of("ada"), client_of("bob"), client_of("eve")
    api.put("/v1/projects/ours/members/bob")
    job_id = ada.post("/v1/jobs", json=SPEC).json()["id"]
    end_job(sessions, job_id)

    def status(client: TestClient, project: str) -> int:
        return client.patch(f"/v1/jobs/{job_id}", json={"project": project}).status_code

    assert status(eve, "vision") == status(bob, "ours") == 403, "it is not theirs"
    assert errors(ada.patch(f"/v1/jobs/{job_id}", json={"project": None})).keys() == {"project"}
    assert status(ada, "closed") == 403
    assert (status(ada, "vision"), status(api, "ours"), status(bob, "vision")) == (200, 200, 200)
    assert status(bob, "ours") == 403, "it is in another project now"


def test_a_job_that_has_not_ended_stays(api: TestClient, submit_job: Submit, sessions: Sessions) -> None:
    api.post("/v1/projects", json={"name": "vision"})
    job_id = submit_job()
    for status in (Status.QUEUED, Status.LAUNCHING, Status.RUNNING):
        with sessions.begin() as session:
            session.execute(update(Job).values(status=status))
        refused = api.patch(f"/v1/jobs/{job_id}", json={"project": "vision"})
        why = f"job {job_id} is {status}: it can move to another project when it has ended; cancel it, or wait"
        assert problem(refused, 409, "job-not-ended")["detail"] == why
        assert api.patch(f"/v1/jobs/{job_id}", json={"project": "default"}).status_code == 200, "it is there"
