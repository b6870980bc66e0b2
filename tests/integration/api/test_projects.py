"""Projects over HTTP: who creates and limits them, what they show, and which jobs they take."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import func, select, update

from jobs.db.engine import Sessions
from jobs.db.tables import Attempt, Job
from jobs.model.states import EndReason, Status
from tests.integration.api.answers import errors_of, pages_of, problem
from tests.integration.api.starting_rows import SPEC, a_host
from tests.integration.jobs.job_rows import an_attempt, end_attempt

ClientOf = Callable[..., TestClient]
STUDY = {"name": "grid", "base": SPEC | {"project": "vision"}, "grid": {"batch_size": [32, 64]}, "repeats": 2}


@pytest.fixture
def vision(api: TestClient) -> Callable[..., dict[str, Any]]:
    """Make or change the project `vision`."""

    def change(**values: Any) -> dict[str, Any]:
        answer = api.patch("/v1/projects/vision", json=values)
        if answer.status_code == 404:
            answer = api.post("/v1/projects", json={"name": "vision"} | values)
        assert answer.status_code in (200, 201), answer.text
        document: dict[str, Any] = answer.json()
        return document

    return change


def field_error(answer: Any, field: str) -> str:
    errors = errors_of(answer)
    assert errors.keys() == {field}
    return errors[field]


def test_a_project_is_created_changed_read_and_listed(api: TestClient) -> None:
    document = {"name": "vision", "description": "Images", "max_slots": 4, "max_gpu_hours": 100, "share": 2.5}
    created = api.post("/v1/projects", json=document)
    assert (created.status_code, created.headers["Location"]) == (201, "/v1/projects/vision")
    project = created.json()
    assert (project["is_open"], project["max_slots"], project["max_queued"], project["revision"]) == (True, 4, None, 1)
    assert (project["usage"]["slots"], project["members"], project["archived_at"]) == (0, [], None)
    problem(api.post("/v1/projects", json=document), 409, "project-exists")
    changed = api.patch("/v1/projects/vision", json={"max_slots": None, "max_queued": 9}).json()
    assert (changed["max_slots"], changed["max_queued"], changed["max_gpu_hours"]) == (None, 9, 100)
    assert (changed["description"], changed["revision"], changed["share"]) == ("Images", 2, 2.5)
    assert api.get("/v1/projects/vision").json() == changed
    for share in (1000, 1e-3, 3):
        assert api.patch("/v1/projects/vision", json={"share": share}).json()["share"] == share
    assert api.patch("/v1/projects/default", json={"max_slots": 8, "is_open": True}).json()["max_slots"] == 8
    for field, value in (("is_open", False), ("is_archived", True)):
        answer = api.patch("/v1/projects/default", json={field: value})
        assert "it can be limited, but not closed or archived" in field_error(answer, field)
    for name in ("zebra", "apes"):
        assert api.post("/v1/projects", json={"name": name}).json()["share"] == 1
    listed = [[project["name"] for project in page] for page in pages_of(api, "/v1/projects", limit=2)]
    assert listed == [["apes", "default"], ["vision", "zebra"]]
    for unknown in (
        api.get("/v1/projects/nobody"), api.patch("/v1/projects/nobody", json={}), api.get("/v1/projects/No%20Name"),
        api.put("/v1/projects/nobody/members/admin"), api.delete("/v1/projects/nobody/members/admin"),
    ):  # fmt: skip
        problem(unknown, 404, "project-not-found")


def test_an_invalid_project_is_refused_at_its_field(api: TestClient) -> None:
    assert field_error(api.post("/v1/projects", json={"name": "No Name"}), "name")
    api.post("/v1/projects", json={"name": "vision"})
    wrong = [
        ("share", "0", "greater than 0"), ("share", "1e999", "finite"), ("share", "NaN", "finite"),
        ("max_queued", str(2**31), "at most"), ("description", '"a\\u0007b"', ""), ("is_open", "null", ""),
        ("colour", '"red"', "no such field"), ("idle", '"stop"', ""), ("idle.for_s", '{"for_s": 59}', ""),
    ]  # fmt: skip
    headers = {"Content-Type": "application/json"}
    for field, value, why in wrong:
        name = field.partition(".")[0]
        created = api.post("/v1/projects", content=f'{{"name": "x", "{name}": {value}}}', headers=headers)
        changed = api.patch("/v1/projects/vision", content=f'{{"{name}": {value}}}', headers=headers)
        for answer in (created, changed):
            assert why in field_error(answer, field), value


def test_a_project_says_what_to_do_with_idle_slots(api: TestClient) -> None:
    new = {"name": "vision", "idle": {"action": "stop"}}
    assert api.post("/v1/projects", json=new).json()["idle"] == {"below": 5, "for_s": 1800, "action": "stop"}
    changed = api.patch("/v1/projects/vision", json={"idle": {"for_s": 60}}).json()
    assert changed["idle"] == {"below": 5, "for_s": 60, "action": "stop"}, "the other fields stay"
    assert api.patch("/v1/projects/vision", json={"idle": None}).json()["idle"] is None
    only_some = api.patch("/v1/projects/vision", json={"idle": {"action": "pause"}}).json()["idle"]
    assert only_some == {"below": 5, "for_s": 1800, "action": "pause"}, "the others have their defaults"


def test_members_are_added_and_removed(api: TestClient, client_of: ClientOf) -> None:
    api.post("/v1/projects", json={"name": "vision"})
    client_of("ada"), client_of("bob")
    for user in ("bob", "ada", "ada"):
        assert api.put(f"/v1/projects/vision/members/{user}").status_code == 200
    assert api.get("/v1/projects/vision").json()["members"] == ["ada", "bob"]
    assert api.delete("/v1/projects/vision/members/bob").status_code == 204
    assert api.delete("/v1/projects/vision/members/bob").status_code == 204
    project = api.get("/v1/projects/vision").json()
    assert (project["members"], project["revision"]) == (["ada"], 4)
    problem(api.put("/v1/projects/vision/members/nobody"), 404, "user-not-found")
    changes = api.get("/v1/audit", params={"subject": "vision"}).json()["items"]
    assert [(one["action"], one["data"].get("user")) for one in changes][:3] == [
        ("project.member_removed", "bob"), ("project.member_added", "ada"), ("project.member_added", "bob"),
    ]  # fmt: skip


def test_a_project_says_what_counts_against_its_quotas(
    api: TestClient, sessions: Sessions, submit_job: Callable[..., str], vision: Callable[..., Any]
) -> None:
    vision(max_slots=4)
    a_host(sessions)
    running = submit_job(project="vision")
    submit_job(project="vision")
    first = api.get("/v1/projects/vision")
    tag = {"If-None-Match": first.headers["ETag"]}
    assert first.json()["usage"]["queued"] == 2
    assert api.get("/v1/projects/vision", headers=tag).status_code == 304
    lease = an_attempt(sessions, running)
    changed = api.get("/v1/projects/vision", headers=tag).json()["usage"]
    assert (changed["slots"], changed["queued"]) == (2, 1)
    with sessions.begin() as session:
        session.execute(update(Attempt).values(created_at=func.now() - timedelta(hours=1)))
    end_attempt(sessions, lease)
    assert 0 < api.get("/v1/projects/vision").json()["usage"]["gpu_hours"] < 2.1


def test_a_job_needs_a_project_that_exists_is_not_archived_and_could_hold_it(
    api: TestClient, client_of: ClientOf, vision: Callable[..., Any]
) -> None:
    vision()
    ada, spec = client_of("ada"), SPEC | {"project": "vision"}
    unknown = "there is no such project; there are: default, vision"
    for query in ("", "?dry_run=true"):
        assert field_error(ada.post(f"/v1/jobs{query}", json=SPEC | {"project": "nobody"}), "project") == unknown
    assert field_error(ada.post("/v1/studies", json={"base": SPEC | {"project": "nobody"}}), "base.project") == unknown
    vision(is_archived=True)
    message = field_error(ada.post("/v1/jobs", json=spec), "project")
    assert message == "this project is archived; there are: default"
    vision(is_archived=False)
    assert ada.post("/v1/jobs", json=spec).json()["project"] == "vision"
    vision(max_slots=1)
    too_large = field_error(api.post("/v1/jobs", json=spec), "gpus")
    assert too_large == "the project vision may have 1 slot at once"
    grid = {"base": spec, "grid": {"gpus": [1, 2]}}
    assert field_error(api.post("/v1/studies", json=grid), "grid.gpus[1]") == too_large
    assert api.post("/v1/jobs", json=spec | {"gpus": 1}).status_code == 201
    grid = {"base": SPEC, "grid": {"project": ["default", "vision"]}}
    varied = field_error(api.post("/v1/studies", json=grid), "grid.project")
    assert "all jobs of a study belong to one project" in varied


def test_a_full_queue_takes_no_more(api: TestClient, vision: Callable[..., Any], sessions: Sessions) -> None:
    vision(max_queued=5)
    spec, key = SPEC | {"project": "vision"}, {"Idempotency-Key": "one"}
    first, again = (api.post("/v1/jobs", json=spec, headers=key) for _ in range(2))
    assert api.post("/v1/studies", json=STUDY).status_code == 201
    assert (again.status_code, again.json()["id"]) == (201, first.json()["id"])
    for query in ("", "?dry_run=true"):
        refused = problem(api.post(f"/v1/jobs{query}", json=spec), 409, "quota-exceeded")
        assert refused["detail"] == "the project vision has 5 of 5 jobs in the queue"
        refused = problem(api.post(f"/v1/studies{query}", json=STUDY), 409, "quota-exceeded")
        assert refused["detail"] == "the project vision has 5 of 5 jobs in the queue; this would add 4"
    assert api.post("/v1/jobs", json=SPEC).status_code == 201
    with sessions() as session:
        assert session.scalar(select(func.count()).where(Job.project == "vision")) == 5


def test_resuming_a_study_needs_room_in_the_queue_of_its_project(
    api: TestClient, vision: Callable[..., Any], sessions: Sessions
) -> None:
    vision()
    study_id = api.post("/v1/studies", json=STUDY).json()["id"]
    with sessions.begin() as session:
        session.execute(update(Job).values(status=Status.FAILED, end_reason=EndReason.BAD_DATA, ended_at=func.now()))
    vision(max_queued=3)
    problem(api.post(f"/v1/studies/{study_id}/resume"), 409, "quota-exceeded")
    vision(max_queued=4, is_archived=True)
    problem(api.post(f"/v1/studies/{study_id}/resume"), 409, "project-archived")
    vision(is_archived=False)
    assert api.post(f"/v1/studies/{study_id}/resume").json()["counts"]["queued"] == 4
