"""What those are told who may not change a job or a study. `rights` says who may."""

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


@pytest.mark.parametrize(("collection", "document"), [("jobs", SPEC | {"project": "vision"}), ("studies", STUDY)])
def test_a_refusal_names_the_owner_and_the_project(
    people: dict[str, TestClient], submitted_by: Callable[..., str], collection: str, document: dict[str, Any]
) -> None:
    answer = post_action(people["otto"], submitted_by(collection, document), "cancel")
    assert "belongs to olga, in the project vision" in answer.json()["detail"]


def test_an_unknown_job_is_not_found_for_every_user(people: dict[str, TestClient]) -> None:
    for client in people.values():
        assert {post_action(client, "/v1/jobs/0000", action).status_code for action in JOB_ACTIONS} == {404}
        assert {post_action(client, "/v1/studies/0000", action).status_code for action in STUDY_ACTIONS} == {404}
