"""Who may change a job or a study: its owner, members of its project, and admins."""

from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient

from jobs.db.engine import Sessions
from jobs.db.tables import Project, ProjectMember
from tests.integration.api.starting_rows import SPEC

Clients = Callable[..., TestClient]

STUDY = {"name": "grid", "base": SPEC | {"project": "vision"}, "grid": {"batch_size": [32, 64]}}
JOB_ACTIONS = ("cancel", "pause", "resume")
STUDY_ACTIONS = ("cancel", "pause", "resume", "notes")


@pytest.fixture
def people(sessions: Sessions, client_of: Clients) -> dict[str, TestClient]:
    """Olga owns the job or study; Mia is in its project; Otto is not; Ann is an admin."""
    with sessions.begin() as session:
        session.add(Project(name="vision"))
    clients = {"olga": client_of("olga"), "mia": client_of("mia"), "otto": client_of("otto")}
    with sessions.begin() as session:
        session.add(ProjectMember(project="vision", user_name="mia"))
    return clients | {"ann": client_of("ann", "admin")}


@pytest.fixture
def submitted_by(people: dict[str, TestClient]) -> Callable[..., str]:
    """Submits a job or a study as Olga. Returns its path."""

    def submit(collection: str, document: dict[str, Any]) -> str:
        answer = people["olga"].post(f"/v1/{collection}", json=document)
        assert answer.status_code == 201, answer.text
        return f"/v1/{collection}/{answer.json()['id']}"

    return submit


def post_action(client: TestClient, path: str, action: str) -> Any:
    """The answer to an action."""
    return client.post(f"{path}/{action}", json={"text": "well done"} if action == "notes" else None)


def test_every_user_can_clone_any_job(people: dict[str, TestClient], submitted_by: Callable[..., str]) -> None:
    path = submitted_by("jobs", SPEC | {"project": "vision"})
    clone = post_action(people["otto"], path, "clone")
    assert (clone.status_code, clone.json()["owner"]) == (201, "otto")


@pytest.mark.parametrize("action", JOB_ACTIONS)
def test_others_can_read_a_job_but_not_change_it(
    people: dict[str, TestClient], submitted_by: Callable[..., str], action: str
) -> None:
    for who in ("olga", "mia", "ann"):
        path = submitted_by("jobs", SPEC | {"project": "vision"})
        assert post_action(people[who], path, action).status_code in (201, 202)
    before = people["otto"].get(path).json()  # everybody reads
    answer = post_action(people["otto"], path, action)
    assert answer.status_code == 403
    assert "belongs to olga, in the project vision" in answer.json()["detail"]
    assert people["otto"].get(path).json() == before


@pytest.mark.parametrize("action", STUDY_ACTIONS)
def test_others_cannot_change_a_study(
    people: dict[str, TestClient], submitted_by: Callable[..., str], action: str
) -> None:
    path = submitted_by("studies", STUDY)
    for who in ("olga", "mia", "ann"):
        assert post_action(people[who], path, action).status_code in (201, 202)
    answer = post_action(people["otto"], path, action)
    assert answer.status_code == 403
    assert "belongs to olga, in the project vision" in answer.json()["detail"]


def test_members_of_a_project_cannot_change_jobs_of_another(
    people: dict[str, TestClient], submitted_by: Callable[..., str]
) -> None:
    path = submitted_by("jobs", SPEC)

    assert post_action(people["mia"], path, "cancel").status_code == 403
    assert post_action(people["ann"], path, "cancel").status_code == 202


def test_an_unknown_job_is_not_found_for_every_user(people: dict[str, TestClient]) -> None:
    for client in people.values():
        assert {post_action(client, "/v1/jobs/0000", action).status_code for action in JOB_ACTIONS} == {404}
        assert {post_action(client, "/v1/studies/0000", action).status_code for action in STUDY_ACTIONS} == {404}
